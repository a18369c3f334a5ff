"""An action that waits for confirmation is rejected, then another one is approved"""

from openhands.sdk.security.confirmation_policy import AlwaysConfirm
from support import info_of, open_conversation, remote_workspace

with remote_workspace() as workspace, open_conversation(workspace) as conversation:
    conversation.set_confirmation_policy(AlwaysConfirm())
    conversation.send_message("run: echo asked > asked.txt")
    conversation.run(timeout=60)
    assert info_of(conversation)["execution_status"] == "waiting_for_confirmation"
    conversation.reject_pending_actions("not now")
    assert workspace.execute_command("ls asked.txt", cwd=workspace.working_dir).exit_code != 0
    conversation.send_message("run: echo approved > approved.txt")
    conversation.run(timeout=60)
    conversation.run(timeout=60)
    assert workspace.execute_command("cat approved.txt", cwd=workspace.working_dir).stdout == "approved\n"
