import { findBase, gitCodes, prelude } from "./git-script.ts";

/**
 * Folder. Prints the folder, the root of its repository, commit, branch and remote, a NUL after
 * each. A folder outside of repositories stands for the only repository up to two levels below.
 */
export const repositoryScript = `${prelude}
cd -- "$1" 2>/dev/null || exit ${gitCodes.noRepository}
inside() { [ "$(git rev-parse --is-inside-work-tree 2>/dev/null)" = true ]; }
if ! inside; then
  found=
  for at in ./*/.git ./*/*/.git; do
    [ -e "$at" ] || continue
    case $at in "$found"/*) [ -n "$found" ] && continue ;; esac
    [ -z "$found" ] || exit ${gitCodes.noRepository}
    found=\${at%/.git}
  done
  [ -n "$found" ] && cd -- "$found" && inside || exit ${gitCodes.noRepository}
fi
commit=$(git rev-parse --verify --quiet HEAD)
branch=$(git symbolic-ref --quiet --short HEAD || echo DETACHED)
remote=$(git config --get remote.origin.url)
printf '%s\\0' "$(pwd -P)" "$(git rev-parse --show-toplevel)" "$commit" "$branch" "$remote"`;

/**
 * Folder, reference (may be empty), excluded patterns. Prints a line with the base commit (may be
 * empty), and a patch from it to the current files, including new ones. Does not change the
 * repository's index and objects.
 */
export const deltaScript = `${prelude}
${findBase}
ref=$2
cd -- "$1" || exit ${gitCodes.noRepository}
shift 2
find_base || exit ${gitCodes.badReference}
commit=$(git rev-parse --verify --quiet --end-of-options "$base^{commit}")
objects=$(git rev-parse --git-path objects) && objects=$(cd -- "$objects" && pwd -P) || exit 1
temporary=$(mktemp -d) || exit 1
trap 'rm -rf -- "$temporary"' EXIT
trap 'exit 1' TERM PIPE HUP
printf '%s\\n' "$@" >"$temporary/excludes"
mkdir "$temporary/objects" || exit 1
export GIT_INDEX_FILE="$temporary/index"
case $objects in
  *[:\\"]*) ;;
  *) export GIT_OBJECT_DIRECTORY="$temporary/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" ;;
esac
git read-tree "$base" || exit 1
git -c core.excludesFile="$temporary/excludes" -c advice.addEmbeddedRepo=false -c core.safecrlf=false add -A -- . || exit 1
echo "$commit"
git diff --binary --cached --full-index --no-color --no-ext-diff --no-textconv --src-prefix=a/ --dst-prefix=b/ "$base" -- .`;
