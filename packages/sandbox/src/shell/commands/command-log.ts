import { constants } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { type EventJson, headBytes, parseHead } from "./event-json.ts";

/** Where an event of a command stands. */
export interface Entry extends Omit<EventJson, "json"> {
  readonly log: CommandLog;
  /** Of the JSON text in the file, bytes. */
  start: number;
  length: number;
  /** The text itself, where the disk had no room for it. */
  json?: string;
}

const { O_RDWR, O_CREAT, O_NOFOLLOW, O_RDONLY } = constants;

/**
 * The events of one command, in a file of lines `<bytes> <json>`: first the command, then its outputs. What a crash cut off at the end is dropped
 * when it is read again. Appending is the caller's to do one after the other.
 */
export class CommandLog {
  /** 32 hex digits. */
  readonly id: string;
  readonly entries: Entry[] = [];
  /** Length of the file. */
  bytes = 0;
  readonly #file: string;
  #handle: FileHandle | undefined;

  constructor(file: string, id: string) {
    this.#file = file;
    this.id = id;
  }

  /** Reads where the events of a file stand, and not their texts. */
  static async load(file: string, id: string): Promise<CommandLog> {
    const log = new CommandLog(file, id);
    const handle = await open(file, O_RDONLY | O_NOFOLLOW);
    try {
      const { size } = await handle.stat();
      const buffer = Buffer.alloc(headBytes);
      for (;;) {
        const { bytesRead } = await handle.read(buffer, 0, headBytes, log.bytes);
        const found = parseHead(buffer.toString("latin1", 0, bytesRead));
        if (!found || log.bytes + found.start + found.length + 1 > size) return log;
        log.entries.push({ ...found, log, start: log.bytes + found.start });
        log.bytes += found.start + found.length + 1;
      }
    } finally {
      await handle.close();
    }
  }

  /** The last output is there. */
  get ended(): boolean {
    return (this.entries.at(-1)?.exitCode ?? null) !== null;
  }

  /** The number of the next output. */
  get nextOrder(): number {
    return (this.entries.at(-1)?.order ?? -1) + 1;
  }

  /** Writes an event behind the others. Where that fails nothing is there, and it throws what the file system throws. */
  async append({ json, ...facts }: EventJson): Promise<Entry> {
    const front = `${Buffer.byteLength(json)} `;
    const record = Buffer.from(`${front}${json}\n`);
    this.#handle ??= await open(this.#file, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      for (let done = 0; done < record.length; )
        done += (await this.#handle.write(record, done, record.length - done, this.bytes + done))
          .bytesWritten;
    } catch (error) {
      await this.#handle.truncate(this.bytes).catch(() => {});
      throw error;
    }
    const entry = {
      ...facts,
      log: this,
      start: this.bytes + front.length,
      length: record.length - front.length - 1,
    };
    this.bytes += record.length;
    this.entries.push(entry);
    return entry;
  }

  /** Keeps an event in memory alone. */
  keepInMemory({ json, ...facts }: EventJson): Entry {
    const entry = { ...facts, log: this, start: 0, length: Buffer.byteLength(json), json };
    this.entries.push(entry);
    return entry;
  }

  /** The JSON of some of its events, as bytes: texts of this size would lie in memory until the next full collection. Null for those that were removed meanwhile. */
  async read(entries: readonly Entry[]): Promise<(Buffer | null)[]> {
    let handle: FileHandle | undefined;
    try {
      if (entries.some(({ json }) => json === undefined))
        handle = await open(this.#file, O_RDONLY | O_NOFOLLOW);
      const found: Buffer[] = [];
      for (const { json, start, length } of entries)
        found.push(json === undefined ? await readBytes(handle!, start, length) : Buffer.from(json));
      return found;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT")
        return entries.map(({ json }) => (json === undefined ? null : Buffer.from(json)));
      throw error;
    } finally {
      await handle?.close();
    }
  }

  /** Lets go of the file; nothing more is appended for now. */
  async close(): Promise<void> {
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async remove(): Promise<void> {
    await this.close();
    await rm(this.#file, { force: true });
  }
}

async function readBytes(handle: FileHandle, start: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await handle.read(buffer, done, length - done, start + done);
    if (bytesRead === 0) throw new Error("The log of a command is shorter than it was.");
    done += bytesRead;
  }
  return buffer;
}
