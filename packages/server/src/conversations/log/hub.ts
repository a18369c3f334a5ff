import { eventTime, newId } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";
import type { Frame } from "../api.ts";

type Listener = (frame: Frame) => void;

/** The followers of one conversation, with what each is told when it is deleted. */
interface Room {
  listeners: Map<Listener, () => void>;
  leave: () => void;
}

/**
 * Brings frames to the followers of a conversation: what the log makes durable, and what is never stored (deltas, full states).
 * A listener must not block; it queues by itself.
 */
export class Hub {
  readonly #events: EventLog;
  readonly #rooms = new Map<string, Room>();

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** `onDeleted` is called once the conversation is deleted: no frame comes any more. */
  follow(conversationId: string, listener: Listener, onDeleted: () => void): () => void {
    const room = this.#rooms.get(conversationId) ?? this.#open(conversationId);
    room.listeners.set(listener, onDeleted);
    return () => {
      room.listeners.delete(listener);
      if (room.listeners.size > 0 || this.#rooms.get(conversationId) !== room) return;
      room.leave();
      this.#rooms.delete(conversationId);
    };
  }

  /** Tells the followers of a conversation that it has been deleted. */
  end(conversationId: string): void {
    for (const onDeleted of [...(this.#rooms.get(conversationId)?.listeners.values() ?? [])]) onDeleted();
  }

  followers(conversationId: string): number {
    return this.#rooms.get(conversationId)?.listeners.size ?? 0;
  }

  publish(conversationId: string, frame: Frame): void {
    for (const listener of this.#rooms.get(conversationId)?.listeners.keys() ?? []) listener(frame);
  }

  /** Sends an event that is not stored; nulls and undefined members must not be in it. */
  publishEvent(conversationId: string, event: Record<string, unknown>): void {
    if (this.followers(conversationId) === 0) return;
    const stamped = { id: newId(), timestamp: eventTime(Date.now() * 1000), ...event };
    this.publish(conversationId, { json: JSON.stringify(stamped) });
  }

  #open(conversationId: string): Room {
    const listeners: Room["listeners"] = new Map();
    const leave = this.#events.follow(conversationId, (records) => {
      // One and the same frame for all: they share what they make of it.
      for (const record of records) {
        for (const listener of listeners.keys()) listener(record);
      }
    });
    const room = { listeners, leave };
    this.#rooms.set(conversationId, room);
    return room;
  }
}
