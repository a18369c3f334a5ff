"""A conversation is taken up again by its id, with its events and its agent"""

from support import open_conversation, remote_workspace, turn


def stored(conversation):
    """Frames of the state are sent to each client, and are no part of the log."""
    return {
        event.id: type(event).__name__
        for event in conversation.state.events
        if type(event).__name__ != "ConversationStateUpdateEvent"
    }


with remote_workspace() as workspace:
    with open_conversation(workspace) as first:
        turn(first, "echo kept > kept.txt")
        events = stored(first)
    with open_conversation(workspace, conversation_id=first.id) as second:
        found = stored(second)
        assert found.keys() == events.keys(), [kind for id, kind in (found | events).items() if not (id in found and id in events)]
        turn(second, "grep kept kept.txt")
