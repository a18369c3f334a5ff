import { eventTime, newId } from "@sandpiper/wire";
import type { EventLog } from "../store/event-log.ts";
import type { Frame } from "./api.ts";

type Listener = (frame: Frame) => void;

/**
 * Brings frames to the followers of a conversation: what the log makes durable, and what is never stored (deltas, full states).
 * A listener must not block; it queues by itself.
 */
export class Hub {
  readonly #events: EventLog;
  readonly #rooms = new Map<string, { listeners: Set<Listener>; leave: () => void }>();

  constructor(events: EventLog) {
    this.#events = events;
  }

  follow(conversationId: string, listener: Listener): () => void {
    const room = this.#rooms.get(conversationId) ?? this.#open(conversationId);
    room.listeners.add(listener);
    return () => {
      room.listeners.delete(listener);
      if (room.listeners.size > 0 || this.#rooms.get(conversationId) !== room) return;
      room.leave();
      this.#rooms.delete(conversationId);
    };
  }

  followers(conversationId: string): number {
    return this.#rooms.get(conversationId)?.listeners.size ?? 0;
  }

  publish(conversationId: string, frame: Frame): void {
    for (const listener of this.#rooms.get(conversationId)?.listeners ?? []) listener(frame);
  }

  /** Sends an event that is not stored; nulls and undefined members must not be in it. */
  publishEvent(conversationId: string, event: Record<string, unknown>): void {
    if (this.followers(conversationId) === 0) return;
    const stamped = { id: newId(), timestamp: eventTime(Date.now() * 1000), ...event };
    this.publish(conversationId, { json: JSON.stringify(stamped) });
  }

  #open(conversationId: string) {
    const listeners = new Set<Listener>();
    const leave = this.#events.follow(conversationId, (records) => {
      // One and the same frame for all: they share what they make of it.
      for (const record of records) {
        for (const listener of listeners) listener(record);
      }
    });
    const room = { listeners, leave };
    this.#rooms.set(conversationId, room);
    return room;
  }
}
