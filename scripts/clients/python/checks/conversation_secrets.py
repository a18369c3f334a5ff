"""Secrets of a conversation are variables of commands, and masked in what they print"""

from support import open_conversation, remote_workspace, turn, workspace_text

with remote_workspace() as workspace, open_conversation(workspace, secrets={"TOKEN": "planted-secret"}) as conversation:
    turn(conversation, "echo $TOKEN > used.txt; echo seen $TOKEN")
    assert "planted-secret" not in "".join(event.model_dump_json() for event in conversation.state.events)
    conversation.update_secrets({"LATER": lambda: "planted-later"})
    turn(conversation, "test -n \"$LATER\" && echo has-later > later.txt")
    assert workspace_text(workspace, "later.txt") == "has-later\n"
