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

# Starts a registry at localhost:5000 with the image team/tools:1, which has a busybox.
local_registry() {
  local folder=~/registry each
  mkdir -p "$folder/root"
  printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s/store}}\nhttp: {addr: "localhost:5000"}\n' "$folder" >"$folder/config.yml"
  docker-registry serve "$folder/config.yml" >"$folder/log" 2>&1 &
  umoci init --layout "$folder/image"
  umoci new --image "$folder/image:1"
  umoci insert --image "$folder/image:1" "$(command -v busybox)" /bin/busybox
  for each in sh sort find cat head; do
    ln -s busybox "$folder/root/$each"
    umoci insert --image "$folder/image:1" "$folder/root/$each" "/bin/$each"
  done
  umoci config --image "$folder/image:1" --config.env PATH=/bin
  until curl -s localhost:5000/v2/ >/dev/null; do sleep 0.2; done
  skopeo copy --dest-tls-verify=false "oci:$folder/image:1" docker://localhost:5000/team/tools:1
}

# Makes `sandpiper serve` start a second server, beside that of the page, and end it once it serves.
serve_until_ready() {
  sandpiper() {
    [ "$1" = serve ] || { command sandpiper "$@"; return; }
    local log=~/second.log server
    : >"$log"
    SANDPIPER_DATA="$SANDPIPER_DATA-second" SANDPIPER_PORT="${SANDPIPER_PORT:-3001}" command sandpiper serve >"$log" 2>&1 &
    server=$!
    until grep -q "^Sandpiper serves" "$log"; do
      kill -0 "$server" 2>/dev/null || { cat "$log" && return 2; }
      sleep 0.2
    done
    kill "$server"
    wait "$server"
  }
}

# Starts a server with GitHub's API on loopback, and sets GITHUB_HOST to its address and GITHUB_TOKEN to its token.
github_server() {
  local service=$DOCS_ROOT/packages/server/test/support/git-services/github.ts
  "$DOCS_ROOT/scripts/node" --input-type=module -e "
    const { githubToken, serveGithub } = await import('$service');
    console.log(githubToken, (await serveGithub()).host);" >~/github.txt &
  until [ -s ~/github.txt ]; do sleep 0.1; done
  read -r GITHUB_TOKEN GITHUB_HOST <~/github.txt
}
