"""A fork continues with the events of its source"""

from support import open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    turn(conversation, "echo source > source.txt")
    fork = conversation.fork()
    assert fork.id != conversation.id
    turn(fork, "grep source source.txt")
    assert len(fork.state.events) > len(conversation.state.events)
    fork.close()
