import type { Logger } from "@sandpiper/core/log/logger";
import type { DiskWatch } from "./disk-watch.ts";
import type { IdleSandboxes } from "./idle-sandboxes.ts";
import { logFailure } from "./log-failure.ts";
import type { Orphans } from "./orphans.ts";

export interface ReaperDeps {
  idle: IdleSandboxes;
  disk: DiskWatch;
  orphans: Orphans;
  logger: Pick<Logger, "warn">;
  /** 0: only `tick` and `reap`. */
  intervalMs: number;
}

/**
 * Checks all sandboxes every few seconds: pauses, hibernates and deletes idle ones, stops those
 * that grow too large, and has the engine remove orphans.
 */
export class Reaper {
  readonly #deps: ReaperDeps;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;

  constructor(deps: ReaperDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { intervalMs } = this.#deps;
    if (intervalMs > 0) this.#timer = setInterval(() => void this.tick(), intervalMs).unref();
  }

  /** Runs one round, or waits for the round in progress. Never rejects. */
  tick(): Promise<void> {
    this.#round ??= this.#check().finally(() => {
      this.#round = undefined;
    });
    return this.#round;
  }

  /** Has the engine remove what belongs to no sandbox and no snapshot. Never rejects. */
  reap(): Promise<void> {
    return this.#deps.orphans.reap();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#round;
  }

  async #check(): Promise<void> {
    const { idle, disk, orphans, logger } = this.#deps;
    await idle.tick();
    await logFailure(logger, "disk usage check failed", () => disk.tick());
    await orphans.reapWhenDue();
  }
}
