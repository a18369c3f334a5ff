"""Tokens arrive while the model answers, when the model streams"""

from support import agent, open_conversation, remote_workspace, turn
# since: 1.50

tokens = []
with remote_workspace() as workspace:
    with open_conversation(workspace, agent=agent(stream=True), token_callbacks=[tokens.append]) as conversation:
        turn(conversation, "echo streamed")
    assert tokens
    silent = []
    with open_conversation(workspace, token_callbacks=[silent.append]) as conversation:
        turn(conversation, "echo whole")
    assert not silent, "a model that does not stream sent tokens"
