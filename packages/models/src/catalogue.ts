import type { TokenUsage } from "@sandpiper/wire";

export interface CatalogueEntry {
  /** Tokens. */
  contextWindow: number;
  /** USD per million tokens. */
  price: Price;
  /** Prices of a call whose prompt is longer than `above` tokens, as factors of the usual ones. */
  long?: { above: number; input: number; output: number };
}

interface Price {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

/**
 * List prices of the makers' APIs for standard processing; proxies and contracts may differ. An
 * unknown model costs 0, because a guess would be worse.
 */
const catalogue: Readonly<Record<string, CatalogueEntry>> = {
  ...openAi(1_050_000, { above: 272_000, input: 2, output: 1.5 }, [
    ["gpt-6-sol", 2, 10, 0.2, 2.5],
    ["gpt-6-luna", 0.1, 0.5, 0.01, 0.125],
    ["gpt-5.6-terra", 2, 12, 0.2, 2.5],
    ["gpt-5.6-luna", 0.2, 1.2, 0.02, 0.25],
  ]),
  ...openAi(400_000, undefined, [
    ["gpt-5.2", 1.75, 14, 0.175],
    ["gpt-5.1", 1.25, 10, 0.125],
    ["gpt-5", 1.25, 10, 0.125],
    ["gpt-5-mini", 0.25, 2, 0.025],
    ["gpt-5-nano", 0.05, 0.4, 0.005],
  ]),
  ...openAi(1_047_576, undefined, [
    ["gpt-4.1", 2, 8, 0.5],
    ["gpt-4.1-mini", 0.4, 1.6, 0.1],
    ["gpt-4.1-nano", 0.1, 0.4, 0.025],
  ]),
  ...openAi(200_000, undefined, [
    ["o3", 2, 8, 0.5],
    ["o4-mini", 1.1, 4.4, 0.275],
    ["o3-mini", 1.1, 4.4, 0.55],
    ["o1", 15, 60, 7.5],
  ]),
  ...openAi(128_000, undefined, [
    ["gpt-4o", 2.5, 10, 1.25],
    ["gpt-4o-mini", 0.15, 0.6, 0.075],
  ]),
  "claude-fable-5-1": claude(1_000_000, 10, 50, 0.25),
  "claude-fable-5": claude(1_000_000, 10, 50, 1),
  "claude-opus-5-5": claude(1_000_000, 4, 20, 0.2),
  "claude-opus-5": claude(1_000_000, 5, 25, 0.5),
  "claude-opus-4-8": claude(1_000_000, 5, 25, 0.5),
  "claude-opus-4-7": claude(1_000_000, 5, 25, 0.5),
  "claude-opus-4-6": claude(1_000_000, 5, 25, 0.5),
  "claude-opus-4-5": claude(200_000, 5, 25, 0.5),
  "claude-opus-4-1": claude(200_000, 15, 75, 1.5),
  "claude-opus-4": claude(200_000, 15, 75, 1.5),
  "claude-sonnet-5-5": claude(1_000_000, 2, 10, 0.1),
  "claude-sonnet-5": claude(1_000_000, 2, 10, 0.2),
  "claude-sonnet-4-6": claude(1_000_000, 3, 15, 0.3),
  "claude-sonnet-4-5": claude(200_000, 3, 15, 0.3),
  "claude-sonnet-4": claude(200_000, 3, 15, 0.3),
  "claude-3-7-sonnet": claude(200_000, 3, 15, 0.3),
  "claude-3-5-sonnet": claude(200_000, 3, 15, 0.3),
  "claude-haiku-5-5": { ...claude(1_000_000, 0.1, 0.5, 0.01), long: { above: 100_000, input: 5, output: 5 } },
  "claude-haiku-4-5": claude(200_000, 1, 5, 0.1),
  "claude-3-5-haiku": claude(200_000, 0.8, 4, 0.08),
  "gemini-3-pro-preview": { ...gemini(2, 12, 0.2), long: { above: 200_000, input: 2, output: 1.5 } },
  "gemini-3-flash-preview": gemini(0.5, 3, 0.05),
  "gemini-2.5-pro": { ...gemini(1.25, 10, 0.125), long: { above: 200_000, input: 2, output: 1.5 } },
  "gemini-2.5-flash": gemini(0.3, 2.5, 0.03),
  "gemini-2.5-flash-lite": gemini(0.1, 0.4, 0.01),
  ...compatible([
    ["grok-4.7", 500_000, 2, 6],
    ["grok-4-1-fast", 2_000_000, 0.2, 0.5, 0.05],
    ["grok-4-fast", 2_000_000, 0.2, 0.5, 0.05],
    ["grok-code-fast-1", 256_000, 0.2, 1.5, 0.02],
    ["deepseek-chat", 128_000, 0.28, 0.42, 0.028],
    ["deepseek-reasoner", 128_000, 0.28, 0.42, 0.028],
    ["mistral-large-2512", 256_000, 0.5, 1.5],
    ["mistral-medium-2508", 128_000, 0.4, 2],
    ["codestral-2508", 256_000, 0.3, 0.9],
    ["devstral-2512", 256_000, 0.4, 2],
    ["devstral-medium-2507", 128_000, 0.4, 2],
    ["devstral-small-2507", 128_000, 0.1, 0.3],
  ]),
  "grok-4": { ...one(256_000, 3, 15, 0.75), long: { above: 128_000, input: 2, output: 2 } },
};

/** The names in the catalogue, each maker's newest first. */
export const cataloguedNames: readonly string[] = Object.keys(catalogue);

type Row = [name: string, input: number, output: number, cacheRead: number, cacheWrite?: number];

function openAi(
  contextWindow: number,
  long: CatalogueEntry["long"],
  rows: Row[],
): Record<string, CatalogueEntry> {
  return Object.fromEntries(
    rows.map(([name, input, output, cacheRead, cacheWrite = input]) => [
      name,
      { contextWindow, price: { input, output, cacheRead, cacheWrite }, ...(long && { long }) },
    ]),
  );
}

/** Anthropic bills the writing of a five-minute cache at 1.25 times the input. */
function claude(contextWindow: number, input: number, output: number, cacheRead: number): CatalogueEntry {
  return { contextWindow, price: { input, output, cacheRead, cacheWrite: input * 1.25 } };
}

function gemini(input: number, output: number, cacheRead: number): CatalogueEntry {
  return { contextWindow: 1_048_576, price: { input, output, cacheRead, cacheWrite: input } };
}

/** Without a price for cache reads they cost what other input costs. */
function one(contextWindow: number, input: number, output: number, cacheRead = input): CatalogueEntry {
  return { contextWindow, price: { input, output, cacheRead, cacheWrite: input } };
}

function compatible(
  rows: [name: string, contextWindow: number, input: number, output: number, cacheRead?: number][],
): Record<string, CatalogueEntry> {
  return Object.fromEntries(rows.map(([name, ...facts]) => [name, one(...facts)]));
}

/**
 * Finds a model by the names that providers and proxies use: prefixes (`openrouter/anthropic/…`),
 * dates (`-20250929`, `-2025-08-07`), `-latest`, `@…` and `:…` suffixes, `claude-sonnet-4.5` for
 * `claude-sonnet-4-5`, and Bedrock's `us.anthropic.claude-…-v1:0`.
 */
export function lookUpModel(name: string): CatalogueEntry | undefined {
  const base = name
    .toLowerCase()
    .replace(/^.*\//, "")
    .replace(/[@:].*/, "")
    .replace(/^(?:[a-z-]+\.)?(?:anthropic|openai)\.(.*?)(?:-v\d+)?$/, "$1")
    .replace(/-(latest|\d{8}|\d{4}-\d{2}-\d{2})$/, "");
  return (
    entry(base) ??
    (base.startsWith("claude-") ? entry(base.replaceAll(".", "-").replace(/-0$/, "")) : undefined)
  );
}

function entry(name: string): CatalogueEntry | undefined {
  return Object.hasOwn(catalogue, name) ? catalogue[name] : undefined;
}

const unknown: CatalogueEntry = {
  contextWindow: 0,
  price: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
};

/** Highest price per token that counts, USD: sums of it stay numbers. */
const maxPrice = 1_000;

/**
 * Facts about a model; zeros when unknown. A configured size or price (USD per token) overrides the
 * catalogue; a configured input price applies to cached input, too.
 */
export function getModelFacts(
  name: string,
  given: { contextWindow?: number | undefined; inputPrice?: number; outputPrice?: number },
): CatalogueEntry {
  const { contextWindow, price, ...rest } = lookUpModel(name) ?? unknown;
  const [input, output] = [given.inputPrice, given.outputPrice].map(
    (one) => one && Math.min(one, maxPrice) * 1_000_000,
  );
  const isPriced = input !== undefined || output !== undefined;
  return {
    contextWindow: given.contextWindow ?? contextWindow,
    price: {
      ...(input === undefined ? price : { input, cacheRead: input, cacheWrite: input }),
      output: output ?? price.output,
    },
    ...(!isPriced && rest),
  };
}

/**
 * USD of one call; 0 when the price is unknown. Cache reads and writes are part of the prompt
 * tokens (agent-behaviour.md section 7).
 */
export function callCost(
  model: string | CatalogueEntry,
  usage: Pick<TokenUsage, "prompt_tokens" | "completion_tokens" | "cache_read_tokens" | "cache_write_tokens">,
): number {
  const { price, long } = typeof model === "string" ? getModelFacts(model, {}) : model;
  const isLong = long !== undefined && usage.prompt_tokens > long.above;
  const plain = Math.max(0, usage.prompt_tokens - usage.cache_read_tokens - usage.cache_write_tokens);
  const input =
    plain * price.input +
    usage.cache_read_tokens * price.cacheRead +
    usage.cache_write_tokens * price.cacheWrite;
  const output = usage.completion_tokens * price.output;
  return (input * (isLong ? long.input : 1) + output * (isLong ? long.output : 1)) / 1_000_000;
}
