import type { CredentialSources } from "../../../users/api.ts";

/**
 * How often keys and logins of what is open are looked up, ms: the command line revokes them too.
 */
const checkMs = 1_000;

/**
 * Ends open sockets, streams, transfers and previews when the key or login ends from which their
 * credential was made.
 */
export class LiveCredentials {
  readonly #sources: Pick<CredentialSources, "holder">;
  readonly #open = new Map<string, Set<() => void>>();
  readonly #timer: NodeJS.Timeout;

  constructor(sources: CredentialSources) {
    this.#sources = sources;
    sources.onChange(() => this.#check());
    this.#timer = setInterval(() => this.#check(), checkMs).unref();
  }

  /** Calls `end` once when the source ends, until the returned function was called. */
  hold(source: string, end: () => void): () => void {
    const held = this.#open.get(source) ?? new Set();
    this.#open.set(source, held.add(end));
    return () => {
      held.delete(end);
      if (held.size === 0 && this.#open.get(source) === held) this.#open.delete(source);
    };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #check(): void {
    for (const [source, held] of this.#open) {
      if (this.#sources.holder(source)) continue;
      this.#open.delete(source);
      for (const end of held) end();
    }
  }
}
