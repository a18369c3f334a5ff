import { isDeepStrictEqual } from "node:util";
import type { UsageMetrics } from "@sandpiper/agent/loop/records";
import type { ModelResponse } from "@sandpiper/models/model";
import type { Stats } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { ActiveRuns } from "./active-runs.ts";
import type { Histories } from "./histories.ts";
import type { SideCallUsage } from "./side-call-usage.ts";

export interface ConversationUsageDeps {
  store: Pick<Store, "conversations">;
  runs: Pick<ActiveRuns, "isAwake">;
  histories: Pick<Histories, "fullState">;
  pending: SideCallUsage;
}

/** Adds what is used outside of a conversation's own run to its metrics. */
export class ConversationUsage {
  readonly #deps: ConversationUsageDeps;

  constructor(deps: ConversationUsageDeps) {
    this.#deps = deps;
  }

  /** Adds a side call. Throws what `append` throws. */
  async add(conversationId: string, usageId: string, model: string, response: ModelResponse): Promise<void> {
    const { store, runs, histories, pending } = this.#deps;
    const row = store.conversations.get(conversationId);
    if (!row) return;
    const stats = histories.fullState(row).stats as Stats;
    pending.add(conversationId, usageId, model, response, stats);
    if (!runs.isAwake(conversationId)) await pending.write(conversationId, stats);
  }

  /** Sets what a sub-agent has used in the metrics of its parent. */
  setTaskMetrics(conversationId: string, usageId: string, metrics: UsageMetrics): void {
    const { store, pending } = this.#deps;
    const stored = store.conversations.get(conversationId)?.summary.stats?.usage_to_metrics[usageId];
    if (!isDeepStrictEqual(stored, metrics)) pending.set(conversationId, usageId, metrics);
  }
}
