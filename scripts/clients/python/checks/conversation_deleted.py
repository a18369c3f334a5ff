"""delete_on_close deletes the conversation"""

from support import open_conversation, remote_workspace, turn

with remote_workspace() as workspace:
    with open_conversation(workspace, delete_on_close=True) as conversation:
        turn(conversation, "echo deleted")
    answer = workspace.client.get(f"/api/conversations/{conversation.id}")
    assert answer.status_code == 404, answer.status_code
