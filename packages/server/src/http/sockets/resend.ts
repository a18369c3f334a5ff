import { LRUCache } from "lru-cache";
import type { Frame } from "../../conversations/api.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { Resend } from "./handshake.ts";

/** Records, and characters of them, that are read at once and wait in memory for a slow client. */
const pageSize = 100;
const maxPageChars = 128 * 1024;

/** Pages that are kept for other followers of the same log, who often come together, characters. */
const maxKeptChars = 4 * 1024 * 1024;
const kept = new WeakMap<EventLog, LRUCache<string, readonly Frame[]>>();

/** Pages that are being read. */
const reading = new WeakMap<EventLog, Map<string, Promise<readonly Frame[]>>>();

/** Runs work in its turn among the resends of all clients: thousands at once delay nobody. */
export type InTurn = (work: () => Promise<readonly Frame[]>) => Promise<readonly Frame[]>;

/**
 * Sends the listed events between two log positions in order, reading pages at the client's pace.
 * `send` returns a promise when the next one must wait for it; `open` is false once the client has
 * gone.
 */
export async function resendEvents(
  events: EventLog,
  conversationId: string,
  from: number,
  upTo: number,
  send: (frame: Frame) => Promise<void> | undefined,
  open: () => boolean,
  inTurn: InTurn,
): Promise<void> {
  let after = from;
  while (after < upTo && open()) {
    const frames = await inTurn(async () => (open() ? readPage(events, conversationId, after, upTo) : []));
    for (const frame of frames) {
      const wait = frame.listed && frame.seq! <= upTo ? send(frame) : undefined;
      if (wait) await wait;
      if (!open()) return;
    }
    if (frames.length === 0) return;
    after = frames.at(-1)!.seq!;
  }
}

async function readPage(
  events: EventLog,
  conversationId: string,
  after: number,
  upTo: number,
): Promise<readonly Frame[]> {
  const limit = Math.min(pageSize, upTo - after);
  const read = async (): Promise<readonly Frame[]> => {
    const records = await events.read(conversationId, after, limit, maxPageChars);
    return records.map(({ seq, listed, json }) => ({ seq, listed, json }));
  };
  // A log only grows: a page of which all records exist stays as it is.
  if (limit < pageSize) return read();
  const pages = kept.get(events) ?? new LRUCache({ maxSize: maxKeptChars, sizeCalculation: countChars });
  kept.set(events, pages);
  const key = `${conversationId} ${after}`;
  const known = pages.get(key);
  if (known) return known;
  // Followers that ask for a page while it is read wait for that read.
  const reads = reading.get(events) ?? new Map<string, Promise<readonly Frame[]>>();
  reading.set(events, reads);
  const page = reads.get(key) ?? read();
  reads.set(key, page);
  try {
    const frames = await page;
    pages.set(key, frames);
    return frames;
  } finally {
    if (reads.get(key) === page) reads.delete(key);
  }
}

function countChars(page: readonly Frame[]): number {
  return page.reduce((sum, { json }) => sum + json.length, 1);
}

/** The sequence number after which a client resumes in a log that ends at `upTo`. */
export async function findResendStart(
  events: EventLog,
  conversationId: string,
  resend: Resend,
  upTo: number,
): Promise<number> {
  if (resend.mode === "all") return 0;
  if (resend.mode === "after") return Math.min(resend.seq, upTo);
  if (resend.mode === "none") return upTo;
  // Timestamps rise with sequence numbers, so a binary search finds the first one at or after the
  // time.
  let low = 0;
  let high = upTo;
  while (low < high) {
    const middle = (low + high) >> 1;
    const [record] = await events.read(conversationId, middle, 1);
    if (!record || record.event.timestamp >= resend.timestamp) high = middle;
    else low = middle + 1;
  }
  return low;
}
