# Runs the blocks of a page in one bash. Each line on descriptor 3 is a mode and the file of a block; the exit code, or the line of the block that
# failed, goes to descriptor 4. In the mode `strict` the first command that fails ends the shell.
set -Eeo pipefail
trap 'printf "line %s\n" "$LINENO" >&4' ERR
# shellcheck source=scripts/docs/helpers.sh
. "$1/helpers.sh"

while read -r -u 3 mode block; do
  if [ "$mode" = strict ]; then
    # shellcheck disable=SC1090 # a block of the page
    . "$block" >"$block.out" 2>&1 </dev/null
    printf 'exit 0\n' >&4
  else
    set +e
    # shellcheck disable=SC1090
    . "$block" >"$block.out" 2>&1 </dev/null
    printf 'exit %s\n' "$?" >&4
    set -e
  fi
done
