import type { LogRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { countsAsProgress, stuckWindow } from "@sandpiper/agent/loop/stuck";
import type { View } from "@sandpiper/agent/prompt/view";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Event } from "@sandpiper/wire";
import { isInside } from "../../store/branch.ts";
import type { ActiveBranch, EventLog } from "../../store/event-log.ts";
import { type ConversationState, emptyState, fold } from "./state.ts";

/** Records per page; other work runs between two pages. */
const pageSize = 500;

export interface LogFollowerDeps {
  events: EventLog;
  scheduler: TurnScheduler;
}

/**
 * Follows the log of an awake conversation: state, view and last events include every durable
 * record. A log is read in pages, at first and again after HEAD was moved; before `ready` they
 * include only a part of it.
 */
export class LogFollower {
  readonly state: ConversationState = emptyState();
  readonly view: View;
  /**
   * At least as many last events as the stuck rules need. The events before a stuck run do not
   * count for the next run.
   */
  recent: Event[] = [];
  readonly #events: EventLog;
  readonly #scheduler: TurnScheduler;
  readonly #id: string;
  readonly #unfollow: () => void;
  #branch: ActiveBranch = { spans: [], listed: 0 };
  /** The number of listed events so far. */
  #listed = 0;
  /** Records up to this one are part of `#branch`. */
  #branchSeq = 0;
  /** The last record that became durable while the log was read. */
  #receivedSeq = 0;
  #isReady = false;
  #ready: Promise<void>;

  constructor({ events, scheduler }: LogFollowerDeps, conversationId: string, view: View) {
    this.#events = events;
    this.#scheduler = scheduler;
    this.#id = conversationId;
    this.view = view;
    this.#unfollow = events.follow(conversationId, (records) => this.#receive(records));
    this.#ready = this.#load();
  }

  /** Resolves when the whole log is read. Throws what a read throws. */
  get ready(): Promise<void> {
    return this.#ready;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  close(): void {
    this.#unfollow();
  }

  #load(): Promise<void> {
    this.#isReady = false;
    const loaded = this.#readAll();
    // The failure is for callers that wait for the log; without a caller the follower stays
    // unready.
    loaded.catch(() => {});
    return loaded;
  }

  async #readAll(): Promise<void> {
    await this.#begin();
    while (this.state.seq < Math.max(this.#branchSeq, this.#receivedSeq)) {
      await this.#scheduler.nextTurn("log pages");
      // The log of a removed conversation is empty.
      if ((await this.#readPage()) === 0) break;
    }
    // No record comes between the check and this: the next one is applied when it is received.
    this.#isReady = true;
  }

  /**
   * Begins from the first record. The branch is read after the end of the log, so that it contains
   * all moves up to that end.
   */
  async #begin(): Promise<void> {
    Object.assign(this.state, emptyState());
    this.view.reset();
    this.recent = [];
    this.#listed = 0;
    this.#branchSeq = await this.#events.lastSeq(this.#id);
    this.#branch = await this.#events.branch(this.#id);
  }

  /** Returns the number of records. */
  async #readPage(): Promise<number> {
    const records = await this.#events.readParsed(this.#id, this.state.seq, pageSize);
    for (const record of records) {
      if (this.#movesHead(record)) {
        await this.#begin();
        break;
      }
      this.#apply(record);
    }
    return records.length;
  }

  #receive(records: readonly LogRecord[]): void {
    for (const record of records) {
      // `#readAll` reads these records.
      this.#receivedSeq = record.seq;
      if (!this.#isReady || record.seq <= this.state.seq) continue;
      if (record.seq > this.state.seq + 1 || this.#movesHead(record)) this.#ready = this.#load();
      else this.#apply(record);
    }
  }

  /** HEAD was moved: earlier records may belong to another branch. */
  #movesHead({ event, seq }: ParsedRecord): boolean {
    const moves = event.kind === "ConversationStateUpdateEvent" && event.key === "leaf_event_id";
    return moves && seq > this.#branchSeq;
  }

  #apply(record: ParsedRecord): void {
    const { event, seq, listed } = record;
    if (listed && !this.#isOnBranch(++this.#listed)) {
      this.state.seq = seq;
      return;
    }
    fold(this.state, record);
    if (event.kind === "ConversationStateUpdateEvent" && event.value === "stuck") this.recent = [];
    if (!listed) return;
    this.view.add(record.event);
    if (!countsAsProgress(record.event)) return;
    this.recent.push(record.event);
    if (this.recent.length > 2 * stuckWindow) this.recent = this.recent.slice(-stuckWindow);
  }

  /** Later events are on the branch until HEAD moves. */
  #isOnBranch(index: number): boolean {
    const { spans, listed } = this.#branch;
    return index > listed || isInside(spans, index);
  }
}
