import { errorText } from "../errors.ts";
import type { Logger } from "../log/logger.ts";
import type { BlobInfo, BlobStore } from "./blob-store.ts";
import type { BlobReferenceStore } from "./reference-store.ts";

/** Maximum number of unused blobs that one round claims. */
const maxRemovals = 1_000;
/** Maximum number of pages that one round lists. */
const maxPages = 20;
/** Age of a claim at which another server may claim the blob again, ms. */
const claimMs = 600_000;

export interface BlobCollectorDeps {
  blobs: BlobStore;
  references: BlobReferenceStore;
  /** Time that an unused blob and an upload without progress stay, ms. */
  graceMs: number;
  logger: Pick<Logger, "info" | "warn">;
  /** Returns the present time, milliseconds since the epoch. Default: `Date.now`. */
  now?: () => number;
}

/** Removes blobs that have no reference. Several servers may collect at the same time. */
export class BlobCollector {
  readonly #deps: BlobCollectorDeps;
  /** Digest after which the next round continues to list blobs. */
  #after: string | undefined;
  #round: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(deps: BlobCollectorDeps) {
    this.#deps = deps;
  }

  /** Runs a round every `intervalMs`. */
  start(intervalMs: number): void {
    this.#timer = setInterval(() => void this.tick(), intervalMs).unref();
  }

  /** Runs one round, or waits for the one in progress. Never rejects. */
  tick(): Promise<void> {
    this.#round ??= this.#collect()
      .catch((error: unknown) =>
        this.#deps.logger.warn({ reason: errorText(error) }, "unused blobs could not be removed"),
      )
      .finally(() => {
        this.#round = undefined;
      });
    return this.#round;
  }

  /** Ends the current round after its current blob. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#round;
  }

  async #collect(): Promise<void> {
    const { blobs, references, graceMs, logger, now = Date.now } = this.#deps;
    const unusedBefore = now() - graceMs;
    const claimedAt = performance.now();
    const claim = { unusedBefore, claimedBefore: now() - claimMs, limit: maxRemovals };
    let removed = await this.#remove(await references.claimUnused(claim), claimedAt);
    for (let page = 0; page < maxPages && !this.#isClosed; page++) {
      const found = await blobs.list(this.#after);
      this.#after = found.next;
      // A server may not have recorded a younger blob yet.
      const old = found.blobs.filter(({ storedAt }) => storedAt < unusedBefore);
      const foundAt = performance.now();
      removed += await this.#remove(await references.claimUnknown(old), foundAt);
      if (found.next === undefined) break;
    }
    removed += await blobs.removeUnfinished(graceMs);
    if (removed > 0) logger.info({ removed }, "unused blobs removed");
  }

  async #remove(claimed: readonly BlobInfo[], claimedAt: number): Promise<number> {
    let removed = 0;
    for (const { digest } of claimed) {
      // Another server may claim the other blobs soon.
      if (this.#isClosed || performance.now() - claimedAt > claimMs / 2) break;
      await this.#deps.blobs.remove(digest);
      await this.#deps.references.forget(digest);
      removed++;
    }
    return removed;
  }
}
