import type { ModelAddress } from "./resolve.ts";

/** Endpoints that are remembered. */
const most = 500;

/** Remembers which endpoints have answered: one that does not any more is away, and not an address that somebody got wrong. */
export class KnownEndpoints {
  readonly #known = new Set<string>();

  has(address: ModelAddress): boolean {
    return this.#known.has(keyOf(address));
  }

  add(address: ModelAddress): void {
    this.#known.add(keyOf(address));
    const [oldest] = this.#known;
    if (this.#known.size > most && oldest !== undefined) this.#known.delete(oldest);
  }
}

function keyOf({ provider, baseUrl }: ModelAddress): string {
  return `${provider} ${baseUrl ?? ""}`;
}
