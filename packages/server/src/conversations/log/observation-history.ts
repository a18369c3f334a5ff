import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Observation, ObservationEvent } from "@sandpiper/wire";
import type { EventLog } from "../../store/event-log.ts";

const pageSize = 20;
const maxObservations = 2_000;

/** The observations of the active branch, newest first, at most `maxObservations`. */
export async function* readObservations(
  { events, scheduler }: { events: EventLog; scheduler: TurnScheduler },
  conversationId: string,
): AsyncGenerator<Observation> {
  let left = maxObservations;
  for (const span of (await events.branch(conversationId)).spans.toReversed()) {
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
      const page = await events.search(conversationId, query);
      for (const json of page.items) {
        if (left-- === 0) return;
        yield (JSON.parse(json) as ObservationEvent).observation;
      }
      pageId = page.nextPageId ?? undefined;
    } while (pageId !== undefined);
  }
}
