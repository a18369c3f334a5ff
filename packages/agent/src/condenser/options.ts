import { isObject } from "@sandpiper/core/is-object";
import type { CondenserSettings, GivenAgent } from "@sandpiper/wire";

/** When and how to condense a history (agent-behaviour.md section 6). */
export interface CondenserOptions {
  /** Maximum events in the view. */
  maxSize: number;
  /** Maximum tokens of a prompt; null: the model's limit. */
  maxTokens: number | null;
  /** First events that are never forgotten, system prompt included. */
  keepFirst: number;
  /** Least share of the history that a summary must free, 0 to 1. */
  minimumProgress: number;
  /** Attempts to condense the whole history after a partial summary was not enough. */
  resets: number;
  /** Factor by which each attempt reads less, 0 to 1. */
  scaling: number;
}

type ClientCondenser = NonNullable<GivenAgent["condenser"]>;

const defaults: CondenserOptions = {
  maxSize: 240,
  maxTokens: null,
  keepFirst: 2,
  minimumProgress: 0.1,
  resets: 5,
  scaling: 0.8,
};

/** A planning agent reads much and needs the beginning (app-server.md section 2.5). */
export const planningCondenser = { max_size: 100, keep_first: 6 } as const;

/** Condenser of the settings; undefined: only on request. */
export function condenserFromSettings(settings: CondenserSettings): CondenserOptions | undefined {
  if (!settings.enabled || settings.condenser_kind === "no_op") return undefined;
  return readOptions(settings);
}

/** Condenser of a client's agent. An unknown kind counts as the summarizing one. */
export function condenserFromAgent(given: ClientCondenser | null | undefined): CondenserOptions | undefined {
  const kind = given?.kind ?? (given ? "LLMSummarizingCondenser" : "NoOpCondenser");
  if (kind === "NoOpCondenser") return undefined;
  if (kind !== "PipelineCondenser") return readOptions(given!);
  const { condensers } = given as { condensers?: unknown };
  const members: unknown[] = Array.isArray(condensers) ? condensers.slice(0, 20) : [];
  // Nested pipelines are ignored: they could keep the server busy.
  return members
    .filter((member) => isObject(member) && member.kind !== "PipelineCondenser")
    .map((member) => condenserFromAgent(member as ClientCondenser))
    .find((options) => options !== undefined);
}

/** Clamps a client's values; `keepFirst` stays below half of `maxSize`. */
function readOptions(given: Readonly<Record<string, unknown>>): CondenserOptions {
  const maxSize = Math.max(10, toCount(given.max_size, defaults.maxSize));
  const maxTokens = toCount(given.max_tokens, 0);
  return {
    maxSize,
    maxTokens: maxTokens > 0 ? maxTokens : null,
    keepFirst: Math.min(
      toCount(given.keep_first, defaults.keepFirst),
      Math.max(0, Math.ceil(maxSize / 2) - 2),
    ),
    minimumProgress: toShare(given.minimum_progress, defaults.minimumProgress),
    resets: Math.min(20, Math.max(1, toCount(given.hard_context_reset_max_retries, defaults.resets))),
    scaling: toShare(given.hard_context_reset_context_scaling, defaults.scaling),
  };
}

function toCount(value: unknown, instead: number): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : instead;
}

function toShare(value: unknown, instead: number): number {
  return typeof value === "number" && value > 0 && value < 1 ? value : instead;
}
