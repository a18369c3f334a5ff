import { parseId } from "@sandpiper/wire";
import type { EventLog } from "../../../store/event-log.ts";

/** Events in memory at a time, which may be long. */
const atOnce = 10;

/** Reads the JSON texts of events by ids in either form; null for unknown ones. */
export async function* readEventTexts(
  events: Pick<EventLog, "batch">,
  conversationId: string,
  ids: readonly string[],
): AsyncGenerator<string | null> {
  for (let first = 0; first < ids.length; first += atOnce) {
    const some = ids.slice(first, first + atOnce).map((id) => parseId(id) ?? id);
    yield* await events.batch(conversationId, some);
  }
}
