"""A model that refuses ends run() with ConversationRunError and its reason"""

from openhands.sdk.conversation.exceptions import ConversationRunError
from support import open_conversation, remote_workspace

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    conversation.send_message("error: the model is asleep")
    try:
        conversation.run(timeout=60)
    except ConversationRunError as error:
        assert "asleep" in str(error), error
    else:
        raise AssertionError("run() returned")
