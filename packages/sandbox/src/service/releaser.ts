import { abortable } from "@sandpiper/core/abortable";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Egress } from "../network/api.ts";
import type { KeptFiles } from "./kept-files.ts";
import { logFailure } from "./log-failure.ts";
import type { SandboxRegistry } from "./registry.ts";

export interface SandboxReleaserDeps {
  registry: SandboxRegistry;
  egress: Pick<Egress, "detach"> | undefined;
  /** Undefined without shared blobs. */
  kept: Pick<KeptFiles, "cancel"> | undefined;
  /** Serialises the operations on a sandbox. */
  mutex: KeyedMutex;
  logger: Pick<Logger, "warn">;
}

/** Maximum time that the release of a sandbox waits for operations on the sandbox, ms. */
const releaseWaitMs = 5_000;

/** Ends what this server does with sandboxes that another server handles from now on. */
export class SandboxReleaser {
  readonly #deps: SandboxReleaserDeps;

  constructor(deps: SandboxReleaserDeps) {
    this.#deps = deps;
  }

  /** See `Sandboxes.release`. */
  async release(ids: readonly string[], how: { lost: boolean }): Promise<void> {
    await Promise.all(ids.map((id) => this.#release(id, how)));
  }

  async #release(id: string, { lost }: { lost: boolean }): Promise<void> {
    const { registry, egress, kept, mutex, logger } = this.#deps;
    const state = registry.states.get(id);
    if (!state) return;
    state.removal.abort(new PlatformError("SandboxHasMoved", { retryAfter: 1 }));
    await kept?.cancel({ kind: "sandbox", id });
    if (!lost) {
      await abortable(mutex.idle(id), AbortSignal.timeout(releaseWaitMs)).catch(() => {});
      await logFailure(logger, "last use of the sandbox not stored", () => registry.storeUse(state), id);
    }
    egress?.detach(id);
    registry.release(id);
  }
}
