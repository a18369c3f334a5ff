import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { BashQuery } from "./api.ts";
import { CommandLog, type Entry } from "./command-log.ts";
import type { EventJson } from "./event-json.ts";

export interface HistoryLimits {
  /** Limits of a sandbox's history; the oldest ended commands are removed first. */
  commands: number;
  bytes: number;
  events: number;
  /** Bytes of a page and of one batch for a follower; both have at least one event. */
  pageBytes: number;
  followBytes: number;
}

export const historyLimits: HistoryLimits = {
  commands: 1_000,
  bytes: 256 * 2 ** 20,
  events: 50_000,
  pageBytes: 4 * 2 ** 20,
  followBytes: 512 * 1024,
};

/** Events of a sandbox's commands by time: locations in memory, JSON in files. */
export class SandboxHistory {
  readonly logs = new Map<string, CommandLog>();
  readonly #folder: string;
  readonly #limits: HistoryLimits;
  readonly #byId = new Map<string, Entry>();
  readonly #listeners = new Set<() => void>();
  #entries: Entry[] = [];
  #bytes = 0;
  #lastMicros = 0;
  #removed = false;
  /** Serialises changes, so that events are ordered by time. */
  #work: Promise<unknown> = Promise.resolve();

  private constructor(folder: string, limits: HistoryLimits) {
    this.#folder = folder;
    this.#limits = limits;
  }

  static async load(folder: string, limits: HistoryLimits): Promise<SandboxHistory> {
    const history = new SandboxHistory(folder, limits);
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    for (const name of names) {
      const [, id, group] = /^([0-9a-f]{32})(?:\.([0-9a-f]{32}))?\.log$/.exec(name) ?? [];
      if (id === undefined) continue;
      const log = await CommandLog.load(join(folder, name), id, group);
      // The server crashed before it stored the command, so no client knows it.
      if (log.entries.length === 0) await log.remove();
      else history.logs.set(id, log);
    }
    history.#entries = [...history.logs.values()]
      .flatMap(({ entries }) => entries)
      .sort((a, b) => a.micros - b.micros);
    for (const entry of history.#entries) history.#byId.set(entry.id, entry);
    for (const { bytes } of history.logs.values()) history.#bytes += bytes;
    history.#lastMicros = history.#entries.at(-1)?.micros ?? 0;
    return history;
  }

  get newest(): number {
    return this.#lastMicros;
  }

  /** Nothing follows it, and its files have everything. */
  get idle(): boolean {
    return (
      this.#listeners.size === 0 && this.#entries.every(({ json, log }) => json === undefined && log.ended)
    );
  }

  /** Throws SandboxNotFound after `remove`, and errors of the file system. */
  async begin(id: string, make: (micros: number) => EventJson, group?: string): Promise<Entry> {
    return this.#queue(async () => {
      if (this.#removed) throw new PlatformError("CommandSandboxDeleted");
      await this.#trim();
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      const name = group === undefined ? `${id}.log` : `${id}.${group}.log`;
      const log = new CommandLog(join(this.#folder, name), id, group);
      try {
        const entry = this.#take(await log.append(make(this.#stamp())));
        // The command may wait long before its first output.
        await log.close();
        this.logs.set(id, log);
        return entry;
      } catch (error) {
        await log.remove().catch(() => {});
        throw error;
      }
    });
  }

  /** Appends an output; `keep`: in memory if the disk is full. Throws file system errors. */
  async append(log: CommandLog, make: (micros: number) => EventJson, keep = false): Promise<Entry> {
    return this.#queue(async () => {
      const text = make(this.#stamp());
      const before = log.bytes;
      const entry = await log.append(text).catch((error) => {
        if (keep) return log.keepInMemory(text);
        throw error;
      });
      this.#bytes += log.bytes - before;
      if (log.ended) await log.close();
      return this.#take(entry);
    });
  }

  get(id: string, group?: string): Entry | undefined {
    const entry = this.#byId.get(id);
    return entry?.log.isIn(group) ? entry : undefined;
  }

  after(micros: number): Entry[] {
    const from = findIndexAfter(this.#entries, micros);
    return takePage(this.#entries, from, 100, this.#limits.followBytes, () => true).found;
  }

  /** Page ids are positions of events, so that added and removed events do not shift pages. */
  search(query: BashQuery): { found: Entry[]; nextPageId: string | null } {
    const { pageBytes } = this.#limits;
    const { kind, commandId, timeGte = 0, timeLt = Number.POSITIVE_INFINITY } = query;
    const { orderGt, descending = false, limit } = query;
    const within = commandId === undefined ? this.#entries : (this.logs.get(commandId)?.entries ?? []);
    const page = /^\d{1,16}$/.test(query.pageId ?? "") ? Number(query.pageId) : undefined;
    const wanted = ({ order, micros, log }: Entry) =>
      log.isIn(query.group) &&
      (kind === undefined || (kind === "BashCommand") === order < 0) &&
      (orderGt === undefined || (order >= 0 && order > orderGt)) &&
      micros >= timeGte &&
      micros < timeLt;
    if (descending) {
      const upTo = page === undefined ? within.length : findIndexAfter(within, page);
      return takePage(within.slice(0, upTo).reverse(), 0, limit, pageBytes, wanted);
    }
    return takePage(
      within,
      page === undefined ? 0 : findIndexAfter(within, page - 1),
      limit,
      pageBytes,
      wanted,
    );
  }

  async texts(entries: readonly Entry[]): Promise<string[]> {
    return (await this.bytes(entries)).map((json) => json.toString());
  }

  async bytes(entries: readonly Entry[]): Promise<Buffer[]> {
    const found = new Map<Entry, Buffer | null>();
    for (const [log, some] of Map.groupBy(entries, ({ log }) => log))
      for (const [index, json] of (await log.read(some)).entries()) found.set(some[index]!, json);
    return entries.map((entry) => found.get(entry) ?? null).filter((json) => json !== null);
  }

  /** Removes the ended commands; returns the number of their events. */
  async clear(group?: string): Promise<number> {
    return this.#queue(async () => {
      const before = this.#entries.length;
      await this.#drop([...this.logs.values()].filter((log) => log.ended && log.isIn(group)));
      return before - this.#entries.length;
    });
  }

  /** Removes everything; all commands must have ended. */
  async remove(): Promise<void> {
    await this.#queue(async () => {
      this.#removed = true;
      await this.#drop([...this.logs.values()]);
      await rm(this.#folder, { recursive: true, force: true });
    });
  }

  follow(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #take(entry: Entry): Entry {
    this.#entries.push(entry);
    this.#byId.set(entry.id, entry);
    if (entry.order < 0) this.#bytes += entry.log.bytes;
    for (const listener of this.#listeners) listener();
    return entry;
  }

  #stamp(): number {
    this.#lastMicros = Math.max(Date.now() * 1000, this.#lastMicros + 1);
    return this.#lastMicros;
  }

  /** Removes old commands until the limits allow one more. */
  async #trim(): Promise<void> {
    const gone: CommandLog[] = [];
    let [bytes, events, commands] = [this.#bytes, this.#entries.length, this.logs.size];
    for (const log of this.logs.values()) {
      if (bytes <= this.#limits.bytes && events <= this.#limits.events && commands < this.#limits.commands)
        break;
      if (!log.ended) continue;
      bytes -= log.bytes;
      events -= log.entries.length;
      commands -= 1;
      gone.push(log);
    }
    await this.#drop(gone);
  }

  async #drop(logs: readonly CommandLog[]): Promise<void> {
    if (logs.length === 0) return;
    const gone = new Set(logs);
    for (const log of logs) {
      this.logs.delete(log.id);
      for (const { id } of log.entries) this.#byId.delete(id);
      this.#bytes -= log.bytes;
    }
    this.#entries = this.#entries.filter(({ log }) => !gone.has(log));
    for (const log of logs) await log.remove();
  }

  #queue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work);
    this.#work = result.catch(() => {});
    return result;
  }
}

/** Index of the first entry after a position. */
function findIndexAfter(entries: readonly Entry[], micros: number): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (entries[middle]!.micros <= micros) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first wanted entries within the limits, at least one. */
function takePage(
  entries: readonly Entry[],
  from: number,
  limit: number,
  maxBytes: number,
  wanted: (entry: Entry) => boolean,
): { found: Entry[]; nextPageId: string | null } {
  const found: Entry[] = [];
  let bytes = 0;
  for (let at = from; at < entries.length; at++) {
    const entry = entries[at]!;
    if (!wanted(entry)) continue;
    bytes += entry.length;
    if (found.length === limit || (found.length > 0 && bytes > maxBytes))
      return { found, nextPageId: String(entry.micros) };
    found.push(entry);
  }
  return { found, nextPageId: null };
}
