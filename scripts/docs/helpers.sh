# Functions for the comments `prepare:` of the pages.

# Makes the demo's project, which has a failing test, a git repository in the folder $1.
demo_project() {
  mkdir -p "$1"
  cp -R "$DOCS_ROOT/packages/server/demo/project/." "$1"
  git -C "$1" init -q -b main
  git -C "$1" add -A
  git -C "$1" commit -q -m 'A project with a failing test'
}
