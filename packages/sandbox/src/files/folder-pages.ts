import { collect, exitCode } from "../shell/run.ts";
import {
  factsScript,
  makeFolderScript,
  namesScript,
  removeScript,
  subfoldersScript,
  treeScript,
} from "./file-scripts.ts";
import {
  type CommandRunner,
  checkPath,
  getFileKind,
  runScript,
  scriptTimeoutMs,
  toFileError,
  toScriptCommand,
  unanswered,
} from "./files.ts";

/** A name in a folder. `size` in bytes, `mode` the permission bits, `modifiedAt` in ms since the epoch; a link is told as a link. */
export interface FolderEntry {
  name: string;
  kind: "file" | "directory" | "link" | "other";
  size: number;
  mode: number;
  modifiedAt: number;
}

/**
 * A part of a folder, sorted by name: the first `limit` entries after the name `after`; `next` is the `after` of the next part. Memory does not depend on the size of the folder.
 * What was removed meanwhile and names that are not UTF-8 are left out. Throws FileNotFound, FileForbidden, and NotAFile for what is no folder.
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
 * A part of the folders in a folder, without regard to case: the first `limit` after the mark `after`; `next` is the mark of the next part. Links
 * are left out, and hidden ones where they are not asked for. Throws as `folderPage`, and SandboxFailed when the sandbox does not answer.
 */
export async function listSubfolders(
  sandbox: CommandRunner,
  path: string,
  {
    limit,
    after,
    hidden = false,
  }: { limit: number; after?: string | undefined; hidden?: boolean | undefined },
): Promise<{ names: string[]; next: string | undefined }> {
  // Names that differ by case alone keep an order, so that no page repeats another.
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

/** Makes a folder and those above it; one that is there is fine. Throws FileForbidden, and InvalidParameter where a file is in the way. */
export async function createFolder(sandbox: CommandRunner, path: string): Promise<void> {
  const result = await runScript(sandbox, makeFolderScript, [checkPath(path)]);
  if (result.code !== 0) throw toFileError(path, "made", result);
}

/** Longest listing of a tree, ms: a sandbox can make trees without an end. */
const treeMs = 20_000;

/**
 * The files below a folder, as paths from there, sorted: the first `limit`. Without links, and without what is in folders that only tools read
 * (`.git`, `node_modules` and the like) or further than 15 levels below. What takes longer than 20 s is cut there. Throws as `folderPage`.
 */
export function listTree(sandbox: CommandRunner, path: string, limit: number): Promise<string[]> {
  return listLowestNames(sandbox, treeScript, [path], { count: limit, cutMs: treeMs });
}

interface NamesWanted {
  count: number;
  after?: string | undefined;
  /** The listing is cut after this time, ms; without it a sandbox that does not answer in time is an error. */
  cutMs?: number;
  /** What names are compared by and given as. */
  mark?: (name: string) => string;
}

/** Of the names that a script writes, `./name` and a NUL each, the first `count` after `after`. Memory does not depend on how many there are. */
async function listLowestNames(
  sandbox: CommandRunner,
  text: string,
  [path, ...words]: [path: string, ...words: string[]],
  { count, after, cutMs, mark = (name) => name }: NamesWanted,
): Promise<string[]> {
  const process = await sandbox.exec(toScriptCommand(sandbox, text, [checkPath(path), ...words]));
  process.stdin.end();
  let timedOut = false;
  const end = () => {
    timedOut = true;
    process.kill();
  };
  const timer = setTimeout(end, cutMs ?? scriptTimeoutMs);
  try {
    const errors = collect(process.stderr, 8_192);
    const lowest = new LowestNames(count, after);
    let rest = "";
    process.stdout.setEncoding("utf8");
    for await (const text of process.stdout) {
      const names = (rest + text).split("\0");
      rest = names.pop()!.slice(0, 8_192);
      for (const name of names) lowest.add(mark(name.slice(2)));
      // No name is that long: this is not what the script writes.
      if (rest.length > 4_096) process.kill();
    }
    const code = exitCode(await process.exit);
    if (timedOut && cutMs === undefined) throw unanswered();
    if (code !== 0 && !timedOut) throw toFileError(path, "listed", { code, stderr: (await errors).kept });
    return lowest.sorted();
  } finally {
    clearTimeout(timer);
  }
}

/** Removes a file, a link (not what it leads to), or a folder, with what is in it only where that is asked for. Throws as `folderPage`. */
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
    // A name may hold line ends, so what belongs to it is found by the name itself.
    const head = /^([0-9a-f]+) (\d+) (\d+) \.\//.exec(text.slice(at, at + 64));
    if (!head || !text.startsWith(`${name}\n`, at + head[0].length)) continue;
    at += head[0].length + name.length + 1;
    const bits = Number.parseInt(head[1]!, 16);
    entries.push({
      name,
      kind: getFileKind(bits),
      size: Number(head[2]),
      mode: bits & 0o7777,
      modifiedAt: Number(head[3]) * 1_000,
    });
  }
  return entries;
}

/** Keeps the lowest names of many. */
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
