/** Scripts that read repositories with the sandbox's git, without network and locks. */

export const gitCodes = { noGit: 40, noRepository: 42, badReference: 43, outside: 44 } as const;

export const prelude = `
command -v git >/dev/null 2>&1 || exit ${gitCodes.noGit}
export GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_PAGER=cat
git() { command git --no-pager -c safe.directory='*' -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.quotePath=false -c log.showSignature=false -c color.ui=false "$@"; }
id_of() { git rev-parse --verify --quiet --end-of-options "$1^{commit}"; }
exists() { git rev-parse --verify --quiet --end-of-options "$1^{tree}" >/dev/null; }`;

/**
 * Sets `base`, the state to compare with: $ref, which must exist, else the first of these that
 * does: the branch of the same name at `origin`, unless it is HEAD and the tree is clean, so that
 * pushed work stays visible; the merge base with the default branch of `origin`, or its tip; a
 * local main or master that HEAD descends from, without a default branch of `origin`; HEAD. Without
 * a commit it is the empty tree.
 */
export const findBase = `
find_base() {
  head=$(id_of HEAD) || head=
  if [ -n "$ref" ] && [ "$ref$head" != HEAD ]; then
    case $ref in -*) return 1 ;; esac
    exists "$ref" || return 1
    base=$ref
    return 0
  fi
  base=$(git hash-object -t tree /dev/null)
  [ -n "$head" ] || return 0
  branch=$(git symbolic-ref --quiet --short HEAD)
  if [ -n "$branch" ] && base=$(id_of "refs/remotes/origin/$branch"); then
    [ "$base" = "$head" ] && git diff --quiet --no-ext-diff HEAD -- || return 0
  fi
  for default in HEAD main master; do
    base=$(id_of "refs/remotes/origin/$default") || continue
    base=$(git merge-base HEAD "$base" 2>/dev/null || echo "$base")
    return 0
  done
  for default in main master; do
    base=$(id_of "refs/heads/$default") || continue
    [ "$default" != "$branch" ] && git merge-base --is-ancestor "$base" HEAD && return 0
    break
  done
  base=$head
}`;

/**
 * Folder, reference (may be empty). Prints for the folder's repository and those directly below it:
 * `repository`, NUL, the folder, NUL, changes as `git diff --name-status -z`, NUL, new files with a
 * NUL each, NUL.
 */
export const changesScript = `${prelude}
${findBase}
ref=$2
cd -- "$1" 2>/dev/null || exit ${gitCodes.noRepository}
found=
changes() {
  git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
  find_base || return ${gitCodes.badReference}
  found=1
  printf 'repository\\0%s\\0' "$1"
  git diff --no-ext-diff --no-textconv --no-renames --relative --name-status -z "$base" -- . || return 1
  printf '\\0'
  git ls-files --others --exclude-standard -z || return 1
  printf '\\0'
}
changes . || exit $?
for folder in ./*/.git; do
  [ -e "$folder" ] || continue
  folder=\${folder%/.git}
  ( cd -- "$folder" && { ref=$2; changes "$folder"; } ) || exit $?
  found=1
done
[ -n "$found" ] || exit ${gitCodes.noRepository}`;

/**
 * Enters the nearest existing folder above the file $1 and sets `name`, the file's path from there.
 */
export const enterParentFolder = `
folder=\${1%/*}; name=\${1##*/}
[ -n "$folder" ] || folder=/
while [ ! -d "$folder" ]; do
  case $folder in */?*) ;; *) exit ${gitCodes.noRepository} ;; esac
  name=\${folder##*/}/$name; folder=\${folder%/*}
  [ -n "$folder" ] || folder=/
done
cd -- "$folder" || exit ${gitCodes.noRepository}
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || exit ${gitCodes.noRepository}`;

/**
 * Path of a file, reference (may be empty), maximum bytes. Prints for the old and the new file `1`
 * or `0` (missing) and its size, then a line break and the contents.
 */
export const diffScript = `${prelude}
${findBase}
ref=$2
${enterParentFolder}
find_base || exit ${gitCodes.badReference}
before='0 0' now='0 0'
if [ "$(git cat-file -t "$base:./$name" 2>/dev/null)" = blob ]; then
  before="1 $(git cat-file -s "$base:./$name")" || exit 1
fi
if [ -f "$name" ]; then now="1 $(stat -L -c %s -- "$name")" || exit 1; fi
echo "$before $now"
case $before in 1*) git cat-file blob "$base:./$name" | head -c "$3" ;; esac
case $now in 1*) head -c "$3" -- "$name" ;; esac
exit 0`;
