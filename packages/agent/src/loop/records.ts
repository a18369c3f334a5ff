import type { ModelResponse } from "@sandpiper/models/model";
import {
  addTokens,
  emptyUsage,
  type MessageEvent,
  type NewEvent,
  type Stats,
  textContent,
} from "@sandpiper/wire";
import type { NewRecord } from "./log-record.ts";

export function listed(event: NewEvent): NewRecord {
  return { listed: true, event };
}

/** Control record of a state change (agent-server.md section 6.1), except the status. */
export function stateRecord(key: "stats", value: Stats): NewRecord;
export function stateRecord(key: "leaf_event_id", value: string | null): NewRecord;
export function stateRecord(key: string, value: unknown): NewRecord {
  return {
    listed: false,
    event: { kind: "ConversationStateUpdateEvent", source: "environment", key, value },
  };
}

/** A platform message to the model, as a user message. */
export function nudge(text: string): NewRecord {
  return listed({
    kind: "MessageEvent",
    source: "environment",
    llm_message: { role: "user", content: [textContent(text)] },
    activated_skills: [],
    extended_content: [],
  });
}

/** A message for people: clients show it, and the model does not read it. */
export function notice(text: string): NewRecord {
  return listed({
    kind: "MessageEvent",
    source: "environment",
    llm_message: { role: "assistant", content: [textContent(text)] },
    activated_skills: [],
    extended_content: [],
  });
}

export function isNotice({ source, llm_message }: MessageEvent): boolean {
  return source === "environment" && llm_message.role === "assistant";
}

/** Adds a model call to the metrics of a usage id (agent-behaviour.md section 7). */
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

/** Usage id of a sub-agent's conversation (agent-behaviour.md section 7). */
export function toTaskUsageId(taskId: string): string {
  return `task:${taskId}`;
}

/** Replaces the metrics of some usage ids. */
export function withUsage(stats: Stats, usage: ReadonlyMap<string, UsageMetrics>): Stats {
  return usage.size === 0
    ? stats
    : { usage_to_metrics: { ...stats.usage_to_metrics, ...Object.fromEntries(usage) } };
}

export type UsageMetrics = Stats["usage_to_metrics"][string];
