"""run() after changes of secrets, policy, analyzer and title between the message and the run"""

from openhands.sdk.security.confirmation_policy import NeverConfirm
from support import REPEAT, open_conversation, remote_workspace, turn

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    client, path = workspace.client, f"/api/conversations/{conversation.id}"

    def change():
        conversation.update_secrets({"NAME": "value"})
        conversation.set_confirmation_policy(NeverConfirm())
        conversation.set_security_analyzer(None)
        client.patch(path, json={"title": "A title"}).raise_for_status()

    for _ in range(2 * REPEAT):
        turn(conversation, "echo changed", before_run=change)
