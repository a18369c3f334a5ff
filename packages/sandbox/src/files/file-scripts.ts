/** Shell scripts for sandboxes. They work with any POSIX shell and the tools of GNU and busybox. */

/** Exit codes of the scripts below. */
export const codes = { directory: 41, missing: 42, special: 43, denied: 45, inPlace: 46 } as const;

/**
 * Exits with 42 or 45 when $1 is missing, a dangling link or behind a folder without permission.
 */
const examine = `if [ ! -e "$1" ]; then
  stat -L -- "$1" 2>&1 >/dev/null | grep -q denied || exit 42
  echo 'Permission denied' >&2; exit 45
fi`;

/** Path, number of bytes. Prints the beginning; special files could block and are not read. */
export const readScript = `
if [ ! -f "$1" ]; then
  [ -d "$1" ] && exit 41
  ${examine}
  exit 43
fi
exec head -c "$2" <"$1"`;

/** Path, and `content` or `facts`. Prints a line with size (bytes) and time, then the content. */
export const downloadScript = `
if [ ! -f "$1" ]; then
  [ -d "$1" ] && exit 41
  ${examine}
  exit 43
fi
exec <"$1"
stat -L -c '%s %Y' /proc/self/fd/0 || exit 45
[ "$2" = facts ] || exec cat`;

/** Path, and `recursive` or `single`. */
export const removeScript = `
if [ -d "$1" ] && [ ! -L "$1" ]; then
  if [ "$2" = recursive ]; then exec rm -rf -- "$1"; fi
  exec rmdir -- "$1"
fi
[ -L "$1" ] || { ${examine}
}
exec rm -f -- "$1"`;

/** Folder. Prints its names, `./name` and a NUL each, unsorted. */
export const namesScript = `
[ -e "$1" ] || { ${examine}
}
[ -d "$1" ] || exit 41
cd -- "$1" && [ -r . ] || { echo 'Permission denied' >&2; exit 45; }
exec find . -mindepth 1 -maxdepth 1 -print0`;

/** Folder, and `hidden` or `visible`. Prints its folders without links, like `namesScript`. */
export const subfoldersScript = `
[ -e "$1" ] || { ${examine}
}
[ -d "$1" ] || exit 41
cd -- "$1" && [ -r . ] || { echo 'Permission denied' >&2; exit 45; }
[ "$2" = hidden ] && exec find . -mindepth 1 -maxdepth 1 -type d -print0
exec find . -mindepth 1 -maxdepth 1 -type d ! -name '.*' -print0`;

/** Folder to create, with its parents. */
export const makeFolderScript = `
[ -d "$1" ] && exit 0
exec mkdir -p -- "$1"`;

/**
 * Folder; a folder below it on each line of stdin, empty or with a slash at the end, escaped for
 * `printf %b`. Prints for each its folders and a NUL, then its files and a NUL, as `namesScript`.
 */
export const folderContentScript = `
[ -e "$1" ] || { ${examine}
}
[ -d "$1" ] || exit 41
cd -- "$1" && [ -r . ] || { echo 'Permission denied' >&2; exit 45; }
while IFS= read -r line; do
  (
    cd -- "./$(printf %b "$line")" && find . -mindepth 1 -maxdepth 1 -type d -print0; printf '\\0'
    cd . && find . -mindepth 1 -maxdepth 1 -type f -print0; printf '\\0'
  ) </dev/null 2>/dev/null
done`;

/** Folder; NUL-terminated names on stdin. Prints type and mode (hex), size, time, name. */
export const factsScript = `
cd -- "$1" || exit 45
xargs -0 stat -c '%f %s %Y %n' -- 2>/dev/null
exit 0`;

/**
 * Path, size, a unique word, and a mode: `all`, or `take` and later `keep` when the size is known
 * only afterwards. Content comes on stdin; with less than the given size the old file stays. The
 * new file is created exclusively, so that a planted link is not followed. SIGPIPE is ignored, so
 * that the new file is removed even when the server has died.
 */
export const writeScript = `
target=$1 mode=
if [ -L "$1" ]; then
  target=$(readlink -f -- "$1" && echo x) || { echo 'the link leads nowhere' >&2; exit 45; }
  target=\${target%?x}
fi
[ -d "$target" ] && exit 41
folder=\${target%/*}; [ -n "$folder" ] || folder=/
[ -d "$folder" ] || mkdir -p -- "$folder" || exit 45
if [ -e "$target" ]; then
  [ -f "$target" ] || { echo 'it is neither a file nor a directory' >&2; exit 43; }
  [ -w "$target" ] || { echo 'Permission denied' >&2; exit 45; }
  mode=$(stat -c %a -- "$target") || exit 45
  if [ ! -w "$folder" ]; then cat >"$target" || exit 45; exit 46; fi
fi
new=$folder/.write-$3
trap 'rm -f -- "$new"' EXIT
trap '' PIPE
if [ "$4" != keep ]; then
  set -C
  cat >"$new" || exit 45
  set +C
  [ "$4" = take ] && { trap - EXIT; exit 0; }
fi
[ "$(stat -c %s -- "$new")" -eq "$2" ] || { echo 'the content did not arrive completely' >&2; exit 45; }
[ -z "$mode" ] || chmod "$mode" "$new" || exit 45
mv -f -- "$new" "$target" || exit 45
trap - EXIT`;

/** Path. Prints type and mode (hex), size and time. */
export const statScript = `
${examine}
exec stat -L -c '%f %s %Y' -- "$1"`;

/**
 * Path. Prints records: d (directory), f (other) or h (hidden), `./`, the path below, and a NUL.
 * One search for each letter, as busybox has only one `-exec +`.
 */
export const listScript = `
[ -d "$1" ] || exit 42
cd -- "$1" && [ -r . ] || { echo 'Permission denied' >&2; exit 45; }
look() { find -L . -mindepth 1 -maxdepth 2 "$@" 2>/dev/null; }
look -name '.*' -prune -exec printf 'h%s\\0' {} +
look -name '.*' -prune -o -type d -exec printf 'd%s\\0' {} +
look -name '.*' -prune -o ! -type d -exec printf 'f%s\\0' {} +
exit 0`;

/** Sets $tar: preferably the sandbox's own, which may have more options than the shell's. */
const findTar = `for tar in /bin/tar /usr/bin/tar /usr/local/bin/tar tar; do [ -x "$tar" ] && break; done`;

/** Folder, and tar options; a tar archive on stdin. */
export const unpackScript = `
mkdir -p -- "$1" && cd -- "$1" || exit 45
shift
${findTar}
exec "$tar" -xo "$@" -f -`;

/** Succeeds when the tar that `unpackScript` chooses reads the sparse files of PAX 1.0. */
export const readsSparseScript = `
${findTar}
case $("$tar" --version 2>&1) in *'GNU tar'*|*bsdtar*) ;; *) exit 1;; esac`;

/** Exit code of `packScript`, without output, where the sandbox's tar lacks an option. */
export const tarLacksOption = 46;

/** Folder, `named` or `plain`, tar options. Prints a tar of the folder's name, or of `.`. */
export const packScript = `
cd -P -- "$1" || exit 45
what=.
[ "$2" = named ] && [ "$PWD" != / ] && { what=\${PWD##*/}; cd .. || exit 45; }
shift 2
${findTar}
for option; do
  case $option in --exclude=*|--sparse)
    case $("$tar" --help 2>&1) in *"\${option%%=*}"*) ;; *) exit ${tarLacksOption};; esac
    break
  esac
done
exec "$tar" -c "$@" -f - -- "$what"`;
