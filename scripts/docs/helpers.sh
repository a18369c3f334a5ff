# Functions for the comments `prepare:` of the pages.

# Makes the demo's project, which has a failing test, a git repository in the folder $1.
demo_project() {
  mkdir -p "$1"
  cp -R "$DOCS_ROOT/packages/server/demo/project/." "$1"
  git -C "$1" init -q -b main
  git -C "$1" add -A
  git -C "$1" commit -q -m 'A project with a failing test'
}

# Prints the value at a path of names and indices in the JSON on standard input: field items 0 id
field() {
  python3 -c '
import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1:]:
    value = value[int(name)] if isinstance(value, list) else value[name]
print("" if value is None else value)' "$@"
}

request() { curl -sS -H "X-Session-API-Key: $KEY" -H 'content-type: application/json' "$@"; }

# Starts a sandbox and sets ID, SESSION and SANDBOX (docs/clients/agent-server.md).
new_sandbox() {
  ID=$(request -X POST "$URL/api/v1/sandboxes" | field id)
  until SESSION=$(request "$URL/api/v1/sandboxes?id=$ID" | field 0 session_api_key) && [ -n "$SESSION" ]; do sleep 0.2; done
  SANDBOX=$URL/agent/$ID
}

# Starts a conversation with the text $1, waits for the end of its run, and sets TASK and CONVERSATION.
new_conversation() {
  TASK=$(request "$URL/api/v1/app-conversations" -d '{"initial_message": {"content": [{"type": "text", "text": "'"$1"'"}]}}' | field id)
  until CONVERSATION=$(request "$URL/api/v1/app-conversations/start-tasks?ids=$TASK" | field 0 app_conversation_id) && [ -n "$CONVERSATION" ]; do sleep 0.2; done
  until [ "$(request "$URL/api/v1/app-conversations?ids=$CONVERSATION" | field 0 execution_status)" = finished ]; do sleep 0.2; done
}
