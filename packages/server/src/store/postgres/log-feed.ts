import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { type LogListener, LogListeners } from "../sql/log-listeners.ts";

/** Most records that one read gets when a follower is behind. */
const pageSize = 500;

export interface LogSource {
  lastSeq(conversationId: string): Promise<number>;
  read(conversationId: string, afterSeq: number, limit: number): Promise<LogRecord[]>;
  /** Returns the last sequence numbers of the existing conversations, by id. */
  lastSeqs(conversationIds: readonly string[]): Promise<Map<string, number>>;
}

/** How far the followers of a conversation have got. */
interface Position {
  /** Sequence number of the last delivered record; undefined until the end of the log is known. */
  seq: number | undefined;
  /** Resolves when `seq` is known. */
  known: Promise<void>;
  /** Appends of this process that are not delivered yet. */
  own: (readonly LogRecord[])[];
  /** Sequence number of the last record that is known to exist. */
  newest: number;
  isMoving: boolean;
  /** Appends of this process that wait until their last record is delivered. */
  waiting: { seq: number; resolve: () => void }[];
}

/**
 * Gives followers the records of a conversation once and in order, whichever process appended them.
 * Followers get the records of this process at once, and those of other processes when a
 * notification or a poll tells of them. The feed reads missing records from the log.
 */
export class LogFeed {
  readonly #source: LogSource;
  readonly #listeners = new LogListeners();
  readonly #positions = new Map<string, Position>();

  constructor(source: LogSource) {
    this.#source = source;
  }

  follow(conversationId: string, listener: LogListener): () => void {
    const unfollow = this.#listeners.follow(conversationId, listener);
    if (!this.#positions.has(conversationId)) this.#start(conversationId);
    return () => {
      unfollow();
      if (this.#listeners.isFollowed(conversationId)) return;
      const position = this.#positions.get(conversationId);
      this.#positions.delete(conversationId);
      if (position) settle(position, Number.POSITIVE_INFINITY);
    };
  }

  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void {
    return this.#listeners.followAll(listener);
  }

  /**
   * A reader of a followed log waits for this, so that each record is either in what it reads or
   * delivered afterwards.
   */
  whenReady(conversationId: string): Promise<void> | undefined {
    const position = this.#positions.get(conversationId);
    return position?.seq === undefined ? position?.known : undefined;
  }

  /**
   * Delivers records that this process has appended, at least one. Returns a promise when the
   * followers lack earlier records; it resolves when they have these ones.
   */
  appended(conversationId: string, records: readonly LogRecord[]): Promise<void> | undefined {
    const position = this.#positions.get(conversationId);
    if (position) {
      position.own.push(records);
      void this.#move(conversationId, position);
    }
    this.#listeners.tellObservers(conversationId, records);
    const { seq } = records.at(-1)!;
    if (!position || (position.seq !== undefined && position.seq >= seq)) return undefined;
    return new Promise((resolve) => position.waiting.push({ seq, resolve }));
  }

  /** Notes that a record exists, because another process has said so. */
  heard(conversationId: string, seq: number): void {
    const position = this.#positions.get(conversationId);
    if (!position || seq <= position.newest) return;
    position.newest = seq;
    void this.#move(conversationId, position);
  }

  /** Asks the log for records that no notification has announced. */
  async poll(): Promise<void> {
    const ids = [...this.#positions.keys()];
    if (ids.length === 0) return;
    for (const [id, position] of this.#positions)
      if (position.seq === undefined && !position.isMoving) this.#start(id, position);
    for (const [id, seq] of await this.#source.lastSeqs(ids)) this.heard(id, seq);
    // The feed repeats reads that failed.
    for (const [id, position] of this.#positions) void this.#move(id, position);
  }

  #start(conversationId: string, last?: Position): void {
    const position: Position = last ?? {
      seq: undefined,
      known: Promise.resolve(),
      own: [],
      newest: 0,
      isMoving: false,
      waiting: [],
    };
    position.isMoving = true;
    position.known = this.#source
      .lastSeq(conversationId)
      .then((end) => {
        const [first] = position.own;
        position.seq = first ? Math.min(end, first[0]!.seq - 1) : end;
        position.newest = Math.max(position.newest, end);
      })
      .catch(() => {})
      .then(() => {
        position.isMoving = false;
        void this.#move(conversationId, position);
      });
    this.#positions.set(conversationId, position);
  }

  async #move(conversationId: string, position: Position): Promise<void> {
    if (position.isMoving || position.seq === undefined) return;
    position.isMoving = true;
    try {
      while (this.#positions.get(conversationId) === position) {
        const isBehind = position.own.length > 0 || position.newest > position.seq;
        let records = this.#nextOwn(position);
        if (!records && isBehind) {
          const read = await this.#source.read(conversationId, position.seq, pageSize);
          records = read.length > 0 ? read : this.#nextOwn(position);
        }
        if (!records) return;
        position.seq = records.at(-1)!.seq;
        position.newest = Math.max(position.newest, position.seq);
        try {
          this.#listeners.tellFollowers(conversationId, records);
        } finally {
          settle(position, position.seq);
        }
      }
    } catch {
      // The database is away: the next poll tries again.
    } finally {
      position.isMoving = false;
    }
  }

  /**
   * Returns the append of this process that comes next; undefined when another record comes first.
   */
  #nextOwn(position: Position): readonly LogRecord[] | undefined {
    const next = position.seq! + 1;
    // These appends were already read from the log.
    while (position.own[0] && position.own[0][0]!.seq < next) position.own.shift();
    return position.own[0]?.[0]?.seq === next ? position.own.shift() : undefined;
  }
}

/** Resolves the promises that wait for records up to this sequence number. */
function settle(position: Position, upTo: number): void {
  const ended = position.waiting.filter(({ seq }) => seq <= upTo);
  position.waiting = position.waiting.filter(({ seq }) => seq > upTo);
  for (const { resolve } of ended) resolve();
}
