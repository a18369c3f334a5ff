import type { LogRecord } from "@sandpiper/agent/loop/log-record";

/** Most events of one delivery. */
export const maxBatchEvents = 50;

/** Longest body of a delivery, bytes; a single event may be longer. */
const maxBatchBytes = 1024 * 1024;

/** The next delivery out of the records that follow a cursor. */
export interface Batch {
  /** JSON texts of the events that go out. */
  events: string[];
  /** Their kinds. */
  kinds: string[];
  firstSeq: number;
  lastSeq: number;
  /** The cursor after it. */
  nextSeq: number;
  /** Nothing is gained by waiting for more: it is full, or the conversation's run has ended. */
  ready: boolean;
}

/** Takes from the records, in order, what fits into one delivery; `kinds` null takes all. Undefined where none of them goes out. */
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
