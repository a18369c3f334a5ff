import { createHash, randomUUID } from "node:crypto";
import { posix } from "node:path";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { emitFunction, readRecords } from "../skills/file-records.ts";

/** Bytes read of a script; a longer one is never the same twice, so it is asked about each time. */
const maxScriptBytes = 256 * 1024;

/** Bytes read of a file that a command names, such files, and bytes of all files. */
const maxNamedBytes = 256 * 1024;
const maxNamed = 100;
const maxOutputBytes = 8 * 1024 * 1024;

/** Time to read them, ms. */
const timeoutMs = 20_000;

const scripts = { setup: "setup_script", precommit: "pre_commit" } as const;

/** Arguments: working folder, byte limit. Writes the scripts, and the origin of the repository. */
const scriptsScript = `
work=$1 LIMIT=$2
export LIMIT
${emitFunction}
kind=setup
[ -f "$work/.openhands/setup.sh" ] && emit -L "$work/.openhands/setup.sh" -maxdepth 0
kind=precommit
[ -f "$work/.openhands/pre-commit.sh" ] && emit -L "$work/.openhands/pre-commit.sh" -maxdepth 0
origin=$(git -C "$work" config --get remote.origin.url 2>/dev/null) &&
  printf 'origin %s origin\\0%s' "$(printf %s "$origin" | wc -c | tr -d ' ')" "$origin"
exit 0`;

/** Arguments: byte limit, files. */
const namedScript = `
LIMIT=$1; shift
export LIMIT
${emitFunction}
kind=file
for file; do [ -f "$file" ] && emit -L "$file" -maxdepth 0; done
exit 0`;

export interface ScriptFiles {
  parts: BehaviourPart[];
  /** URL of the repository's remote; undefined without one. */
  origin?: string;
}

/** Reads the set-up and pre-commit scripts of a project. Throws what `exec` throws. */
export async function readScripts(sandbox: CommandRunner, workingDir: string): Promise<ScriptFiles> {
  const args = [workingDir, String(maxScriptBytes + 1)];
  const { stdout } = await runScript(sandbox, scriptsScript, args, { timeoutMs, maxOutputBytes });
  const parts: BehaviourPart[] = [];
  let origin: string | undefined;
  for (const { kind, path, content, bytes } of readRecords(stdout)) {
    if (kind === "origin") origin = content;
    else if (kind === "setup" || kind === "precommit") {
      const text =
        bytes.length > maxScriptBytes ? `${content}\n# ${randomUUID()}: too long to compare` : content;
      parts.push({ kind: scripts[kind], source: posix.relative(workingDir, path), text });
    }
  }
  return { parts, ...(origin && { origin }) };
}

/** The files that commands name by a path, as hashes. Throws what `exec` throws. */
export async function readNamedFiles(
  sandbox: CommandRunner,
  workingDir: string,
  texts: readonly string[],
): Promise<BehaviourPart[]> {
  const paths = findPaths(texts, workingDir);
  if (paths.length === 0) return [];
  const args = [String(maxNamedBytes + 1), ...paths];
  const { stdout } = await runScript(sandbox, namedScript, args, { timeoutMs, maxOutputBytes });
  return readRecords(stdout).map(({ path, bytes }) => {
    const hash = createHash("sha256").update(bytes).digest("hex");
    const source = path.startsWith(`${workingDir}/`) ? posix.relative(workingDir, path) : path;
    return { kind: "file", source, text: `sha256 ${hash}, ${bytes.length} bytes` };
  });
}

/** Words that may be paths of scripts: with a slash, or with a usual ending. */
function findPaths(texts: readonly string[], workingDir: string): string[] {
  const paths = new Set<string>();
  for (const text of texts)
    for (const word of text.slice(0, maxScriptBytes).split(/[\s"'`;&|()<>{}[\],=]+/)) {
      if (paths.size >= maxNamed) return [...paths];
      if (!/^[\w.~/][\w./+~-]{0,300}$/.test(word)) continue;
      if (!word.includes("/") && !/\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|env|toml|ya?ml|json)$/.test(word))
        continue;
      const path = posix.resolve(workingDir, word);
      if (path.startsWith(`${workingDir}/`) || path.includes("/.sandpiper-plugins/")) paths.add(path);
    }
  return [...paths];
}
