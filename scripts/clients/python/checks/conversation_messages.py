"""Messages with a sender and a picture; run() without waiting"""

from openhands.sdk import ImageContent, Message, TextContent
from openhands.sdk.event import MessageEvent
from support import info_of, open_conversation, remote_workspace, wait_until

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    content = [TextContent(text="say: seen"), ImageContent(image_urls=[PIXEL])]
    conversation.send_message(Message(role="user", content=content), sender="reviewer")
    conversation.run(blocking=False)
    wait_until(lambda: info_of(conversation)["execution_status"] == "finished")
    conversation.state.events.reconcile()
    message = next(event for event in conversation.state.events if isinstance(event, MessageEvent))
    assert message.sender == "reviewer" and message.llm_message.content[1].image_urls == [PIXEL], message
    conversation.run(timeout=60)
    assert conversation.state.model_dump()["id"] == str(conversation.id) and conversation.state.model_dump_json()
