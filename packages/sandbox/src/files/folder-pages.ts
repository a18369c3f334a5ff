import { PlatformError } from "@sandpiper/core/errors";
import { collect, exitCode } from "../shell/run.ts";
import {
  factsScript,
  makeFolderScript,
  namesScript,
  removeScript,
  subfoldersScript,
} from "./file-scripts.ts";
import {
  type CommandRunner,
  checkPath,
  getFileKind,
  runScript,
  scriptTimeoutMs,
  toFileError,
  toScriptCommand,
} from "./files.ts";

/** `size` in bytes, `mode` permission bits, `modifiedAt` ms since the epoch; links not followed. */
export interface FolderEntry {
  name: string;
  kind: "file" | "directory" | "link" | "other";
  size: number;
  mode: number;
  modifiedAt: number;
}

/**
 * A page of a folder, sorted by name: the first `limit` entries after the name `after`; `next` is
 * the next `after`. Uses bounded memory. Omits names that are not UTF-8. Throws FileNotFound,
 * FileForbidden, and NotAFile.
 */
export async function listFolder(
  sandbox: CommandRunner,
  path: string,
  { limit, after }: { limit: number; after?: string | undefined },
): Promise<{ entries: FolderEntry[]; next: string | undefined }> {
  const names = await listLowestNames(sandbox, namesScript, [path], { count: limit + 1, after });
  const page = names.slice(0, limit);
  return {
    entries: await readEntries(sandbox, path, page),
    next: names.length > limit ? page.at(-1) : undefined,
  };
}

/**
 * A page of the folders in a folder, sorted without regard to case; `next` is the next `after`.
 * Omits links, and hidden folders without `hidden`. Throws as `listFolder`, and SandboxFailed when
 * the sandbox does not answer.
 */
export async function listSubfolders(
  sandbox: CommandRunner,
  path: string,
  options: { limit: number; after?: string | undefined; hidden?: boolean | undefined },
): Promise<{ names: string[]; next: string | undefined }> {
  const { limit, after, hidden = false } = options;
  // A stable order of names that differ only by case, so that pages do not overlap.
  const mark = (name: string) => `${name.toLowerCase()}/${name}`;
  const marks = await listLowestNames(sandbox, subfoldersScript, [path, hidden ? "hidden" : "visible"], {
    count: limit + 1,
    after,
    mark,
  });
  const page = marks.slice(0, limit);
  return {
    names: page.map((text) => text.slice(text.indexOf("/") + 1)),
    next: marks.length > limit ? page.at(-1) : undefined,
  };
}

/** Creates a folder and its parents; idempotent. Throws FileForbidden, InvalidParameter. */
export async function createFolder(sandbox: CommandRunner, path: string): Promise<void> {
  const result = await runScript(sandbox, makeFolderScript, [checkPath(path)]);
  if (result.code !== 0) throw toFileError(path, "created", result);
}

interface NameSelection {
  count: number;
  after?: string | undefined;
  /** Maps a name to the text that is compared and returned. */
  mark?: (name: string) => string;
}

/**
 * The first `count` names after `after` in a script's output (`./name`, NUL). Uses bounded memory.
 */
async function listLowestNames(
  sandbox: CommandRunner,
  text: string,
  [path, ...words]: [path: string, ...words: string[]],
  { count, after, mark = (name) => name }: NameSelection,
): Promise<string[]> {
  const process = await sandbox.exec(toScriptCommand(sandbox, text, [checkPath(path), ...words]));
  process.stdin.end();
  let timedOut = false;
  const end = () => {
    timedOut = true;
    process.kill();
  };
  const timer = setTimeout(end, scriptTimeoutMs);
  try {
    const errors = collect(process.stderr, 8_192);
    const lowest = new LowestNames(count, after);
    let rest = "";
    process.stdout.setEncoding("utf8");
    for await (const text of process.stdout) {
      const names = (rest + text).split("\0");
      rest = names.pop()!.slice(0, 8_192);
      for (const name of names) lowest.add(mark(name.slice(2)));
      // No name is that long, so the output is not the script's.
      if (rest.length > 4_096) process.kill();
    }
    const code = exitCode(await process.exit);
    if (timedOut) throw new PlatformError("SandboxUnresponsive");
    if (code !== 0) throw toFileError(path, "listed", { code, stderr: (await errors).kept });
    return lowest.sorted();
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Removes a file, a link, or a folder (with content only if `recursive`). Throws as `listFolder`.
 */
export async function remove(sandbox: CommandRunner, path: string, recursive: boolean): Promise<void> {
  const result = await runScript(sandbox, removeScript, [
    checkPath(path),
    recursive ? "recursive" : "single",
  ]);
  if (result.code !== 0) throw toFileError(path, "removed", result);
}

async function readEntries(sandbox: CommandRunner, path: string, names: string[]): Promise<FolderEntry[]> {
  if (names.length === 0) return [];
  const input = names.map((name) => `./${name}\0`).join("");
  const result = await runScript(sandbox, factsScript, [checkPath(path)], { input });
  const text = result.stdout.toString();
  const entries: FolderEntry[] = [];
  let at = 0;
  for (const name of names) {
    // A name may contain line breaks, so its line is matched by the name.
    const head = /^([0-9a-f]+) (\d+) (\d+) \.\//.exec(text.slice(at, at + 64));
    if (!head || !text.startsWith(`${name}\n`, at + head[0].length)) continue;
    at += head[0].length + name.length + 1;
    const bits = Number.parseInt(head[1]!, 16);
    const [size, modifiedAt] = [Number(head[2]), Number(head[3]) * 1_000];
    entries.push({ name, kind: getFileKind(bits), size, mode: bits & 0o7777, modifiedAt });
  }
  return entries;
}

class LowestNames {
  readonly #count: number;
  readonly #after: string | undefined;
  #names: string[] = [];

  constructor(count: number, after: string | undefined) {
    this.#count = count;
    this.#after = after;
  }

  add(name: string): void {
    if (this.#after !== undefined && name <= this.#after) return;
    this.#names.push(name);
    if (this.#names.length >= 4 * this.#count) this.#names = this.sorted();
  }

  sorted(): string[] {
    return this.#names.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)).slice(0, this.#count);
  }
}
