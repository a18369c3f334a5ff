import { createHash, randomUUID } from "node:crypto";
import { posix } from "node:path";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { emitFunction, readRecords } from "../skills/file-records.ts";

/** Bytes read of a script; a longer one is never the same twice, so it is asked about each time. */
const maxScriptBytes = 256 * 1024;

/** Bytes read of a file that a command names, words that may name one, and bytes of all files. */
const maxNamedBytes = 256 * 1024;
const maxWords = 1_000;
const maxOutputBytes = 8 * 1024 * 1024;

const scripts = { setup: "setup_script", precommit: "pre_commit" } as const;

/** Hooks that git runs on the side of a clone. */
const gitHooks =
  "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg " +
  "post-commit pre-rebase post-checkout post-merge pre-push pre-auto-gc post-rewrite sendemail-validate " +
  "fsmonitor-watchman reference-transaction post-index-change";

/** The hook that runs `.openhands/pre-commit.sh` (prepare-project.ts); a former one is `.local`. */
const ownHook = "# Installed by Sandpiper";

/** Arguments: working folder, byte limit. Writes the scripts. */
const scriptsScript = `
work=$1 LIMIT=$2
export LIMIT
${emitFunction}
kind=setup
[ -f "$work/.openhands/setup.sh" ] && emit -L "$work/.openhands/setup.sh" -maxdepth 0
kind=precommit
[ -f "$work/.openhands/pre-commit.sh" ] && emit -L "$work/.openhands/pre-commit.sh" -maxdepth 0
hooks=$(cd "$work" && git rev-parse --git-path hooks 2>/dev/null) || hooks=.git/hooks
case $hooks in /*) ;; *) hooks=$work/$hooks ;; esac
husky=$work/.husky
[ "$hooks" = "$husky" ] && husky=
for folder in "$hooks" \${husky:+"$husky"}; do
  for name in ${gitHooks} pre-commit.local; do
    [ -f "$folder/$name" ] && emit -L "$folder/$name" -maxdepth 0
  done
done
exit 0`;

/** Arguments: byte limit, files. */
const namedScript = `
LIMIT=$1; shift
export LIMIT
${emitFunction}
kind=file
for file; do [ -f "$file" ] && emit -L "$file" -maxdepth 0; done
exit 0`;

/** Reads the set-up scripts and the git hooks of a project. Throws what `exec` throws. */
export async function readScripts(sandbox: CommandRunner, workingDir: string): Promise<BehaviourPart[]> {
  const args = [workingDir, String(maxScriptBytes + 1)];
  const { stdout } = await runScript(sandbox, scriptsScript, args, { maxOutputBytes });
  return readRecords(stdout).flatMap(({ kind, path, content, bytes }): BehaviourPart[] => {
    if ((kind !== "setup" && kind !== "precommit") || content.includes(ownHook)) return [];
    const text = bytes.length > maxScriptBytes ? `${content}\n# ${incomparable("it is too long")}` : content;
    const source = posix.relative(workingDir, path).replace(/\/pre-commit\.local$/, "/pre-commit");
    return [{ kind: scripts[kind], source, text }];
  });
}

/** A text that is never the same twice. */
const incomparable = (why: string) => `${randomUUID()}: ${why} to compare`;

/** The files that parts name by a path, as hashes. Throws what `exec` throws. */
export async function readNamedFiles(
  sandbox: CommandRunner,
  folders: NamedFileFolders,
  parts: readonly Pick<BehaviourPart, "source" | "text">[],
): Promise<BehaviourPart[]> {
  const { workingDir } = folders;
  const { paths, more } = findPaths(parts, folders);
  const left: BehaviourPart = { kind: "file", source: "…", text: incomparable("too many files are named") };
  if (paths.length === 0) return [];
  const args = [String(maxNamedBytes + 1), ...paths];
  const { stdout, truncated } = await runScript(sandbox, namedScript, args, { maxOutputBytes });
  const named = readRecords(stdout).map(({ path, bytes }): BehaviourPart => {
    const hash = createHash("sha256").update(bytes).digest("hex");
    const source = path.startsWith(`${workingDir}/`) ? posix.relative(workingDir, path) : path;
    const text =
      bytes.length > maxNamedBytes ? incomparable("it is too long") : `sha256 ${hash}, ${bytes.length} bytes`;
    return { kind: "file", source, text };
  });
  return more || truncated ? [...named, left] : named;
}

export interface NamedFileFolders {
  workingDir: string;
  /** Plugin folders in the sandbox. */
  plugins: readonly string[];
}

/** The variables for the folders of the project and of a plugin (agent-behaviour.md section 9). */
const projectVariable = /["']?\$\{?(?:CLAUDE|OPENHANDS)_PROJECT_DIR\}?["']?/g;
const pluginVariable = /["']?\$\{?(?:CLAUDE_|OPENHANDS_)?PLUGIN_ROOT\}?["']?/g;

/** Endings of files that are scripts or configure them. */
const scriptEnding = /\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|env|toml|ya?ml|json)$/;

/**
 * Words that may be paths of scripts: with a slash, or with a usual ending. `more`: there are
 * further ones.
 */
export function findPaths(
  parts: readonly Pick<BehaviourPart, "source" | "text">[],
  { workingDir, plugins }: NamedFileFolders,
): { paths: string[]; more: boolean } {
  const paths = new Set<string>();
  const isProjects = (path: string) => [workingDir, ...plugins].some((one) => path.startsWith(`${one}/`));
  for (const { source, text } of parts) {
    const plugin = plugins.find((folder) => posix.resolve(workingDir, source).startsWith(`${folder}/`));
    const filled = text
      .slice(0, maxScriptBytes)
      .replace(projectVariable, () => ` ${workingDir}`)
      .replace(pluginVariable, (variable) => (plugin ? ` ${plugin}` : variable));
    for (const word of filled.split(/[\s"'`;&|()<>{}[\],=$*?\\\u0000-\u001f]+/)) {
      if (word.length > 300 || (!word.includes("/") && !scriptEnding.test(word))) continue;
      const path = posix.resolve(workingDir, word);
      if (!isProjects(path)) continue;
      if (paths.size >= maxWords) return { paths: [...paths], more: true };
      paths.add(path);
    }
  }
  return { paths: [...paths], more: false };
}
