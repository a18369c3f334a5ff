"""Skills of the client: a keyword activates one, and the agent reads another"""

from openhands.sdk import AgentContext
from openhands.sdk.skills import KeywordTrigger, Skill
from support import agent, open_conversation, remote_workspace, workspace_text

with remote_workspace() as workspace:
    workspace.execute_command("mkdir -p skills/reader && echo text > skills/reader/SKILL.md", cwd=workspace.working_dir)
    place = f"{workspace.working_dir}/skills/reader"
    assert workspace_text(workspace, "skills/reader/SKILL.md") == "text\n"
    skills = [
        Skill(name="greeter", content="Greet the user.", trigger=KeywordTrigger(keywords=["hello there"])),
        Skill(name="reader", content="Read it.", description="Reads.", source=f"{place}/SKILL.md", is_agentskills_format=True),
    ]
    with open_conversation(workspace, agent=agent().model_copy(update={"agent_context": AgentContext(skills=skills)})) as conversation:
        assert conversation.state.invoked_skills == []
        conversation.send_message('hello there\ncall: invoke_skill {"name": "reader"}\nsay: read')
        conversation.run(timeout=60)
        conversation.state.refresh_from_server()
        assert conversation.state.activated_knowledge_skills == ["greeter"]
        assert conversation.state.invoked_skills == ["reader"]
        text = next(e.observation.text for e in conversation.state.events if getattr(e, "tool_name", "") == "invoke_skill" and hasattr(e, "observation"))
        assert place in text and text.rstrip().endswith("relative to that directory."), text
