import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

/** Execution status of a conversation (agent-server.md section 4). */
export const executionStatuses = [
  "idle",
  "running",
  "paused",
  "waiting_for_confirmation",
  "finished",
  "error",
  "stuck",
  "deleting",
] as const;
export const ExecutionStatus = StringEnum(executionStatuses);
export type ExecutionStatus = (typeof executionStatuses)[number];

const count = Type.Integer({ minimum: 0, default: 0 });

/** Token totals of one model (app-server.md section 2.1). `prompt_tokens` includes cache reads. */
export const TokenUsage = Type.Object({
  model: Type.String({ default: "" }),
  prompt_tokens: count,
  completion_tokens: count,
  cache_read_tokens: count,
  cache_write_tokens: count,
  reasoning_tokens: count,
  context_window: count,
  per_turn_token: count,
  response_id: Type.String({ default: "" }),
});

/** Cost in USD and tokens of one usage id, or of a conversation (app-server.md section 2.1). */
export const MetricsSnapshot = Type.Object({
  model_name: Type.String({ default: "default" }),
  accumulated_cost: Type.Number({ default: 0 }),
  max_budget_per_task: Nullable(Type.Number()),
  accumulated_token_usage: Nullable(TokenUsage),
});

/** Value of the `stats` state update: metrics by usage id (events.md section 2). */
export const Stats = Type.Object({ usage_to_metrics: Type.Record(Type.String(), MetricsSnapshot) });

export type TokenUsage = Static<typeof TokenUsage>;
export type MetricsSnapshot = Static<typeof MetricsSnapshot>;
export type Stats = Static<typeof Stats>;

export const emptyUsage = (model = ""): TokenUsage => ({
  model,
  prompt_tokens: 0,
  completion_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  context_window: 0,
  per_turn_token: 0,
  response_id: "",
});

/**
 * Adds token counts. The context window is the larger one; other fields come from `left`
 * (agent-behaviour.md section 7).
 */
export function addTokens(left: TokenUsage, right: TokenUsage): TokenUsage {
  return {
    ...left,
    prompt_tokens: left.prompt_tokens + right.prompt_tokens,
    completion_tokens: left.completion_tokens + right.completion_tokens,
    cache_read_tokens: left.cache_read_tokens + right.cache_read_tokens,
    cache_write_tokens: left.cache_write_tokens + right.cache_write_tokens,
    reasoning_tokens: left.reasoning_tokens + right.reasoning_tokens,
    context_window: Math.max(left.context_window, right.context_window),
  };
}
