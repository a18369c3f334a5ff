import type { Event } from "@sandpiper/wire";
import { stuckWindow } from "../agent/stuck.ts";
import type { View } from "../agent/view.ts";
import { isInside } from "../store/branch.ts";
import type { Branch, EventLog, LogRecord } from "../store/event-log.ts";
import { type ConversationState, emptyState, fold } from "./state.ts";

const pageSize = 500;

/** An awake conversation's reading of its log: state, view and the last events, kept up to date by every record that becomes durable. */
export class LogFollower {
  readonly state: ConversationState = emptyState();
  readonly view: View;
  /** The last events of the branch, at least as many as the stuck rules look at. */
  recent: Event[] = [];
  readonly #events: EventLog;
  readonly #id: string;
  readonly #leave: () => void;
  #branch: Branch;
  /** Listed events so far. */
  #listed = 0;
  /** Records up to here were written before the branch was read. */
  #knownSeq: number;

  constructor(events: EventLog, conversationId: string, view: View) {
    this.#events = events;
    this.#id = conversationId;
    this.view = view;
    this.#leave = events.follow(conversationId, (records) => this.#take(records));
    this.#knownSeq = events.lastSeq(conversationId);
    this.#branch = events.branch(conversationId);
    this.#catchUp();
  }

  close(): void {
    this.#leave();
  }

  #catchUp(): void {
    for (;;) {
      const records = this.#events.read(this.#id, this.state.seq, pageSize);
      if (records.length === 0) return;
      // One that moves HEAD has the log read anew, and further than these.
      for (const record of records) if (record.seq === this.state.seq + 1) this.#apply(record);
    }
  }

  #take(records: readonly LogRecord[]): void {
    for (const record of records) {
      if (record.seq > this.state.seq + 1) this.#catchUp();
      if (record.seq === this.state.seq + 1) this.#apply(record);
    }
  }

  #apply(record: LogRecord): void {
    const { event, seq, listed } = record;
    const moves = event.kind === "ConversationStateUpdateEvent" && event.key === "leaf_event_id";
    if (moves && seq > this.#knownSeq) return this.#refold();
    if (listed && !this.#isOnBranch(++this.#listed)) {
      this.state.seq = seq;
      return;
    }
    fold(this.state, record);
    if (!listed) return;
    this.view.add(record.event);
    this.recent.push(record.event);
    if (this.recent.length > 4 * stuckWindow) this.recent = this.recent.slice(-2 * stuckWindow);
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
    this.#knownSeq = this.#events.lastSeq(this.#id);
    this.#branch = this.#events.branch(this.#id);
    this.#catchUp();
  }
}
