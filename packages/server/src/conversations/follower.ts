import type { Event } from "@sandpiper/wire";
import { stuckWindow } from "../agent/stuck.ts";
import type { View } from "../agent/view.ts";
import type { EventLog, LogRecord } from "../store/event-log.ts";
import { type ConversationState, emptyState, fold } from "./state.ts";

const pageSize = 500;

/** An awake conversation's reading of its log: state, view and the last events, kept up to date by every record that becomes durable. */
export class LogFollower {
  readonly state: ConversationState = emptyState();
  readonly view: View;
  /** The last listed events, at least as many as the stuck rules look at. */
  recent: Event[] = [];
  readonly #events: EventLog;
  readonly #id: string;
  readonly #leave: () => void;

  constructor(events: EventLog, conversationId: string, view: View) {
    this.#events = events;
    this.#id = conversationId;
    this.view = view;
    this.#leave = events.follow(conversationId, (records) => this.#take(records));
    this.#catchUp();
  }

  close(): void {
    this.#leave();
  }

  #catchUp(): void {
    for (;;) {
      const records = this.#events.read(this.#id, this.state.seq, pageSize);
      for (const record of records) this.#apply(record);
      if (records.length === 0) return;
    }
  }

  #take(records: readonly LogRecord[]): void {
    for (const record of records) {
      if (record.seq > this.state.seq + 1) this.#catchUp();
      if (record.seq === this.state.seq + 1) this.#apply(record);
    }
  }

  #apply(record: LogRecord): void {
    fold(this.state, record);
    if (!record.listed) return;
    this.view.add(record.event);
    this.recent.push(record.event);
    if (this.recent.length > 4 * stuckWindow) this.recent = this.recent.slice(-2 * stuckWindow);
  }
}
