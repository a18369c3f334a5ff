import { eventTime, newId } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";
import type { Frame } from "../api.ts";

type Listener = (frame: Frame) => void;

/** The followers of one conversation, with their `onDeleted` callbacks. */
interface Channel {
  listeners: Map<Listener, () => void>;
  unfollow: () => void;
}

/**
 * Delivers frames to the followers of a conversation: durable records, deltas and full states. A
 * listener must not block; it queues by itself.
 */
export class Hub {
  readonly #events: EventLog;
  readonly #channels = new Map<string, Channel>();

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** `onDeleted` is called once the conversation is deleted; no frame follows. */
  follow(conversationId: string, listener: Listener, onDeleted: () => void): () => void {
    const room = this.#channels.get(conversationId) ?? this.#open(conversationId);
    room.listeners.set(listener, onDeleted);
    return () => {
      room.listeners.delete(listener);
      if (room.listeners.size > 0 || this.#channels.get(conversationId) !== room) return;
      room.unfollow();
      this.#channels.delete(conversationId);
    };
  }

  notifyDeletion(conversationId: string): void {
    for (const onDeleted of [...(this.#channels.get(conversationId)?.listeners.values() ?? [])]) onDeleted();
  }

  followers(conversationId: string): number {
    return this.#channels.get(conversationId)?.listeners.size ?? 0;
  }

  publish(conversationId: string, frame: Frame): void {
    for (const listener of this.#channels.get(conversationId)?.listeners.keys() ?? []) listener(frame);
  }

  /** Sends an event that is not stored. It must not contain nulls or undefined members. */
  publishEvent(conversationId: string, event: Record<string, unknown>): void {
    if (this.followers(conversationId) === 0) return;
    const stamped = { id: newId(), timestamp: eventTime(Date.now() * 1000), ...event };
    this.publish(conversationId, { json: JSON.stringify(stamped) });
  }

  #open(conversationId: string): Channel {
    const listeners: Channel["listeners"] = new Map();
    const unfollow = this.#events.follow(conversationId, (records) => {
      // All listeners get the same object, so that they share its encoded forms.
      for (const record of records) {
        for (const listener of listeners.keys()) listener(record);
      }
    });
    const room = { listeners, unfollow };
    this.#channels.set(conversationId, room);
    return room;
  }
}
