import { failure } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Store } from "../../store/store.ts";

/** Unclean ends of the server in a row after which a running conversation is not woken. */
export const maxUncleanEnds = 3;

interface UncleanEndsDeps {
  store: Pick<Store, "events">;
  logger: Logger;
}

/**
 * Returns which conversations were running at too many unclean ends in a row, because their next
 * step may end the server again.
 */
export async function findSuspects(
  { conversations }: Pick<Store, "conversations">,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const ends = await conversations.listUncleanEnds(ids);
  return new Set([...ends].flatMap(([id, count]) => (count >= maxUncleanEnds ? [id] : [])));
}

/** Stores a conversation that ends its server as failed. */
export async function failSuspect({ store, logger }: UncleanEndsDeps, id: string): Promise<void> {
  const error = new PlatformError("RunEndsServer", { max: maxUncleanEnds });
  logger.error({ conversation: id }, error.message);
  await store.events.append(id, failure(error.code, error.message));
}
