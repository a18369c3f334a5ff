import type { Hub } from "./hub.ts";

/** Delay before collected deltas are sent, ms: fewer frames without a visible delay. */
const flushAfterMs = 25;

/** Collects deltas of a model's answer into StreamingDeltaEvent frames (events.md section 4). */
export class DeltaBuffer {
  readonly #hub: Hub;
  readonly #conversationId: string;
  #content = "";
  #reasoning = "";
  #timer: NodeJS.Timeout | undefined;

  constructor(hub: Hub, conversationId: string) {
    this.#hub = hub;
    this.#conversationId = conversationId;
  }

  add(delta: { content?: string; reasoning?: string }): void {
    if (this.#hub.followers(this.#conversationId) === 0) return;
    this.#content += delta.content ?? "";
    this.#reasoning += delta.reasoning ?? "";
    this.#timer ??= setTimeout(() => this.flush(), flushAfterMs);
  }

  /**
   * Sends the collected deltas. Call it before an append, so that no delta follows the stored
   * event.
   */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#content && !this.#reasoning) return;
    this.#hub.publishEvent(this.#conversationId, {
      kind: "StreamingDeltaEvent",
      source: "agent",
      ...(this.#content ? { content: this.#content } : {}),
      ...(this.#reasoning ? { reasoning_content: this.#reasoning } : {}),
    });
    this.#content = "";
    this.#reasoning = "";
  }
}
