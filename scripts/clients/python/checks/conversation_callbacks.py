"""Callbacks get each event once, in the order of the log"""

from support import open_conversation, remote_workspace, turn

seen = []
with remote_workspace() as workspace, open_conversation(workspace, callbacks=[seen.append]) as conversation:
    for _ in range(3):
        turn(conversation, "echo one", "echo two")
    ids = [event.id for event in seen if type(event).__name__ != "ConversationStateUpdateEvent"]
    assert len(ids) == len(set(ids)), "an event came twice"
    stored = [event.id for event in conversation.state.events if event.id in set(ids)]
    assert ids == stored, "the order is another one"
