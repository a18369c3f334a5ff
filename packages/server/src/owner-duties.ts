import { setTimeout as sleep } from "node:timers/promises";
import type { BlobReferenceStore } from "@sandpiper/core/blobs/reference-store";
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
  rules: {
    /** How long current steps may go on when this node releases sandboxes, ms. */
    graceMs: number;
    /** References to the copies from which the server restores the files of lost machines. */
    blobs: Pick<BlobReferenceStore, "get">;
  };
}

/** Delay between two attempts to adopt sandboxes, ms. */
const retryMs = 500;

/** What this node does when it begins or ceases to own sandboxes. */
export function createOwnerDuties(deps: OwnerDutiesDeps): OwnerDuties {
  const { ownership, sandboxes, conversations, bash, logger } = deps;
  const { graceMs, blobs } = deps.rules;
  return {
    async adopt(claimed) {
      const lost = claimed.filter(({ isMoved }) => isMoved).map(({ id }) => id);
      let ids = claimed.map(({ id }) => id);
      // The adoption is repeated until it succeeds: a sandbox without its state in memory would
      // look as if it did not exist.
      for (; ids.length > 0; ids = ids.filter((id) => ownership.ownerOf(id))) {
        try {
          await sandboxes.adopt(ids);
          return await conversations.adopt(ids, await describeLosses(lost, blobs));
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

/** Writes for each sandbox whose machine is gone a text that tells the model what is lost. */
async function describeLosses(
  ids: readonly string[],
  blobs: Pick<BlobReferenceStore, "get">,
): Promise<ReadonlyMap<string, string>> {
  const losses = new Map<string, string>();
  for (const id of ids) {
    const kept = await blobs.get(id);
    const files = kept
      ? `Its files are those of the copy of ${new Date(kept.keptAt).toISOString().slice(0, 16)}Z: later changes are lost.`
      : "There is no copy of its files: the sandbox begins anew with an empty working folder.";
    losses.set(
      id,
      `The machine with the sandbox is gone, and all programs in the sandbox have ended. ${files}`,
    );
  }
  return losses;
}
