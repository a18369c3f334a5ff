import type { Logger } from "@sandpiper/core/log/logger";
import type { KnownIds, SandboxDriver } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import { logFailure } from "./log-failure.ts";

export interface OrphansDeps {
  driver: Pick<SandboxDriver, "reap">;
  egress: Pick<Egress, "reap"> | undefined;
  known: KnownIds;
  logger: Pick<Logger, "warn">;
  /** Milliseconds of a monotonic clock. */
  steady: () => number;
}

const reapIntervalMs = 300_000;

/** Removes what belongs to no sandbox and no snapshot. */
export class Orphans {
  readonly #deps: OrphansDeps;
  #reapedAt = 0;

  constructor(deps: OrphansDeps) {
    this.#deps = deps;
  }

  /** Has the engine and the network remove orphans. Never rejects. */
  async reap(): Promise<void> {
    const { driver, egress, known, logger, steady } = this.#deps;
    this.#reapedAt = steady();
    await logFailure(logger, "network logs of deleted sandboxes could not be removed", async () =>
      egress?.reap(known),
    );
    await logFailure(logger, "orphans in the sandbox engine could not be removed", () => driver.reap(known));
  }

  /** Like `reap`, every few minutes. */
  async reapWhenDue(): Promise<void> {
    if (this.#deps.steady() - this.#reapedAt > reapIntervalMs) await this.reap();
  }
}
