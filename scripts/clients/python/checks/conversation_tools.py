"""Every tool: the SDK reads its calls, results and errors"""

import openhands.tools.glob
import openhands.tools.grep
from openhands.sdk import Agent, Tool
from openhands.sdk.event import AgentErrorEvent, ObservationEvent
from support import FOLDER, llm, open_conversation, remote_workspace

FILE = f'"path": "{FOLDER}/text.txt"'
CALLS = f"""run: printf 'alpha\\nbeta\\n' > {FOLDER}/text.txt
call: file_editor {{"command": "view", {FILE}}}
call: file_editor {{"command": "str_replace", {FILE}, "old_str": "beta", "new_str": "gamma"}}
call: file_editor {{"command": "undo_edit", {FILE}}}
call: task_tracker {{"command": "plan", "task_list": [{{"title": "A", "status": "todo", "notes": ""}}]}}
call: task_tracker {{"command": "view"}}
call: glob {{"pattern": "*.txt"}}
call: grep {{"pattern": "alpha"}}
call: think {{"thought": "So far."}}
call: unknown_tool {{}}
say: end"""
tools = [Tool(name=name) for name in ("terminal", "file_editor", "task_tracker", "glob", "grep")]
with remote_workspace() as workspace, open_conversation(workspace, agent=Agent(llm=llm(), tools=tools)) as conversation:
    conversation.send_message(CALLS)
    conversation.run(timeout=60)
    results = [event for event in conversation.state.events if isinstance(event, (ObservationEvent, AgentErrorEvent))]
    failed = [event.tool_name for event in results if isinstance(event, AgentErrorEvent) or event.observation.is_error]
    assert len(results) == 11 and failed == ["unknown_tool"], [(event.tool_name, event) for event in results]
