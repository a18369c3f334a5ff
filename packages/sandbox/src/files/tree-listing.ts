import { posix } from "node:path";
import type { SandboxProcess } from "../driver.ts";
import { collect, exitCode } from "../shell/run.ts";
import { folderContentScript } from "./file-scripts.ts";
import { type CommandRunner, checkPath, toFileError, toScriptCommand } from "./files.ts";

/** Folders with content for tools only, and those of the kernel. */
const toolFolders = new Set(
  ".git node_modules .venv venv __pycache__ dist build .next .cache .pytest_cache .mypy_cache .turbo .parcel-cache target".split(
    " ",
  ),
);
const kernelFolders = new Set(["/proc", "/sys", "/dev"]);
/** Levels below the listed folder. */
const maxLevels = 15;
/** Names that are read from one folder; more would need unbounded memory. */
const maxNames = 100_000;
/** How long a listing goes on; a sandbox can create endless trees. */
const listingMs = 3_000;

/**
 * The first `limit` files below a folder after the path `after`, as relative paths in the order of
 * their text, without links, tool folders (`.git`, `node_modules` …), the kernel's folders and
 * files more than 15 levels below. Reads one folder after the other in that order, so that a page
 * does not read the whole tree; what was found after 3 s is the page. Throws as `listFolder`.
 */
export async function listTree(
  sandbox: CommandRunner,
  path: string,
  { limit, after }: { limit: number; after?: string | undefined },
): Promise<string[]> {
  const reader = await FolderReader.open(sandbox, path);
  const found: string[] = [];
  /** Reads one folder; `prefix` is empty or ends in a slash. False when the listing is over. */
  const walk = async (prefix: string, level: number): Promise<boolean> => {
    for (const entry of await reader.read(prefix)) {
      const name = prefix + entry;
      if (!entry.endsWith("/")) {
        if (after === undefined || name > after) found.push(name);
        if (found.length === limit) return false;
      } else if (level < maxLevels && !isSkipped(path, prefix, entry) && !isBefore(name, after)) {
        if (!(await walk(name, level + 1))) return false;
      }
    }
    return !reader.isOver;
  };
  try {
    await walk("", 1);
    await reader.check(path);
    return found;
  } finally {
    reader.close();
  }
}

function isSkipped(path: string, prefix: string, folder: string): boolean {
  const name = folder.slice(0, -1);
  return toolFolders.has(name) || (prefix === "" && kernelFolders.has(posix.join(path, name)));
}

/** True when every path in the folder comes before `after`. */
function isBefore(folder: string, after: string | undefined): boolean {
  return after !== undefined && folder < after && !after.startsWith(folder);
}

/** Reads folders one after the other through one command in the sandbox. */
class FolderReader {
  readonly #process: SandboxProcess;
  readonly #chunks: AsyncIterator<string>;
  readonly #errors: ReturnType<typeof collect>;
  readonly #timer: NodeJS.Timeout;
  #rest = "";
  /** The time is over, or the command has ended. */
  isOver = false;
  #timedOut = false;

  static async open(sandbox: CommandRunner, path: string): Promise<FolderReader> {
    return new FolderReader(
      await sandbox.exec(toScriptCommand(sandbox, folderContentScript, [checkPath(path)])),
    );
  }

  private constructor(process: SandboxProcess) {
    this.#process = process;
    process.stdin.on("error", () => {});
    this.#chunks = process.stdout.setEncoding("utf8")[Symbol.asyncIterator]() as AsyncIterator<string>;
    this.#errors = collect(process.stderr, 8_192);
    this.#timer = setTimeout(() => {
      this.#timedOut = true;
      this.close();
    }, listingMs);
  }

  /** Names in a folder in order; those of folders end in a slash. Empty when the time is over. */
  async read(folder: string): Promise<string[]> {
    if (this.isOver) return [];
    this.#process.stdin.write(`${folder.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n`);
    const folders = await this.#readNames();
    const files = await this.#readNames();
    return [...folders.map((name) => `${name}/`), ...files].sort(compare);
  }

  /** Throws when the listed folder itself could not be read. */
  async check(path: string): Promise<void> {
    if (!this.isOver || this.#timedOut) return;
    const code = exitCode(await this.#process.exit);
    if (code !== 0) throw toFileError(path, "listed", { code, stderr: (await this.#errors).kept });
  }

  close(): void {
    this.isOver = true;
    clearTimeout(this.#timer);
    this.#process.kill();
    this.#process.stdout.destroy();
  }

  /** Names (`./name`, NUL) until an empty one. */
  async #readNames(): Promise<string[]> {
    const names: string[] = [];
    for (;;) {
      const end = this.#rest.indexOf("\0");
      if (end === -1) {
        const next = await this.#chunks.next().catch(() => ({ done: true, value: "" }));
        // No name is that long, so the output is not the script's.
        if (this.#rest.length > 8_192) this.#timedOut = true;
        if (next.done || this.#timedOut) {
          this.isOver = true;
          return names;
        }
        this.#rest += next.value;
      } else {
        const name = this.#rest.slice(2, end);
        this.#rest = this.#rest.slice(end + 1);
        if (name === "") return names;
        if (names.length < maxNames) names.push(name);
      }
    }
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
