import { createHash } from "node:crypto";
import { posix } from "node:path";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { BehaviourPart } from "@sandpiper/wire";
import { emitFunction, type FoundFile, readRecords } from "../skills/file-records.ts";
import { findImports } from "./imports.ts";
import { incomparable } from "./incomparable.ts";

/** Most bytes of one file that a command names, and of all files of a round. */
const maxNamedBytes = 256 * 1024;
const maxOutputBytes = 8 * 1024 * 1024;

/** Most words of a round that may name a file, and most paths for one command that reads them. */
const maxWords = 1_000;
const maxPaths = 5_000;
const pathsOfCommand = 500;

/** Most folders in which the files that a script names are looked for. */
const maxFolders = 20;

/** Most rounds: each one reads the files that the files of the round before name. */
const maxRounds = 6;

/** Files of one folder whose files a script runs, as in `for f in setup.d/*`. */
const maxOfFolder = 100;

/**
 * Arguments: byte limit, files, and folders that end in a slash, for the scripts in them. Folders
 * with too many files are a record `more`.
 */
const namedScript = `
LIMIT=$1; shift
export LIMIT
${emitFunction}
kind=file
for file; do
  case $file in
    */) count=0
      [ -d "$file" ] && for one in "$file"*; do
        [ -f "$one" ] || continue
        case \${one##*/} in *.sh | *.bash | *.py | *.js | *.mjs | *.cjs | *.ts | *.rb | *.pl | *.php) ;; *.*) continue ;; esac
        count=$((count + 1))
        [ $count -le ${maxOfFolder} ] || { printf 'more 0 %s\\0' "$file"; break; }
        emit -L "$one" -maxdepth 0
      done ;;
    *) [ -f "$file" ] && emit -L "$file" -maxdepth 0 ;;
  esac
done
exit 0`;

interface NamingPart extends Pick<BehaviourPart, "source" | "text"> {
  /** The text is all of the file `source`, not a command in it. */
  isFile?: boolean;
}

export interface NamedFileFolders {
  workingDir: string;
  /** Plugin folders in the sandbox. */
  plugins: readonly string[];
}

/**
 * The files that parts name by a path, and that these files name in turn, as hashes. Throws what
 * `exec` throws.
 */
export async function readNamedFiles(
  sandbox: CommandRunner,
  folders: NamedFileFolders,
  parts: readonly NamingPart[],
): Promise<BehaviourPart[]> {
  const found = new Map<string, BehaviourPart>();
  const seen = new Set<string>();
  let naming = parts;
  let isIncomplete = false;
  for (let round = 0; naming.length > 0; round++) {
    const { paths, more } = findPaths(naming, folders);
    const unread = paths.filter((path) => !seen.has(path));
    isIncomplete ||= more || (round === maxRounds && unread.length > 0);
    if (isIncomplete || unread.length === 0) break;
    const next: NamingPart[] = [];
    for (let at = 0; at < unread.length; at += pathsOfCommand) {
      const some = unread.slice(at, at + pathsOfCommand);
      const args = [String(maxNamedBytes + 1), ...some];
      const { stdout, truncated } = await runScript(sandbox, namedScript, args, { maxOutputBytes });
      isIncomplete ||= truncated;
      for (const file of readRecords(stdout)) {
        isIncomplete ||= file.kind === "more";
        if (file.kind !== "file" || found.has(file.path)) continue;
        found.set(file.path, toPart(file, folders.workingDir));
        if (file.bytes.length <= maxNamedBytes)
          next.push({ source: file.path, text: file.content, isFile: true });
      }
      for (const path of some) seen.add(path);
    }
    naming = next;
  }
  const left: BehaviourPart = { kind: "file", source: "…", text: incomparable("too many files are named") };
  return isIncomplete ? [...found.values(), left] : [...found.values()];
}

function toPart({ path, bytes }: FoundFile, workingDir: string): BehaviourPart {
  const hash = createHash("sha256").update(bytes).digest("hex");
  const source = path.startsWith(`${workingDir}/`) ? posix.relative(workingDir, path) : path;
  const text =
    bytes.length > maxNamedBytes ? incomparable("it is too long") : `sha256 ${hash}, ${bytes.length} bytes`;
  return { kind: "file", source, text };
}

/** The variables for the folders of the project and of a plugin (agent-behaviour.md section 9). */
const projectVariable = /["']?\$\{?(?:CLAUDE|OPENHANDS)_PROJECT_DIR\}?["']?/g;
const pluginVariable = /["']?\$\{?(?:CLAUDE_|OPENHANDS_)?PLUGIN_ROOT\}?["']?/g;
/** Stands for the `*` of `folder/*`, which no path may have. */
const anyFile = "\u2400";

/** Any other variable may hold the script's own folder. */
const otherVariable = /\$\w+\//g;

/** Endings of files that are scripts or configure them. */
const scriptEnding = /\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php|env|toml|ya?ml|json)$/;

/** Endings of files whose words are text and data, and of programs that name files as imports. */
const dataEnding = /\.(?:env|toml|ya?ml|json|md|txt|lock|html|css)$/;
const programEnding = /\.(?:py|js|mjs|cjs|ts|rb|pl|php)$/;

/**
 * Paths of files that the texts may name: words with a slash or with a usual ending, from the
 * project's folder and from the folder of the file that has the word. `more`: there are further
 * words.
 */
export function findPaths(
  parts: readonly NamingPart[],
  { workingDir, plugins }: NamedFileFolders,
): { paths: string[]; more: boolean } {
  const words = new Set<string>();
  const paths = new Set<string>();
  const folders = [workingDir, ...plugins];
  const isProjects = (path: string) => folders.some((one) => path.startsWith(`${one}/`));
  for (const { source, text, isFile } of parts) {
    const own = posix.resolve(workingDir, source);
    const plugin = plugins.find((folder) => own.startsWith(`${folder}/`));
    const filled = text
      .slice(0, maxNamedBytes)
      .replace(projectVariable, () => ` ${workingDir}`)
      .replace(pluginVariable, (variable) => (plugin ? ` ${plugin}` : variable));
    const bases = [workingDir, posix.dirname(own)];
    if (!isFile || !dataEnding.test(source)) bases.push(...findFolders(filled, bases));
    for (const word of isFile ? findWords(source, filled) : findShellWords(filled)) {
      if (words.size >= maxWords && !words.has(word)) return { paths: [...paths], more: true };
      if (paths.size > maxPaths) return { paths: [...paths], more: true };
      words.add(word);
      // What follows a variable or a substitution begins with a slash, too.
      const isAbsolute = folders.some((one) => word === one || word.startsWith(`${one}/`));
      const place = word.startsWith("/") && !isAbsolute ? `.${word}` : word;
      for (const folder of bases) {
        const path = posix.resolve(folder, place.replace(anyFile, ""));
        if (isProjects(path)) paths.add(place.endsWith(anyFile) ? `${path}/` : path);
      }
    }
  }
  return { paths: [...paths], more: false };
}

/**
 * Folders in which a script looks for files: where it goes (`cd tools`), where it tells a program
 * to go (`-C tools`, `"cwd": "tools"`), and values of variables (`DIR=tools`), from `bases` and
 * from each other.
 */
function findFolders(text: string, bases: readonly string[]): Set<string> {
  const folders = new Set<string>();
  let goes = false;
  // What follows a substitution is below a folder, usually the script's own.
  const marked = text.replaceAll(substitution, "").replaceAll(substitution, "");
  for (const token of marked.split(/[\s;&|()<>{}[\],]+/)) {
    const word = token.replaceAll(/["'`]/g, "");
    const value = /^(?:cwd:|\w{1,100}=|--\w{1,20}=)(.*)$/s.exec(word)?.[1] ?? (goes ? word : "");
    goes = goesTo.test(word) || (goes && (word === "--" || word === ""));
    const place = value.replace(otherVariable, "/");
    if (!/^[\w./@+-]{1,200}$/.test(place) || /^[\d/-]/.test(place.replace(/^\//, ""))) continue;
    for (const base of [...bases, ...folders].slice(0, maxFolders)) {
      if (folders.size >= maxFolders) return folders;
      folders.add(
        posix.resolve(base, place.startsWith("/") && !place.startsWith(base) ? `.${place}` : place),
      );
    }
  }
  return folders;
}

/** A command in `$(…)`, which may contain another one. */
const substitution = /\$\([^()]{0,200}\)/g;

/** What a folder follows in a command. */
const goesTo = /^(?:cd|pushd|-C|--(?:prefix|cwd|directory|chdir)|cwd:)$/;

function findWords(source: string, text: string): Iterable<string> {
  if (programEnding.test(source)) return findImports(text);
  return dataEnding.test(source) ? [] : findShellWords(text);
}

function* findShellWords(text: string): Generator<string> {
  const marked = text.replaceAll(anyFile, "").replaceAll("/*", `/${anyFile} `).replace(otherVariable, " /");
  for (const word of marked.split(/[\s"'`;&|()<>{}[\],=$*?\\\u0000-\u001f]+/))
    if (word.length <= 300 && (word.includes("/") || scriptEnding.test(word)) && !/^\/*$/.test(word))
      yield word;
}
