import { LRUCache } from "lru-cache";
import type { CallOptions } from "./call-options.ts";
import type { ModelAddress } from "./resolve.ts";

/** Remembers which models refused which parameters, so that not each call is refused first. */
export class Refusals {
  readonly #known = new LRUCache<string, true>({ max: 500 });

  has(address: ModelAddress, options: CallOptions): boolean {
    return this.#known.has(keyOf(address, options));
  }

  add(address: ModelAddress, options: CallOptions): void {
    this.#known.set(keyOf(address, options), true);
  }
}

function keyOf({ baseUrl, wire, modelId }: ModelAddress, options: CallOptions): string {
  const { temperature, topP, topK, seed, effort, thinkingBudget, reasoningSummary, maxOutputTokens } =
    options;
  return JSON.stringify([
    baseUrl,
    wire,
    modelId,
    temperature,
    topP,
    topK,
    seed,
    effort,
    thinkingBudget,
    reasoningSummary,
    maxOutputTokens,
  ]);
}
