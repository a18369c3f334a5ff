import { isDeepStrictEqual } from "node:util";
import type { UsageMetrics } from "@sandpiper/agent/loop/records";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { ModelResponse } from "@sandpiper/models/model";
import type { Store } from "../../store/store.ts";
import type { ActiveRuns } from "./active-runs.ts";
import type { Histories } from "./histories.ts";
import type { SideCallUsage } from "./side-call-usage.ts";

export interface ConversationUsageDeps {
  store: Pick<Store, "conversations">;
  runs: Pick<ActiveRuns, "isAwake">;
  histories: Pick<Histories, "stats">;
  pending: SideCallUsage;
}

/** Adds what is used outside of a conversation's own run to its metrics. */
export class ConversationUsage {
  readonly #deps: ConversationUsageDeps;
  /**
   * Serialises the changes and writes of a conversation, so that each begins with the metrics that
   * the log has then.
   */
  readonly #changes = new KeyedMutex();

  constructor(deps: ConversationUsageDeps) {
    this.#deps = deps;
  }

  /** Adds a side call. Throws what `append` throws. */
  async add(conversationId: string, usageId: string, model: string, response: ModelResponse): Promise<void> {
    const { store, runs, histories, pending } = this.#deps;
    await this.#changes.run(conversationId, async () => {
      const row = await store.conversations.get(conversationId);
      if (!row) return;
      const stats = histories.stats(row);
      pending.add(conversationId, usageId, model, response, stats);
      if (!runs.isAwake(conversationId)) await pending.write(conversationId, stats);
    });
  }

  /** Writes the usage that an ended run did not write. Throws what `append` throws. */
  async writePending(conversationId: string): Promise<void> {
    const { store, runs, histories, pending } = this.#deps;
    if (!pending.hasPending(conversationId)) return;
    await this.#changes.run(conversationId, async () => {
      const row = await store.conversations.get(conversationId);
      const stats = row ? histories.stats(row) : { usage_to_metrics: {} };
      if (!runs.isAwake(conversationId)) await pending.write(conversationId, stats);
    });
  }

  /** Forgets the unwritten usage of a conversation that another node continues. */
  forget(conversationId: string): void {
    this.#deps.pending.forget(conversationId);
  }

  /** Sets what a sub-agent has used in the metrics of its parent. */
  async setTaskMetrics(conversationId: string, usageId: string, metrics: UsageMetrics): Promise<void> {
    const { store, pending } = this.#deps;
    await this.#changes.run(conversationId, async () => {
      const { summary } = (await store.conversations.get(conversationId)) ?? {};
      const stored = summary?.stats?.usage_to_metrics[usageId];
      if (!isDeepStrictEqual(stored, metrics)) pending.set(conversationId, usageId, metrics);
    });
  }
}
