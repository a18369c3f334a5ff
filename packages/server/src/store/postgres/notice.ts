import type { SlotKind } from "../slot-store.ts";

/** The channel of all servers on one database. */
export const channel = "sandpiper";

/** Cached documents that a notice can name. */
export type DocumentKind = "settings" | "user_secrets";

/** A message from one server to the others, which contains only ids. */
export interface Notice {
  /** Incarnation of the server that sends the notice. */
  from: string;
  /** Last sequence numbers of logs, by conversation. */
  logs?: [conversationId: string, seq: number][];
  documents?: [kind: DocumentKind, userId: string][];
  /** Users of whom a slot has become free. */
  slots?: [kind: SlotKind, userId: string][];
  /** Number of a probe, which its own server waits for. */
  probe?: number;
}

/** PostgreSQL takes notifications of less than 8000 bytes. */
const maxBytes = 7_500;

/** Returns the texts of a notice: one for each notification that it needs. */
export function encodeNotices({ from, logs = [], documents = [], slots = [] }: Notice): string[] {
  const texts: string[] = [];
  const newPart = () =>
    ({ from, logs: [], documents: [], slots: [] }) satisfies Notice as Required<Omit<Notice, "probe">>;
  let part = newPart();
  let bytes = 100;
  const add = (size: number, put: () => void) => {
    if (bytes + size > maxBytes) {
      texts.push(JSON.stringify(part));
      part = newPart();
      bytes = 100;
    }
    bytes += size;
    put();
  };
  const sizeOf = (item: unknown) => Buffer.byteLength(JSON.stringify(item)) + 1;
  for (const log of logs) add(sizeOf(log), () => part.logs.push(log));
  for (const document of documents) add(sizeOf(document), () => part.documents.push(document));
  for (const slot of slots) add(sizeOf(slot), () => part.slots.push(slot));
  return [...texts, JSON.stringify(part)];
}

/** Parses a notice; undefined for any other text. */
export function decodeNotice(text: string): Notice | undefined {
  try {
    const notice = JSON.parse(text) as Notice;
    return typeof notice?.from === "string" ? notice : undefined;
  } catch {
    return undefined;
  }
}
