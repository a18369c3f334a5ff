/** The channel of all servers on one database. */
export const channel = "sandpiper";

/** Cached documents that a notice can name. */
export type DocumentKind = "settings" | "user_secrets";

/** What a server tells the others: ids only. */
export interface Notice {
  /** The server that tells. */
  from: string;
  /** Last sequence numbers of logs, by conversation. */
  logs?: [conversationId: string, seq: number][];
  documents?: [kind: DocumentKind, userId: string][];
  /** Number of a probe, which its own server waits for. */
  probe?: number;
}

/** PostgreSQL takes notifications of less than 8000 bytes. */
const maxBytes = 7_500;

/** The texts of a notice, split into as many notifications as it needs. */
export function encodeNotices({ from, logs = [], documents = [] }: Notice): string[] {
  const texts: string[] = [];
  let part: Required<Pick<Notice, "from" | "logs" | "documents">> = { from, logs: [], documents: [] };
  let bytes = 100;
  const add = (size: number, put: () => void) => {
    if (bytes + size > maxBytes) {
      texts.push(JSON.stringify(part));
      part = { from, logs: [], documents: [] };
      bytes = 100;
    }
    bytes += size;
    put();
  };
  const sizeOf = (item: unknown) => Buffer.byteLength(JSON.stringify(item)) + 1;
  for (const log of logs) add(sizeOf(log), () => part.logs.push(log));
  for (const document of documents) add(sizeOf(document), () => part.documents.push(document));
  return [...texts, JSON.stringify(part)];
}

/** Undefined for a text that is no notice. */
export function decodeNotice(text: string): Notice | undefined {
  try {
    const notice = JSON.parse(text) as Notice;
    return typeof notice?.from === "string" ? notice : undefined;
  } catch {
    return undefined;
  }
}
