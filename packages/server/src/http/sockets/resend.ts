import type { EventLog } from "../../store/event-log.ts";
import type { Resend } from "./handshake.ts";

/** What is read at once, and waits in memory for a slow client: records, and characters of them. */
const pageSize = 100;
const pageLength = 512 * 1024;

/**
 * Sends the stored events between two log positions, in order, listed ones only: pages are read as the client takes them.
 * `send` resolves when it can take the next one; `open` says whether anybody still listens.
 */
export async function resendEvents(
  events: EventLog,
  conversationId: string,
  from: number,
  upTo: number,
  send: (seq: number, json: string) => Promise<void>,
  open: () => boolean,
): Promise<void> {
  let after = from;
  while (after < upTo && open()) {
    const records = events.read(conversationId, after, Math.min(pageSize, upTo - after), pageLength);
    if (records.length === 0) return;
    for (const { seq, listed, json } of records) {
      if (listed && seq <= upTo) await send(seq, json);
      if (!open()) return;
    }
    after = records.at(-1)!.seq;
    // Long histories are many pages: other work gets its turn between them.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The sequence number after which a client goes on in a log that ends at `upTo`. */
export function startOf(events: EventLog, conversationId: string, resend: Resend, upTo: number): number {
  if (resend.mode === "all") return 0;
  if (resend.mode === "after") return Math.min(resend.seq, upTo);
  if (resend.mode === "none") return upTo;
  // Timestamps rise strictly with the sequence numbers, so halving finds the first one at or after the wanted time.
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
