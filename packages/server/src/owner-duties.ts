import { setTimeout as sleep } from "node:timers/promises";
import { errorText } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Bash } from "@sandpiper/sandbox/shell/commands/api";
import type { Conversations } from "./conversations/api.ts";
import type { OwnerDuties, Ownership } from "./nodes/api.ts";

export interface OwnerDutiesDeps {
  ownership: Pick<Ownership, "ownerOf">;
  sandboxes: Pick<Sandboxes, "adopt" | "release">;
  conversations: Pick<Conversations, "adopt" | "adoptStarts" | "release">;
  bash: Pick<Bash, "release">;
  logger: Pick<Logger, "warn">;
  /** How long current steps may go on when sandboxes are handed over, ms. */
  graceMs: number;
}

/** Delay between two attempts to adopt sandboxes, ms. */
const retryMs = 500;

/** What this server does with the sandboxes that it begins or ceases to own. */
export function createOwnerDuties(deps: OwnerDutiesDeps): OwnerDuties {
  const { ownership, sandboxes, conversations, bash, logger, graceMs } = deps;
  return {
    async adopt(claimed) {
      let ids = claimed.map(({ id }) => id);
      // A sandbox without its state would look as if it did not exist.
      for (; ids.length > 0; ids = ids.filter((id) => ownership.ownerOf(id))) {
        try {
          await sandboxes.adopt(ids);
          return await conversations.adopt(ids);
        } catch (error) {
          logger.warn(
            { sandboxes: ids, reason: errorText(error) },
            "sandboxes could not be adopted; retrying",
          );
        }
        await sleep(retryMs, undefined, { ref: false });
      }
    },
    async release(ids, { lost }) {
      await conversations.release(ids, { lost, graceMs });
      await bash.release(ids);
      await sandboxes.release(ids, { lost });
    },
    adoptStarts: () => conversations.adoptStarts(),
  };
}
