import type { LogRecord } from "@sandpiper/agent/loop/log-record";

/** Maximum events per delivery. */
export const maxBatchEvents = 50;

/** Maximum body of a delivery with several events. */
const maxBatchBytes = 1024 * 1024;

/** The next delivery after a cursor. */
export interface Batch {
  /** JSON texts of the events. */
  events: string[];
  /** Kinds of the events. */
  kinds: string[];
  firstSeq: number;
  lastSeq: number;
  /** The cursor after the batch. */
  nextSeq: number;
  /** The batch is full or the run has ended, so it is sent without waiting for more events. */
  ready: boolean;
}

/** The next batch of events of these kinds (null: all); undefined when there is none. */
export function nextBatch(records: readonly LogRecord[], kinds: readonly string[] | null): Batch | undefined {
  const batch: Batch = { events: [], kinds: [], firstSeq: 0, lastSeq: 0, nextSeq: 0, ready: false };
  let bytes = 0;
  for (const { seq, event, json } of records) {
    const wanted = kinds === null || kinds.includes(event.kind);
    if (wanted) {
      bytes += Buffer.byteLength(json) + 1;
      if (batch.events.length === maxBatchEvents || (bytes > maxBatchBytes && batch.events.length > 0))
        return { ...batch, ready: true };
      if (batch.events.length === 0) batch.firstSeq = seq;
      batch.events.push(json);
      batch.kinds.push(event.kind);
      batch.lastSeq = seq;
    }
    batch.nextSeq = seq + 1;
    if (event.kind === "ConversationStateUpdateEvent" && event.key === "execution_status")
      batch.ready = event.value !== "running";
  }
  if (batch.events.length === 0) return undefined;
  return { ...batch, ready: batch.ready || batch.events.length === maxBatchEvents };
}
