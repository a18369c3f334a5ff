"""The conversation goes back to an earlier event and continues there"""

import httpx
from openhands.sdk.event import MessageEvent
from support import open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    turn(conversation, "echo one")
    first = next(event for event in conversation.state.events if isinstance(event, MessageEvent))
    conversation.navigate_to(first.id)
    assert conversation.state._get_conversation_info()["leaf_event_id"] == first.id
    turn(conversation, "echo two")
    try:
        conversation.navigate_to("unknown")
    except httpx.HTTPStatusError as error:
        assert error.response.status_code == 404, error
    else:
        raise AssertionError("an unknown event was accepted")
