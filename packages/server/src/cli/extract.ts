import { type FileHandle, link, mkdir, open, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { Parser, type ReadEntry } from "tar";
import { CliError } from "./errors.ts";
import { inertJson } from "./inert.ts";
import { insideGitFolder } from "./tree.ts";

export interface ExtractLimits {
  /** Bytes of all files together. */
  bytes: number;
  entries: number;
}

/** Zeros of a whole block stay a hole, bytes. */
const blockBytes = 4_096;
const zeros = Buffer.alloc(blockBytes);

/** Characters of a path. */
const maxPath = 4_095;

const defaultLimits: ExtractLimits = { bytes: 32 * 1024 ** 3, entries: 5_000_000 };

/**
 * Unpacks an untrusted tar stream into an empty folder that no other process writes to. Creates
 * only folders, regular files and symbolic links, which are never followed; modes keep only the
 * executable bit; git's own folders, devices and pipes are skipped. Throws CliError for entries
 * that would leave the folder or pass through a link, and beyond the limits.
 */
export async function extractTar(
  source: Readable,
  root: string,
  limits: ExtractLimits = defaultLimits,
): Promise<void> {
  const target = new Target(root, limits);
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  let stopped = false;
  let current: ReadEntry | undefined;
  let work = Promise.resolve();
  const parser = new Parser({
    strict: true,
    onReadEntry: (entry) => {
      work = work.then(async () => {
        if (stopped) return;
        current = entry;
        await target.add(entry);
      });
      work.catch(failed.reject);
    },
  });
  parser.on("error", failed.reject);
  // Heads of entries never reach `onReadEntry`, and there may be endlessly many.
  parser.on("meta", () => {
    try {
      target.count();
    } catch (error) {
      failed.reject(error);
    }
  });
  const read = async () => {
    for await (const chunk of source) {
      if (!parser.write(chunk as Buffer))
        await new Promise((resolve) => parser.once("drain", () => resolve(undefined)));
    }
    const ended = new Promise((resolve) => parser.once("end", () => resolve(undefined)));
    parser.end();
    await ended;
    await work;
  };
  try {
    await Promise.race([read(), failed.promise]);
  } catch (error) {
    stopped = true;
    source.destroy();
    // Writing must have ended when this function returns: stop a file that waits for data.
    if (current?.listenerCount("error")) current.emit("error", new Error("stopped"));
    await work.catch(() => {});
    if (error instanceof CliError) throw error;
    throw new CliError(`The archive from the sandbox could not be unpacked: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/**
 * The target folder. It tracks its entries, so that no entry passes through anything but its
 * folders.
 */
class Target {
  readonly #root: string;
  readonly #limits: ExtractLimits;
  readonly #made = new Map<string, "folder" | "file" | "link">([["", "folder"]]);
  #bytes = 0;
  #entries = 0;

  constructor(root: string, limits: ExtractLimits) {
    this.#root = root;
    this.#limits = limits;
  }

  /** Counts an entry, or a head of one. Throws CliError beyond the limit. */
  count(): void {
    if (++this.#entries > this.#limits.entries)
      throw new CliError(`The archive from the sandbox has more than ${this.#limits.entries} entries.`);
  }

  async add(entry: ReadEntry): Promise<void> {
    this.count();
    // No system has longer ones, and the folders of a path are made one by one.
    if (entry.path.length > maxPath) throw refuseEntry(entry.path, `is longer than ${maxPath} characters`);
    const path = safePath(entry.path);
    if (path === undefined) throw refuseEntry(entry.path, "leads out of the folder");
    if (!insideGitFolder(path)) {
      switch (entry.type) {
        case "Directory":
        case "GNUDumpDir":
          await this.#folder(path);
          break;
        case "File":
        case "OldFile":
        case "ContiguousFile":
          await this.#file(path, entry);
          break;
        case "SymbolicLink":
          await this.#free(path);
          await symlink(entry.linkpath ?? "", join(this.#root, path));
          this.#made.set(path, "link");
          break;
        case "Link":
          await this.#hardLink(path, entry.linkpath ?? "");
          break;
      }
    }
    entry.resume();
  }

  async #folder(path: string): Promise<void> {
    if (this.#made.get(path) === "folder") return;
    if (this.#made.has(path)) throw refuseEntry(path, "is a folder and something else");
    const parent = path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
    await this.#folder(parent);
    await mkdir(join(this.#root, path), 0o755);
    this.#made.set(path, "folder");
  }

  /** Creates the parent folders of a path, and removes an earlier entry with the same name. */
  async #free(path: string): Promise<void> {
    if (path === "" || this.#made.get(path) === "folder")
      throw refuseEntry(path, "is a folder and something else");
    await this.#folder(path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");
    if (this.#made.delete(path)) await rm(join(this.#root, path));
  }

  async #file(path: string, entry: ReadEntry): Promise<void> {
    await this.#free(path);
    const file = await open(join(this.#root, path), "wx", (entry.mode ?? 0) & 0o100 ? 0o755 : 0o644);
    this.#made.set(path, "file");
    let position = 0;
    try {
      for await (const chunk of entry) {
        this.#bytes += chunk.length;
        if (this.#bytes > this.#limits.bytes)
          throw new CliError(`The folder in the sandbox is larger than ${this.#limits.bytes} bytes.`);
        await writeData(file, chunk, position);
        position += chunk.length;
      }
      // A file that ends with zeros has its length, and all have their times (see `Changes`).
      await file.truncate(position);
      if (entry.mtime) await file.utimes(entry.mtime, entry.mtime);
    } finally {
      await file.close();
    }
  }

  async #hardLink(path: string, to: string): Promise<void> {
    const source = safePath(to);
    if (source !== undefined && insideGitFolder(source)) return;
    if (source === undefined || this.#made.get(source) !== "file")
      throw refuseEntry(path, "is a hard link to something that is not in the folder");
    if (source === path) return;
    await this.#free(path);
    await link(join(this.#root, source), join(this.#root, path));
    this.#made.set(path, "file");
  }
}

/** Writes a chunk without its zeros, which stay holes of the file. */
async function writeData(file: FileHandle, chunk: Buffer, position: number): Promise<void> {
  for (let from = 0; from < chunk.length; ) {
    let to = from;
    while (to < chunk.length && !isZero(chunk, to)) to += blockBytes;
    const end = Math.min(to, chunk.length);
    while (from < end) from += (await file.write(chunk, from, end - from, position + from)).bytesWritten;
    while (to < chunk.length && isZero(chunk, to)) to += blockBytes;
    from = to;
  }
}

function isZero(chunk: Buffer, at: number): boolean {
  const end = Math.min(at + blockBytes, chunk.length);
  return chunk.compare(zeros, 0, end - at, at, end) === 0;
}

/**
 * Normalises a relative path, `""` for the folder itself; undefined when it is absolute or has
 * `..`.
 */
export function safePath(path: string): string | undefined {
  if (path.startsWith("/") || path.includes("\0")) return undefined;
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.includes("..") ? undefined : parts.join("/");
}

function refuseEntry(path: string, what: string): CliError {
  return new CliError(`The archive from the sandbox was refused: ${inertJson(path.slice(0, 200))} ${what}.`);
}
