import { enterParentFolder, gitCodes, prelude } from "./git-script.ts";

/** Scripts that read the history of git repositories in sandboxes, never their working trees. */

/** Sets `commit` and `parent` for $sha; the parent of the first commit is the empty tree. */
const findCommit = `
commit=$(git rev-parse --verify --quiet --end-of-options "$sha^{commit}") || exit ${gitCodes.badReference}
parent=$(git rev-parse --verify --quiet "$commit^1") || parent=$(git hash-object -t tree /dev/null)`;

const enter = `
cd -- "$1" 2>/dev/null || exit ${gitCodes.noRepository}
git rev-parse --git-dir >/dev/null 2>&1 || exit ${gitCodes.noRepository}`;

/** Folder, limit. Prints id, short id, subject, author, time of each commit, NUL-terminated. */
export const commitsScript = `${prelude}
${enter}
git rev-parse --verify --quiet HEAD >/dev/null || exit 0
git -c i18n.logOutputEncoding=UTF-8 log --no-show-signature -z --max-count="$2" --format='%H%x00%h%x00%s%x00%an%x00%aI' HEAD --`;

/** Folder, commit. Prints the changes against the first parent like `git diff --name-status -z`. */
export const commitChangesScript = `${prelude}
${enter}
sha=$2
${findCommit}
git diff --no-ext-diff --no-textconv --no-renames --relative --name-status -z "$parent" "$commit" -- .`;

/** Path of a file, commit, maximum bytes. Prints like `diffScript`, for the commit. */
export const commitDiffScript = `${prelude}
${enterParentFolder}
sha=$2
${findCommit}
before='0 0' after='0 0'
if [ "$(git cat-file -t "$parent:./$name" 2>/dev/null)" = blob ]; then
  before="1 $(git cat-file -s "$parent:./$name")" || exit 1
fi
if [ "$(git cat-file -t "$commit:./$name" 2>/dev/null)" = blob ]; then
  after="1 $(git cat-file -s "$commit:./$name")" || exit 1
fi
echo "$before $after"
case $before in 1*) git cat-file blob "$parent:./$name" | head -c "$3" ;; esac
case $after in 1*) git cat-file blob "$commit:./$name" | head -c "$3" ;; esac
exit 0`;
