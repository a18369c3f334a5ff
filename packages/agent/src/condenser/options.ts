import type { CondenserSettings, GivenAgent } from "@sandpiper/wire";

/** When and how a history is summarised (agent-behaviour.md section 6). */
export interface CondenserOptions {
  /** Events that the model reads at most. */
  maxSize: number;
  /** Tokens of a prompt at most; null: as many as the model takes. */
  maxTokens: number | null;
  /** Events at the beginning that are never forgotten, the system prompt included. */
  keepFirst: number;
  /** The part of the history that a summary has to make room for, from 0 to 1. */
  minimumProgress: number;
  /** How often the whole history is tried to be summarised where a part of it did not do. */
  resets: number;
  /** How much less of it is read each time, from 0 to 1. */
  scaling: number;
}

type GivenCondenser = NonNullable<GivenAgent["condenser"]>;

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

/** The condenser of settings; undefined: nothing is summarised unless somebody asks for it. */
export function condenserOfSettings(settings: CondenserSettings): CondenserOptions | undefined {
  if (!settings.enabled || settings.condenser_kind === "no_op") return undefined;
  return readOptions(settings);
}

/** The condenser of a client's agent. One of an unknown kind summarises: it was given so that the history stays short. */
export function condenserOfAgent(given: GivenCondenser | null | undefined): CondenserOptions | undefined {
  const kind = given?.kind ?? (given ? "LLMSummarizingCondenser" : "NoOpCondenser");
  if (kind === "NoOpCondenser") return undefined;
  if (kind !== "PipelineCondenser") return readOptions(given!);
  const { condensers } = given as { condensers?: unknown };
  const members: unknown[] = Array.isArray(condensers) ? condensers.slice(0, 20) : [];
  // A pipeline in a pipeline would be a way to keep the server busy.
  return members
    .filter((member) => isRecord(member) && member.kind !== "PipelineCondenser")
    .map((member) => condenserOfAgent(member as GivenCondenser))
    .find((options) => options !== undefined);
}

/** What a client writes is taken as far as it makes sense; half of the history has to be more than what is kept at its beginning. */
function readOptions(given: Readonly<Record<string, unknown>>): CondenserOptions {
  const maxSize = Math.max(10, whole(given.max_size, defaults.maxSize));
  const maxTokens = whole(given.max_tokens, 0);
  return {
    maxSize,
    maxTokens: maxTokens > 0 ? maxTokens : null,
    keepFirst: Math.min(whole(given.keep_first, defaults.keepFirst), Math.max(0, Math.ceil(maxSize / 2) - 2)),
    minimumProgress: part(given.minimum_progress, defaults.minimumProgress),
    resets: Math.min(20, Math.max(1, whole(given.hard_context_reset_max_retries, defaults.resets))),
    scaling: part(given.hard_context_reset_context_scaling, defaults.scaling),
  };
}

function whole(value: unknown, instead: number): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : instead;
}

function part(value: unknown, instead: number): number {
  return typeof value === "number" && value > 0 && value < 1 ? value : instead;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
