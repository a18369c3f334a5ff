import { LRUCache } from "lru-cache";
import type { ModelAddress } from "./resolve.ts";

/**
 * Remembers endpoints that have answered: when one stops answering, it is down and not misspelt.
 */
export class SeenEndpoints {
  readonly #known = new LRUCache<string, true>({ max: 500 });

  has(address: ModelAddress): boolean {
    return this.#known.has(keyOf(address));
  }

  add(address: ModelAddress): void {
    this.#known.set(keyOf(address), true);
  }
}

function keyOf({ provider, baseUrl }: ModelAddress): string {
  return `${provider} ${baseUrl ?? ""}`;
}
