import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import type { Histories } from "./histories.ts";

/**
 * How long after the end of a run its closing state is sent again, ms. The Python client arms its wait only after the answer
 * to its run call, so the first frame of a very short run comes too early for it (remote-clients.md section 4, rule 5).
 */
const repeatMs = 200;

export interface AnnouncementsDeps {
  store: Pick<Store, "conversations">;
  hub: Pick<Hub, "followers" | "publishEvent">;
  histories: Pick<Histories, "fullState">;
  isAwake(conversationId: string): boolean;
}

/** Tells followers the whole state of conversations. */
export class Announcements {
  readonly #deps: AnnouncementsDeps;
  /** Closing states that are to be sent again, by conversation. */
  readonly #repeats = new Map<string, NodeJS.Timeout>();

  constructor(deps: AnnouncementsDeps) {
    this.#deps = deps;
  }

  /** Sends the whole state to the followers. */
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

  /**
   * Tells the followers a changed title. While a run begins or ends that is left to its own announcement: a state that is not `running` looks like the end
   * of that run to the client that waits for it.
   */
  announceTitle(conversationId: string): void {
    const status = this.#deps.store.conversations.get(conversationId)?.summary.executionStatus;
    if (status === "running" || !this.#deps.isAwake(conversationId)) this.announce(conversationId);
  }

  /** Sends the whole state now, and once more for clients that were not ready for it. */
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
   * Who writes or asks for a run has seen the end of the one before: it is not sent again. On the way to the next run that state would look like
   * its end, and a client that waits for it would stop.
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
