import type { Logger } from "@sandpiper/core/log/logger";
import type { DiskWatch } from "./disk-watch.ts";
import type { IdleSandboxes } from "./idle-sandboxes.ts";
import type { KernelWatch } from "./kernel-watch.ts";
import { logFailure } from "./log-failure.ts";
import type { Orphans } from "./orphans.ts";

export interface ReaperDeps {
  idle: IdleSandboxes;
  disk: DiskWatch;
  kernel: KernelWatch;
  orphans: Orphans;
  logger: Pick<Logger, "warn">;
  /** 0: only `tick` and `reap`. */
  intervalMs: number;
}

/** Interval of the looks at the free disk space and the memory of the kernel, ms. */
const pulseMs = 100;

/**
 * Checks all sandboxes every few seconds: pauses, hibernates and deletes idle ones, stops those
 * that grow too large, and has the engine remove orphans. What grows fast is looked at more often.
 */
export class Reaper {
  readonly #deps: ReaperDeps;
  #timer: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;

  constructor(deps: ReaperDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { intervalMs } = this.#deps;
    if (intervalMs === 0) return;
    // Later looks compare with the free space of this round.
    void this.tick();
    this.#timer = setInterval(() => void this.tick(), intervalMs).unref();
    this.#pulse = setInterval(() => void this.#look(), pulseMs).unref();
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
    clearInterval(this.#pulse);
    await this.#round;
  }

  /** Runs a round at once when the free space shrinks quickly. */
  async #look(): Promise<void> {
    const { disk, kernel, logger } = this.#deps;
    void logFailure(logger, "memory of the kernel not read", () => kernel.look());
    await logFailure(logger, "free disk space not read", async () => {
      if (await disk.isUrgent()) await this.tick();
    });
  }

  async #check(): Promise<void> {
    const { idle, disk, orphans, logger } = this.#deps;
    await idle.tick();
    await logFailure(logger, "disk usage check failed", () => disk.tick());
    await orphans.reapWhenDue();
  }
}
