/** Exit codes of the scripts below for what their callers tell apart. */
export const codes = { directory: 41, missing: 42, special: 43, tooLarge: 44, denied: 45 } as const;

/** Path, largest size. Writes the content, or the size when that is too large. A special file could block for ever and is not opened. */
export const readScript = `
[ -d "$1" ] && exit 41
if [ ! -e "$1" ]; then
  stat -L -- "$1" 2>&1 >/dev/null | grep -q denied || exit 42
  echo 'Permission denied' >&2; exit 45
fi
[ -f "$1" ] || exit 43
size=$(stat -L -c %s -- "$1") || exit 45
[ "$size" -le "$2" ] || { printf %s "$size"; exit 44; }
exec head -c "$2" <"$1"`;

/**
 * Path, size. Content comes on stdin; when less than the announced size arrives, the writer has died and the old file stays.
 * The new file is made exclusively, so that a planted link is not followed.
 */
export const writeScript = `
target=$1
if [ -L "$1" ]; then
  target=$(readlink -f -- "$1" && echo x) || { echo 'the link leads nowhere' >&2; exit 45; }
  target=\${target%?x}
fi
[ -d "$target" ] && exit 41
folder=\${target%/*}; [ -n "$folder" ] || folder=/
mkdir -p -- "$folder" || exit 45
if [ -e "$target" ]; then
  [ -w "$target" ] || { echo 'Permission denied' >&2; exit 45; }
  mode=$(stat -c %a -- "$target") || exit 45
  if [ ! -w "$folder" ] || [ ! -f "$target" ]; then cat >"$target" || exit 45; exit 0; fi
fi
new=$folder/.write-$$-$(date +%s%N)
trap 'rm -f -- "$new"' EXIT
set -C
cat >"$new" || exit 45
set +C
[ "$(wc -c <"$new")" -eq "$2" ] || { echo 'the content did not arrive completely' >&2; exit 45; }
[ -z "$mode" ] || chmod "$mode" "$new" || exit 45
mv -f -- "$new" "$target" || exit 45
trap - EXIT`;

/** Path. Writes type and permissions (hexadecimal), size and time. */
export const statScript = `
if [ ! -e "$1" ]; then
  stat -L -- "$1" 2>&1 >/dev/null | grep -q denied || exit 42
  echo 'Permission denied' >&2; exit 45
fi
exec stat -L -c '%f %s %Y' -- "$1"`;

/** Path. Writes records of a letter (d directory, f anything else, h hidden), \`./\`, the path below, and a NUL. */
export const listScript = `
[ -d "$1" ] || exit 42
cd -- "$1" && [ -r . ] || { echo 'Permission denied' >&2; exit 45; }
find -L . -mindepth 1 -maxdepth 2 \\( -name '.*' -exec printf 'h%s\\0' {} + -prune \\) -o \\( -type d -exec printf 'd%s\\0' {} + \\) -o -exec printf 'f%s\\0' {} + 2>/dev/null
exit 0`;

/** Folder. Takes a tar archive on stdin. */
export const unpackScript = `mkdir -p -- "$1" && cd -- "$1" && exec tar -xof -`;

/** Folder, and tar options. Writes a tar archive. */
export const packScript = `cd -- "$1" && shift && exec tar -cf - "$@" .`;
