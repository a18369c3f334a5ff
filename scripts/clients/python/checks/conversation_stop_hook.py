"""A hook on the end denies it once; the events say what each hook did"""

from openhands.sdk.event import HookExecutionEvent
from openhands.sdk.hooks import HookConfig, HookDefinition, HookMatcher
from support import open_conversation, remote_workspace, turn

DENY = "test -e denied || { touch denied; echo 'Not yet.' >&2; exit 2; }"
matcher = lambda command: [HookMatcher(matcher="*", hooks=[HookDefinition(command=command, timeout=10)])]
hooks = HookConfig(post_tool_use=matcher("""echo '{"decision": "allow"}'"""), stop=matcher(DENY))
with remote_workspace() as workspace, open_conversation(workspace, hook_config=hooks) as conversation:
    turn(conversation, "echo one")
    seen = [event for event in conversation.state.events if isinstance(event, HookExecutionEvent)]
    stops = [(event.blocked, event.exit_code) for event in seen if event.hook_event_type == "Stop"]
    assert stops[0] == (True, 2) and stops[-1] == (False, 0), stops
    after = [event for event in seen if event.hook_event_type == "PostToolUse"]
    assert after and all(event.success and not event.blocked for event in after), after
