import type { EventLog } from "../../store/event-log.ts";
import type { Resend } from "./handshake.ts";

/** Records, and characters of them, that are read at once and wait in memory for a slow client. */
const pageSize = 100;
const maxPageChars = 128 * 1024;

/** Runs work in its turn among the resends of all clients: thousands at once delay nobody. */
export type InTurn = <Result>(work: () => Result) => Promise<Result>;

/**
 * Sends the listed events between two log positions in order, reading pages at the client's pace.
 * `send` resolves when it can take the next one; `open` is false once the client has gone.
 */
export async function resendEvents(
  events: EventLog,
  conversationId: string,
  from: number,
  upTo: number,
  send: (seq: number, json: string) => Promise<void>,
  open: () => boolean,
  inTurn: InTurn,
): Promise<void> {
  let after = from;
  while (after < upTo && open()) {
    const read = () =>
      open() ? events.read(conversationId, after, Math.min(pageSize, upTo - after), maxPageChars) : [];
    const records = await inTurn(read);
    if (records.length === 0) return;
    for (const { seq, listed, json } of records) {
      if (listed && seq <= upTo) await send(seq, json);
      if (!open()) return;
    }
    after = records.at(-1)!.seq;
  }
}

/** The sequence number after which a client resumes in a log that ends at `upTo`. */
export function findResendStart(
  events: EventLog,
  conversationId: string,
  resend: Resend,
  upTo: number,
): number {
  if (resend.mode === "all") return 0;
  if (resend.mode === "after") return Math.min(resend.seq, upTo);
  if (resend.mode === "none") return upTo;
  // Timestamps rise with sequence numbers, so a binary search finds the first one at or after the
  // time.
  let low = 0;
  let high = upTo;
  while (low < high) {
    const middle = (low + high) >> 1;
    const [record] = events.read(conversationId, middle, 1);
    if (!record || record.event.timestamp >= resend.timestamp) high = middle;
    else low = middle + 1;
  }
  return low;
}
