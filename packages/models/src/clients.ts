import { hash } from "node:crypto";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { LRUCache } from "lru-cache";

/**
 * Clients of endpoints, shared by all conversations. A client has no state between calls, but
 * creating one builds and compiles schemas, which takes longer than a call's own work.
 */
export class Clients {
  readonly #made = new LRUCache<string, Promise<LanguageModelV4>>({ max: 50 });

  /**
   * Returns the client for these parts, or creates it. The parts are JSON that includes keys, so
   * only their digest is kept.
   */
  of(parts: readonly unknown[], make: () => Promise<LanguageModelV4>): Promise<LanguageModelV4> {
    const key = hash("sha256", JSON.stringify(parts), "base64");
    const known = this.#made.get(key);
    if (known) return known;
    const client = make();
    this.#made.set(key, client);
    client.catch(() => this.#made.delete(key));
    return client;
  }
}
