"""A hook of the client runs in the sandbox"""

from openhands.sdk.hooks import HookConfig
from support import open_conversation, remote_workspace, turn, workspace_text

hooks = HookConfig.from_dict(
    {"PreToolUse": [{"matcher": "terminal", "hooks": [{"type": "command", "command": "echo hooked >> /workspace/project/hooked.txt"}]}]}
)
with remote_workspace() as workspace, open_conversation(workspace, hook_config=hooks) as conversation:
    turn(conversation, "echo one")
    assert workspace_text(workspace, "hooked.txt") == "hooked\n"
