import { hash } from "node:crypto";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { LRUCache } from "lru-cache";

/**
 * Clients of endpoints, for all conversations: they keep nothing between calls, and making one builds its schemas and compiles them at the first answer, which
 * takes longer than a call's own work.
 */
export class Clients {
  readonly #made = new LRUCache<string, LanguageModelV4>({ max: 50 });

  /** The client that was made of such parts, else a new one. The parts are JSON, keys among them: only their digest is kept. */
  of(parts: readonly unknown[], make: () => LanguageModelV4): LanguageModelV4 {
    const key = hash("sha256", JSON.stringify(parts), "base64");
    const known = this.#made.get(key);
    if (known) return known;
    const client = make();
    this.#made.set(key, client);
    return client;
  }
}
