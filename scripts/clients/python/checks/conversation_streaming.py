"""Tokens arrive while the model answers, when the model streams"""

from support import agent, info_of, open_conversation, remote_workspace
# since: 1.50


def ask(conversation):
    """One turn whose answer is a text; calls of tools have no tokens."""
    conversation.send_message("What does it say?")
    conversation.run(timeout=100)
    assert info_of(conversation)["execution_status"] == "finished"


tokens = []
with remote_workspace() as workspace:
    with open_conversation(workspace, agent=agent(stream=True), token_callbacks=[tokens.append]) as conversation:
        ask(conversation)
    assert tokens
    silent = []
    with open_conversation(workspace, token_callbacks=[silent.append]) as conversation:
        ask(conversation)
    assert not silent, "a model that does not stream sent tokens"
