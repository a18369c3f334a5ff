"""A tool of the client: its call arrives as an event"""

from openhands.sdk.event import ActionEvent
from openhands.sdk.tool.client_tool import ClientToolSpec
from support import open_conversation, remote_workspace, turn

spec = ClientToolSpec(
    name="show_page",
    description="Shows a page to the user.",
    parameters={"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
)
with remote_workspace() as workspace, open_conversation(workspace, client_tools=[spec]) as conversation:
    turn(conversation, "echo with a client tool")
    prompt = next(event for event in conversation.state.events if type(event).__name__ == "SystemPromptEvent")
    assert "show_page" in [tool.name for tool in prompt.tools]
    conversation.send_message('call: show_page {"page": "home"}\nsay: shown')
    conversation.run(timeout=60)
    call = next(event for event in conversation.state.events if isinstance(event, ActionEvent) and event.tool_name == "show_page")
    assert "home" in call.model_dump_json(), call
