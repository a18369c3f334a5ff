import type { LogRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { countsAsProgress, stuckWindow } from "@sandpiper/agent/loop/stuck";
import type { View } from "@sandpiper/agent/prompt/view";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Event } from "@sandpiper/wire";
import { isInside } from "../../store/branch.ts";
import type { Branch, EventLog } from "../../store/event-log.ts";
import { type ConversationState, emptyState, fold } from "./state.ts";

/** Records that are read before others get their turn. */
const pageSize = 500;

export interface LogFollowerDeps {
  events: EventLog;
  scheduler: TurnScheduler;
}

/**
 * An awake conversation's reading of its log: state, view and the last events, kept up to date by every record that becomes durable. A long log is read while
 * the server goes on serving: what is known is part of it until `ready`.
 */
export class LogFollower {
  /** Resolves when all of the log is known. */
  readonly ready: Promise<void>;
  readonly state: ConversationState = emptyState();
  readonly view: View;
  /** The last events of the branch that the stuck rules look at, at least as many as they do. What led to a run that was stuck does not count for the next one. */
  recent: Event[] = [];
  readonly #events: EventLog;
  readonly #scheduler: TurnScheduler;
  readonly #id: string;
  readonly #unfollow: () => void;
  #branch: Branch;
  /** Listed events so far. */
  #listed = 0;
  /** Records up to here were written before the branch was read. */
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

  /** All of the log is known. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Reads the rest of the log at once. */
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

  /** Gives the number of records. */
  #readPage(): number {
    const records = this.#events.readParsed(this.#id, this.state.seq, pageSize);
    // One that moves HEAD has the log read anew, and not after these.
    for (const record of records) if (record.seq === this.state.seq + 1) this.#apply(record);
    return records.length;
  }

  #receive(records: readonly LogRecord[]): void {
    // They will be read in their turn.
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

  /** Later events are on the branch until it is moved. */
  #isOnBranch(index: number): boolean {
    const { spans, listed } = this.#branch;
    return index > listed || isInside(spans, index);
  }

  /** HEAD was moved: what was read before may belong to another branch now. */
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
