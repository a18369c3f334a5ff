import { posix } from "node:path";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { emitFunction, readRecords } from "../skills/file-records.ts";
import { findGitPrograms, listGitSettings } from "./git-settings.ts";
import { incomparable } from "./incomparable.ts";
import { preCommitHook } from "./own-parts.ts";

/** Bytes read of a script; a longer one is never the same twice, so it is asked about each time. */
const maxScriptBytes = 256 * 1024;

const maxOutputBytes = 8 * 1024 * 1024;

const scripts = { setup: "setup_script", precommit: "pre_commit" } as const;

/** Hooks that git runs, those for a push to the clone included. */
const gitHooks =
  "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg " +
  "post-commit pre-rebase post-checkout post-merge pre-push pre-auto-gc post-rewrite sendemail-validate " +
  "fsmonitor-watchman reference-transaction post-index-change pre-receive update proc-receive post-receive " +
  "post-update push-to-checkout p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit";

/** Repositories of submodules, and those in folders of the project, of which settings are read. */
const maxRepositories = 50;

/**
 * Arguments: working folder, byte limit. Writes the scripts, and the settings of git by file. Where
 * the platform installed its own hook, the repository's hook is `pre-commit.local`.
 */
const scriptsScript = `
work=$1 LIMIT=$2
export LIMIT GIT_OPTIONAL_LOCKS=0
${emitFunction}
ask_git() { git -c safe.directory='*' -c core.fsmonitor=false "$@"; }
kind=setup
[ -f "$work/.openhands/setup.sh" ] && emit -L "$work/.openhands/setup.sh" -maxdepth 0
kind=precommit
[ -f "$work/.openhands/pre-commit.sh" ] && emit -L "$work/.openhands/pre-commit.sh" -maxdepth 0
hooks=$(cd "$work" && ask_git rev-parse --git-path hooks 2>/dev/null) || hooks=.git/hooks
case $hooks in /*) ;; *) hooks=$work/$hooks ;; esac
husky=$work/.husky
[ "$hooks" = "$husky" ] && husky=
for folder in "$hooks" \${husky:+"$husky"}; do
  for name in ${gitHooks} pre-commit.local; do
    [ -f "$folder/$name" ] && emit -L "$folder/$name" -maxdepth 0
  done
done
settings() {
  file=$1; shift
  list=$(cd "$work" && ask_git config "$@" --includes --list --null 2>/dev/null | head -c "$LIMIT" | tr '\\1\\0' '\\2\\1')
  [ -n "$list" ] || return 0
  printf 'settings %s %s\\0' $(printf %s "$list" | wc -c) "$file"
  printf %s "$list"
}
kind=config
if ! command -v git >/dev/null 2>&1; then
  for one in config config.worktree; do
    [ -f "$work/.git/$one" ] && emit -L "$work/.git/$one" -maxdepth 0
  done
  exit 0
fi
settings "$work/.git/config" --local
[ -f "$work/.git/config.worktree" ] && settings "$work/.git/config.worktree" --worktree
{ find "$work/.git/modules" -maxdepth 4 -type f -name config
  find "$work"/*/ -maxdepth 4 \\( -name node_modules -prune \\) -o -path '*/.git/config' -type f -print
} 2>/dev/null | head -n ${maxRepositories} | while IFS= read -r one; do settings "$one" --file "$one"; done
exit 0`;

/**
 * Reads the set-up scripts, the git hooks and the programs in git's settings of a project. Throws
 * what `exec` throws.
 */
export async function readScripts(sandbox: CommandRunner, workingDir: string): Promise<BehaviourPart[]> {
  const args = [workingDir, String(maxScriptBytes + 1)];
  const { stdout } = await runScript(sandbox, scriptsScript, args, { maxOutputBytes });
  return readRecords(stdout).flatMap(({ kind, path, content, bytes }): BehaviourPart[] => {
    const why = bytes.length > maxScriptBytes ? `\n# ${incomparable("it is too long")}` : "";
    const source = posix.relative(workingDir, path);
    if (kind === "settings" || kind === "config") {
      // Without git in the image, the agent may install it later.
      const list = kind === "config" ? listGitSettings(content) : content.replaceAll("\x01", "\0");
      const programs = findGitPrograms(list).join("\n") + why;
      return programs ? [{ kind: "git_setting", source, text: programs }] : [];
    }
    if ((kind !== "setup" && kind !== "precommit") || content === preCommitHook) return [];
    return [
      {
        kind: scripts[kind],
        source: source.replace(/\/pre-commit\.local$/, "/pre-commit"),
        text: content + why,
      },
    ];
  });
}
