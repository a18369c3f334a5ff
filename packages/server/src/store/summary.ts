import {
  addTokens,
  type ExecutionStatus,
  emptyUsage,
  executionStatuses,
  type MetricsSnapshot,
  type NewEvent,
  type Stats,
} from "@sandpiper/wire";
import type { ConversationSummary } from "./conversation-store.ts";

type SummaryChange = Partial<ConversationSummary> & {
  cost?: number;
  /** A user message, or the end of a run. */
  resetsUncleanEnds?: boolean;
};

/**
 * Changes of the summary by a batch of events; the last record of a key wins. `cost` is in USD and
 * leaves out sub-agents (usage ids `task:…`), whose conversations report it themselves.
 */
export function summarizeEvents(events: readonly NewEvent[]): SummaryChange {
  const change: SummaryChange = {};
  for (const event of events) {
    if (event.kind === "MessageEvent" && event.source === "user") change.resetsUncleanEnds = true;
    if (event.kind !== "ConversationStateUpdateEvent") continue;
    if (event.key === "execution_status" && isExecutionStatus(event.value)) {
      change.executionStatus = event.value;
      change.resetsUncleanEnds ||= event.value !== "running";
    }
    if (event.key !== "stats" || !isStats(event.value)) continue;
    change.stats = event.value;
    change.metrics = totalMetrics(event.value);
    change.cost = getOwnCost(event.value);
  }
  return change;
}

/**
 * Totals the metrics of all usage ids: sums costs (USD) and tokens, takes the largest context
 * window and the names of the first usage id, the agent's.
 */
export function totalMetrics(stats: Stats): MetricsSnapshot {
  const all = Object.values(stats.usage_to_metrics);
  const usages = all.flatMap((metrics) => metrics.accumulated_token_usage ?? []);
  return {
    model_name: all[0]?.model_name ?? "default",
    accumulated_cost: all.reduce((sum, metrics) => sum + metrics.accumulated_cost, 0),
    max_budget_per_task:
      all.find((metrics) => metrics.max_budget_per_task !== null)?.max_budget_per_task ?? null,
    accumulated_token_usage:
      usages.length > 0 ? usages.slice(1).reduce(addTokens, { ...emptyUsage(), ...usages[0] }) : null,
  };
}

/** USD over all usage ids except those of sub-agents. */
export function getOwnCost(stats: Stats): number {
  const own = Object.entries(stats.usage_to_metrics).filter(([usageId]) => !usageId.startsWith("task:"));
  return own.reduce((sum, [, metrics]) => sum + metrics.accumulated_cost, 0);
}

function isExecutionStatus(value: unknown): value is ExecutionStatus {
  return (executionStatuses as readonly unknown[]).includes(value);
}

function isStats(value: unknown): value is Stats {
  const usages = (value as Partial<Stats> | null)?.usage_to_metrics;
  return typeof usages === "object" && usages !== null;
}
