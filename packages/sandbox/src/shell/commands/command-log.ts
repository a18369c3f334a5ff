import { constants } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { type EventJson, headBytes, parseHead } from "./event-json.ts";

/** The location of an event. */
export interface Entry extends Omit<EventJson, "json"> {
  readonly log: CommandLog;
  /** Position of the JSON in the file, bytes. */
  start: number;
  length: number;
  /** The JSON itself, if the disk was full. */
  json?: string;
}

const { O_RDWR, O_CREAT, O_NOFOLLOW, O_RDONLY } = constants;

/**
 * The events of one command in a file of lines `<bytes> <json>`: the command, then its outputs.
 * Loading drops a line that a crash cut off. Callers serialise appends.
 */
export class CommandLog {
  /** 32 hex digits. */
  readonly id: string;
  readonly group: string | undefined;
  readonly entries: Entry[] = [];
  /** Length of the file, bytes. */
  bytes = 0;
  readonly #file: string;
  #handle: FileHandle | undefined;

  constructor(file: string, id: string, group?: string) {
    this.#file = file;
    this.id = id;
    this.group = group;
  }

  /** Whether a reader of the group sees the command; without a group, it sees all commands. */
  isIn(group: string | undefined): boolean {
    return group === undefined || group === this.group;
  }

  /** Reads the locations of the events, not their JSON. */
  static async load(file: string, id: string, group?: string): Promise<CommandLog> {
    const log = new CommandLog(file, id, group);
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

  /** The log has the last output. */
  get ended(): boolean {
    return (this.entries.at(-1)?.exitCode ?? null) !== null;
  }

  /** The number of the next output. */
  get nextOrder(): number {
    return (this.entries.at(-1)?.order ?? -1) + 1;
  }

  /** Appends an event, or nothing when it throws an error of the file system. */
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

  keepInMemory({ json, ...facts }: EventJson): Entry {
    const entry = { ...facts, log: this, start: 0, length: Buffer.byteLength(json), json };
    this.entries.push(entry);
    return entry;
  }

  /**
   * The JSON of events as bytes: strings of this size would fill the heap. Null for removed events.
   */
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

  /** Closes the file; the next append opens it again. */
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
    if (bytesRead === 0) throw new Error("The log of a command has become shorter.");
    done += bytesRead;
  }
  return buffer;
}
