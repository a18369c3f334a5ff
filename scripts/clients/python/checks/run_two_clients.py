"""run() of two clients of one conversation, in turns"""

from support import REPEAT, agent, open_conversation, remote_workspace, turn
from openhands.sdk import RemoteWorkspace

with remote_workspace() as workspace, open_conversation(workspace) as first:
    other = RemoteWorkspace(host=workspace.host, api_key=workspace.api_key, working_dir=workspace.working_dir)
    with open_conversation(other, conversation_id=first.id) as second:
        for _ in range(REPEAT):
            turn(first, "echo first")
            turn(second, "echo second", before_run=lambda: first.update_secrets({"NAME": "value"}))
