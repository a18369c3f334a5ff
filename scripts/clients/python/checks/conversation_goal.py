"""The state of a goal arrives as an update with the key goal"""

from support import open_conversation, remote_workspace, wait_until

seen = []
with remote_workspace() as workspace, open_conversation(workspace, callbacks=[seen.append]) as conversation:
    path = f"/api/conversations/{conversation.id}/goal"
    workspace.client.post(path, json={"objective": "Say it.", "max_iterations": 2}).raise_for_status()
    goals = lambda: [event for event in seen if getattr(event, "key", None) == "goal"]
    wait_until(goals)
    assert goals()[0].value["objective"] == "Say it.", goals()[0].value
