import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Observation, ObservationEvent } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";

/** Results that are read at a time, and at most. */
const pageSize = 20;
const maxObservations = 2_000;

/** The results of a conversation's calls on its active branch, the last first, read while others are served. */
export async function* readObservations(
  { events, scheduler }: { events: EventLog; scheduler: TurnScheduler },
  conversationId: string,
): AsyncGenerator<Observation> {
  let left = maxObservations;
  for (const span of events.branch(conversationId).spans.toReversed()) {
    let pageId: string | undefined;
    do {
      await scheduler.nextTurn("observation pages");
      const query = {
        kind: "ObservationEvent",
        descending: true,
        limit: pageSize,
        span,
        ...(pageId && { pageId }),
      };
      const page = events.search(conversationId, query);
      for (const json of page.items) {
        if (left-- === 0) return;
        yield (JSON.parse(json) as ObservationEvent).observation;
      }
      pageId = page.nextPageId ?? undefined;
    } while (pageId !== undefined);
  }
}
