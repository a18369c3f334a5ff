"""Secrets by value, by function and by reference to the user's secrets reach commands"""

from openhands.sdk.secret import StaticSecret
from pydantic import SecretStr
from support import open_conversation, platform, remote_workspace, turn, workspace_text

platform.post("/api/v1/secrets", json={"name": "LOOKED_UP", "value": "looked-up-value"})
NAMES = ["PLAIN", "STATIC", "CALLED", "LOOKED_UP"]
secrets = {"PLAIN": "plain-value", "STATIC": StaticSecret(value=SecretStr("static-value"), description="A secret.")}
with remote_workspace() as workspace, open_conversation(workspace, secrets=secrets) as conversation:
    looked_up = workspace.get_secrets(names=["LOOKED_UP"])
    conversation.update_secrets({"CALLED": lambda: "called-value", **looked_up})
    turn(conversation, f'for name in {" ".join(NAMES)}; do printenv $name > /dev/null && echo $name; done > names.txt')
    assert workspace_text(workspace, "names.txt").split() == NAMES
