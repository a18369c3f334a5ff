import { failure } from "@sandpiper/agent/loop/status";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";

/** Unclean ends of the server in a row after which a running conversation is not woken. */
export const maxUncleanEnds = 3;

interface UncleanEndsDeps {
  store: Pick<Store, "conversations" | "events">;
  logger: Logger;
}

/**
 * Counts an end of the server for its running conversations (`rows`), and stores those as failed
 * that were running at too many ends in a row: their next step may be what ends the server. Returns
 * the others.
 */
export async function failAfterUncleanEnds(
  { store, logger }: UncleanEndsDeps,
  rows: readonly ConversationRow[],
): Promise<ConversationRow[]> {
  const ends = await store.conversations.countUncleanEnds();
  const isSuspect = ({ id }: ConversationRow) => (ends.get(id) ?? 0) >= maxUncleanEnds;
  const error = new PlatformError("RunEndsServer", { max: maxUncleanEnds });
  for (const { id } of rows.filter(isSuspect)) {
    logger.error({ conversation: id }, error.message);
    await store.events.append(id, failure(error.code, error.message));
  }
  return rows.filter((row) => !isSuspect(row));
}
