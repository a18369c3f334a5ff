import type { LogRecord, NewRecord } from "@sandpiper/agent/loop/log-record";
import { type Event, newId } from "@sandpiper/wire";
import { eventTime } from "@sandpiper/wire/common/time";
import { omitNulls, serializeEvent } from "../event-json.ts";
import type { AppendOptions } from "../event-log.ts";
import { summarizeEvents } from "../summary.ts";

/**
 * Kinds of events that record that a user stops a run, and all kinds that record how a run ends.
 */
const stops: ReadonlySet<string> = new Set(["PauseEvent", "InterruptEvent"]);
const endings = stops.union(new Set(["ConversationErrorEvent"]));

/** Records that are ready to be stored, with what they change in the conversation's summary. */
export interface AppendDraft {
  conversationId: string;
  /**
   * Microseconds since the epoch; the store uses a later time if the log's last time is not
   * earlier.
   */
  nowMicros: number;
  events: { id: string; kind: string; listed: boolean; body: string }[];
  executionStatus: string | null;
  /** True when the count of the conversation's unclean ends begins from 0 again. */
  resetsUncleanEnds: boolean;
  /** MetricsSnapshot as JSON. */
  metrics: string | null;
  /** Metrics by usage id as JSON. */
  stats: string | null;
  /** Total cost of the conversation, USD, whose increase counts as spent now; null: unchanged. */
  cost: number | null;
  /** Id of the pending message to remove; the store appends nothing if the message is gone. */
  delivers: string | null;
  /** Model calls as JSON. */
  calls: string[];
  /** True when the events record how a run ends, which a full conversation accepts too. */
  isEnding: boolean;
  /** True when the events stop a run, for which a full disk has a reserve. */
  usesReserve: boolean;
}

/** Values of the first event; each further one has the next sequence number and microsecond. */
export interface AppendStamps {
  seq: number;
  micros: number;
  /**
   * Parent of the first listed event; empty: none. Null: never navigated, events name no parent.
   */
  head: string | null;
}

/**
 * Prepares records for a store. `toRecords` returns the stored records once the store has stamped
 * them.
 */
export function draftAppend(
  conversationId: string,
  records: readonly NewRecord[],
  { calls = [], delivers = null }: Pick<AppendOptions, "calls"> & { delivers?: string | null | undefined },
  nowMicros: number,
): { draft: AppendDraft; toRecords(stamps: AppendStamps): LogRecord[] } {
  const drafts = records.map(({ listed, event }) => {
    const { id = newId(), ...rest } = omitNulls(event);
    return { id, kind: rest.kind, listed, rest, body: JSON.stringify(rest) };
  });
  const change = summarizeEvents(records.map(({ event }) => event));
  const draft: AppendDraft = {
    conversationId,
    nowMicros,
    events: drafts.map(({ id, kind, listed, body }) => ({ id, kind, listed, body })),
    executionStatus: change.executionStatus ?? null,
    resetsUncleanEnds: change.resetsUncleanEnds === true,
    metrics: change.metrics ? JSON.stringify(change.metrics) : null,
    stats: change.stats ? JSON.stringify(change.stats) : null,
    cost: change.cost ?? null,
    delivers,
    calls: calls.map((call) => JSON.stringify(call)),
    isEnding: records.some(({ event }) => endings.has(event.kind)),
    usesReserve: records.some(({ event }) => stops.has(event.kind)),
  };
  const toRecords = ({ seq, micros, head: before }: AppendStamps) => {
    let head = before;
    return drafts.map(({ id, listed, rest, body }, index): LogRecord => {
      const timestamp = eventTime(micros + index);
      const parent = listed && head !== null ? head : "";
      if (listed && head !== null) head = id;
      return {
        seq: seq + index,
        listed,
        event: { id, timestamp, ...(parent !== "" && { parent_id: parent }), ...rest } as Event,
        json: serializeEvent(id, timestamp, body, parent),
      };
    });
  };
  return { draft, toRecords };
}
