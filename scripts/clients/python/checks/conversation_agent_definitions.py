"""Sub-agents that the client registered are known to the server"""

from openhands.sdk import Tool
from openhands.sdk.subagent import AgentDefinition, register_agent_if_absent
from openhands.tools.preset.default import get_default_agent
from openhands.tools.task import TaskToolSet
from support import llm, open_conversation, remote_workspace, turn

register_agent_if_absent(
    name="counter",
    factory_func=lambda model: get_default_agent(llm=model, cli_mode=True),
    description=AgentDefinition(name="counter", description="Counts files.", tools=["terminal"], system_prompt="Count."),
)
base = get_default_agent(llm=llm(), cli_mode=True)
tools = [tool for tool in base.tools if tool.name != TaskToolSet.name] + [Tool(name=TaskToolSet.name)]
with remote_workspace() as workspace, open_conversation(workspace, agent=base.model_copy(update={"tools": tools})) as conversation:
    turn(conversation, "echo with sub-agents")
    prompt = next(event for event in conversation.state.events if type(event).__name__ == "SystemPromptEvent")
    assert "counter" in prompt.model_dump_json()
