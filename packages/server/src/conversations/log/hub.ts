import { eventTime, newId } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";
import type { Follower, Frame } from "../api.ts";
import { LostFollowers } from "./lost-followers.ts";

/** The followers of one conversation. */
interface Channel {
  followers: Set<Follower>;
  unfollow: () => void;
}

/** Delivers frames to the followers of a conversation: durable records, deltas and full states. */
export class Hub {
  readonly #events: EventLog;
  readonly #channels = new Map<string, Channel>();
  readonly lost = new LostFollowers();

  constructor(events: EventLog) {
    this.#events = events;
  }

  /** See `ConversationFeed.follow`. */
  follow(conversationId: string, follower: Follower): (lost?: boolean) => void {
    const room = this.#channels.get(conversationId) ?? this.#open(conversationId);
    room.followers.add(follower);
    return (lost = false) => {
      room.followers.delete(follower);
      if (lost) this.lost.noteLoss(conversationId);
      if (room.followers.size > 0 || this.#channels.get(conversationId) !== room) return;
      room.unfollow();
      this.#channels.delete(conversationId);
    };
  }

  notifyDeletion(conversationId: string): void {
    for (const follower of [...this.#followersOf(conversationId)]) follower.onDeleted();
  }

  followers(conversationId: string): number {
    return this.#channels.get(conversationId)?.followers.size ?? 0;
  }

  publish(conversationId: string, frame: Frame): void {
    for (const follower of this.#followersOf(conversationId)) follower.onFrame(frame);
  }

  /** Resolves when no follower has an earlier full state to handle. */
  async settle(conversationId: string): Promise<void> {
    await Promise.all([...this.#followersOf(conversationId)].map((follower) => follower.settle?.()));
  }

  /** Resolves when every follower has answered two pings, or does not answer in time. */
  async echo(conversationId: string): Promise<void> {
    await Promise.all([...this.#followersOf(conversationId)].map((follower) => follower.echo?.()));
  }

  /** Sends an event that is not stored. It must not contain undefined members. */
  publishEvent(conversationId: string, event: Record<string, unknown>): void {
    if (this.followers(conversationId) === 0) return;
    const stamped = { id: newId(), timestamp: eventTime(Date.now() * 1000), ...event };
    this.publish(conversationId, { json: JSON.stringify(stamped), isFullState: event.key === "full_state" });
  }

  #followersOf(conversationId: string): Iterable<Follower> {
    return this.#channels.get(conversationId)?.followers ?? [];
  }

  #open(conversationId: string): Channel {
    const followers: Channel["followers"] = new Set();
    const unfollow = this.#events.follow(conversationId, (records) => {
      // All followers get the same object, so that they share its encoded forms.
      for (const record of records) {
        for (const follower of followers) follower.onFrame(record);
      }
    });
    const room = { followers, unfollow };
    this.#channels.set(conversationId, room);
    return room;
  }
}
