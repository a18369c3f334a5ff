import { eventTime, newId } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";
import type { Follower, Frame } from "../api.ts";
import type { Custody } from "../custody.ts";
import { LostFollowers } from "./lost-followers.ts";

/** The followers of one conversation. */
interface Channel {
  /** Sandbox of the conversation; undefined until the look-up has found it. */
  sandboxId: string | undefined;
  followers: Set<Follower>;
  unfollow: () => void;
}

export interface HubDeps {
  events: EventLog;
  custody: Pick<Custody, "isReleased">;
  /** The sandbox of a conversation; undefined when there is no such conversation. */
  findSandbox(conversationId: string): Promise<string | undefined>;
}

/** Delivers frames to the followers of a conversation: durable records, deltas and full states. */
export class Hub {
  readonly #deps: HubDeps;
  readonly #channels = new Map<string, Channel>();
  readonly lost = new LostFollowers();

  constructor(deps: HubDeps) {
    this.#deps = deps;
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

  /**
   * Ends the followers of conversations in sandboxes that another node owns now; their clients get
   * the rest from that node. Followers whose sandbox is not known yet end too. Returns the
   * conversations.
   */
  leave(sandboxIds: ReadonlySet<string>): string[] {
    const left = [...this.#channels].filter(
      ([, { sandboxId }]) => sandboxId === undefined || sandboxIds.has(sandboxId),
    );
    for (const [id, channel] of left) this.#end(id, channel);
    return left.map(([id]) => id);
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
    const { events, custody, findSandbox } = this.#deps;
    const unfollow = events.follow(conversationId, (records) => {
      // All followers get the same object, so that they share its encoded forms.
      for (const record of records) {
        for (const follower of followers) follower.onFrame(record);
      }
    });
    const room: Channel = { sandboxId: undefined, followers, unfollow };
    this.#channels.set(conversationId, room);
    const noteSandbox = (sandboxId: string | undefined) => {
      room.sandboxId = sandboxId;
      // This node may have released the sandbox during the look-up.
      if (sandboxId && custody.isReleased(sandboxId) && this.#channels.get(conversationId) === room)
        this.#end(conversationId, room);
    };
    findSandbox(conversationId).then(noteSandbox, () => {});
    return room;
  }

  #end(conversationId: string, { followers, unfollow }: Channel): void {
    unfollow();
    this.#channels.delete(conversationId);
    for (const follower of [...followers]) follower.onMoved?.();
  }
}
