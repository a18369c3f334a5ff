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
 * record. A long log is read in pages; before `ready` they include only a part of it.
 */
export class LogFollower {
  /** Resolves when the whole log is read. */
  readonly ready: Promise<void>;
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
  #branch: ActiveBranch;
  /** The number of listed events so far. */
  #listed = 0;
  /** Records up to this one are part of `#branch`. */
  #branchSeq: number;
  #isReady = false;

  constructor({ events, scheduler }: LogFollowerDeps, conversationId: string, view: View) {
    this.#events = events;
    this.#scheduler = scheduler;
    this.#id = conversationId;
    this.view = view;
    this.#unfollow = events.follow(conversationId, (records) => this.#receive(records));
    this.#branchSeq = events.lastSeq(conversationId);
    this.#branch = events.branch(conversationId);
    this.ready = this.#load();
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  /** Reads the rest of the log synchronously. */
  finish(): void {
    this.#catchUp();
    this.#isReady = true;
  }

  close(): void {
    this.#unfollow();
  }

  async #load(): Promise<void> {
    while (!this.#isReady) {
      await this.#scheduler.nextTurn("log pages");
      if (this.#isReady) return;
      this.#readPage();
      if (this.state.seq >= this.#events.lastSeq(this.#id)) this.#isReady = true;
    }
  }

  #catchUp(): void {
    while (this.#readPage() > 0);
  }

  /** Returns the number of records. */
  #readPage(): number {
    const records = this.#events.readParsed(this.#id, this.state.seq, pageSize);
    // A record that moves HEAD starts the reading anew; the rest of the page is then stale.
    for (const record of records) if (record.seq === this.state.seq + 1) this.#apply(record);
    return records.length;
  }

  #receive(records: readonly LogRecord[]): void {
    // `#load` reads them.
    if (!this.#isReady) return;
    for (const record of records) {
      if (record.seq > this.state.seq + 1) this.#catchUp();
      if (record.seq === this.state.seq + 1) this.#apply(record);
    }
  }

  #apply(record: ParsedRecord): void {
    const { event, seq, listed } = record;
    const moves = event.kind === "ConversationStateUpdateEvent" && event.key === "leaf_event_id";
    if (moves && seq > this.#branchSeq) return this.#refold();
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

  /** HEAD was moved: earlier records may belong to another branch. */
  #refold(): void {
    Object.assign(this.state, emptyState());
    this.view.reset();
    this.recent = [];
    this.#listed = 0;
    this.#branchSeq = this.#events.lastSeq(this.#id);
    this.#branch = this.#events.branch(this.#id);
    if (this.#isReady) this.#catchUp();
  }
}
