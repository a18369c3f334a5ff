import type { ModelResponse } from "@sandpiper/models/model";
import { addTokens, emptyUsage, type NewEvent, type Stats, textContent } from "@sandpiper/wire";
import type { NewRecord } from "./log-record.ts";

/** An event that clients may list. */
export function listed(event: NewEvent): NewRecord {
  return { listed: true, event };
}

/** The control record that changes a part of the conversation's state (agent-server.md section 6.1). `transition` writes the status. */
export function stateRecord(key: "stats", value: Stats): NewRecord;
export function stateRecord(key: "leaf_event_id", value: string | null): NewRecord;
export function stateRecord(key: string, value: unknown): NewRecord {
  return {
    listed: false,
    event: { kind: "ConversationStateUpdateEvent", source: "environment", key, value },
  };
}

/** A message of the platform to the model, in the role that every model reads. */
export function nudge(text: string): NewRecord {
  return listed({
    kind: "MessageEvent",
    source: "environment",
    llm_message: { role: "user", content: [textContent(text)] },
    activated_skills: [],
    extended_content: [],
  });
}

/** Adds one model call to the totals of a usage id (agent-behaviour.md section 7). */
export function addUsage(
  stats: Stats,
  usageId: string,
  model: string,
  response: ModelResponse,
  budget: number | null,
): Stats {
  const before = stats.usage_to_metrics[usageId];
  const total = before?.accumulated_token_usage ?? emptyUsage(model);
  const metrics = {
    model_name: model,
    accumulated_cost: (before?.accumulated_cost ?? 0) + response.cost,
    max_budget_per_task: budget,
    accumulated_token_usage: {
      ...addTokens(total, response.usage),
      model,
      per_turn_token: response.usage.per_turn_token,
      response_id: response.id,
    },
  };
  return { usage_to_metrics: { ...stats.usage_to_metrics, [usageId]: metrics } };
}

/** The usage id of what a sub-agent has used: its own conversation has paid for it (agent-behaviour.md section 7). */
export function taskUsage(taskId: string): string {
  return `task:${taskId}`;
}

/** Metrics with those of other usage ids in the place of their own. */
export function withUsage(stats: Stats, usage: ReadonlyMap<string, UsageMetrics>): Stats {
  return usage.size === 0
    ? stats
    : { usage_to_metrics: { ...stats.usage_to_metrics, ...Object.fromEntries(usage) } };
}

/** What one usage id has used. */
export type UsageMetrics = Stats["usage_to_metrics"][string];
