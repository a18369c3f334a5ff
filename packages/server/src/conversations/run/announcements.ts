import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import type { Histories } from "./histories.ts";

/**
 * Delay before the closing state of a run is sent again, ms. The Python client starts to wait only
 * after the response to its run call, so it misses the first frame of a short run
 * (remote-clients.md section 4, rule 5).
 */
const repeatMs = 200;

export interface AnnouncementsDeps {
  store: Pick<Store, "conversations">;
  hub: Pick<Hub, "followers" | "publishEvent">;
  histories: Pick<Histories, "fullState">;
  isAwake(conversationId: string): boolean;
}

/** Sends followers the full state of conversations. */
export class Announcements {
  readonly #deps: AnnouncementsDeps;
  /** Pending repeats of closing states, by conversation. */
  readonly #repeats = new Map<string, NodeJS.Timeout>();

  constructor(deps: AnnouncementsDeps) {
    this.#deps = deps;
  }

  announce(conversationId: string): void {
    const { store, hub, histories } = this.#deps;
    if (hub.followers(conversationId) === 0) return;
    const row = store.conversations.get(conversationId);
    if (!row) return;
    const value = histories.fullState(row);
    hub.publishEvent(conversationId, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: "full_state",
      value,
    });
  }

  /** Sends a changed field, then the whole state. */
  announceField(conversationId: string, key: string, value: unknown): void {
    this.#deps.hub.publishEvent(conversationId, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key,
      value: value ?? undefined,
    });
    this.announce(conversationId);
  }

  /**
   * Announces a changed title, except while a run begins or ends: a state that is not `running`
   * looks like the end of that run to a waiting client.
   */
  announceTitle(conversationId: string): void {
    const status = this.#deps.store.conversations.get(conversationId)?.summary.executionStatus;
    if (status === "running" || !this.#deps.isAwake(conversationId)) this.announce(conversationId);
  }

  /** Sends the state now, and again for clients that were not ready for it. */
  announceEnd(conversationId: string): void {
    this.announce(conversationId);
    this.cancelRepeat(conversationId);
    const repeat = () => {
      this.#repeats.delete(conversationId);
      if (!this.#deps.isAwake(conversationId)) this.announce(conversationId);
    };
    this.#repeats.set(conversationId, setTimeout(repeat, repeatMs));
  }

  /**
   * Cancels the repeat when a client writes or asks for a run: the old closing state would look
   * like the end of the new run.
   */
  cancelRepeat(conversationId: string): void {
    clearTimeout(this.#repeats.get(conversationId));
    this.#repeats.delete(conversationId);
  }

  close(): void {
    for (const timer of this.#repeats.values()) clearTimeout(timer);
    this.#repeats.clear();
  }
}
