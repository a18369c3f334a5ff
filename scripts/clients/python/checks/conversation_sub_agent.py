"""A sub-agent of the task tool does its part and answers"""

from openhands.sdk import Agent, Tool
from openhands.sdk.event import ObservationEvent
from openhands.tools.task import TaskToolSet
from support import llm, open_conversation, remote_workspace

tools = [Tool(name="terminal"), Tool(name=TaskToolSet.name)]
with remote_workspace() as workspace, open_conversation(workspace, agent=Agent(llm=llm(), tools=tools)) as conversation:
    conversation.send_message('call: task {"description": "count", "prompt": "say: three", "subagent_type": "general-purpose"}\nsay: end')
    conversation.run(timeout=60)
    result = next(event for event in conversation.state.events if isinstance(event, ObservationEvent) and event.tool_name == "task")
    assert "three" in result.observation.text and not result.observation.is_error, result
