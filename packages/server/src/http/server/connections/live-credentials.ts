import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { CredentialSources } from "../../../users/api.ts";

/**
 * How often keys and logins of what is open are looked up, ms: the command line revokes them too.
 */
const checkMs = 1_000;

/** Sources that are looked up at the same time. */
const lookUps = 50;

/**
 * Ends open sockets, streams, transfers and previews when the key or login ends from which their
 * credential was made.
 */
export class LiveCredentials {
  readonly #sources: Pick<CredentialSources, "holder">;
  readonly #logger: Pick<Logger, "warn">;
  readonly #open = new Map<string, Set<() => void>>();
  readonly #timer: NodeJS.Timeout;
  #checking = false;
  /** Something may have ended since the running check began. */
  #again = false;

  constructor(sources: CredentialSources, logger: Pick<Logger, "warn">) {
    this.#sources = sources;
    this.#logger = logger;
    sources.onChange(() => void this.#check());
    this.#timer = setInterval(() => void this.#check(), checkMs).unref();
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

  /** A check that fails ends nothing; the next one looks again. */
  async #check(): Promise<void> {
    this.#again = true;
    if (this.#checking) return;
    this.#checking = true;
    try {
      while (this.#again) {
        this.#again = false;
        await this.#endDead();
      }
    } catch (error) {
      this.#logger.warn({ reason: errorText(error) }, "keys of open connections could not be checked");
    } finally {
      this.#checking = false;
    }
  }

  async #endDead(): Promise<void> {
    const sources = [...this.#open.keys()];
    for (let first = 0; first < sources.length; first += lookUps)
      await Promise.all(sources.slice(first, first + lookUps).map((source) => this.#endIfDead(source)));
  }

  async #endIfDead(source: string): Promise<void> {
    if (await this.#sources.holder(source)) return;
    const held = this.#open.get(source);
    this.#open.delete(source);
    for (const end of held ?? []) end();
  }
}
