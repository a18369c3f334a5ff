import { PlatformError } from "@sandpiper/core/errors";

/** Sends serialised JSON; an asynchronous handler returns the reply. */
export function sendJson<Reply extends { type(contentType: string): { send(payload: unknown): unknown } }>(
  reply: Reply,
  json: string | Buffer,
): Reply {
  reply.type("application/json").send(json);
  return reply;
}

/** Sends a body, such as a stream, that the route's schema describes in its parsed form. */
export function sendBody<Reply extends { send(payload: unknown): unknown }>(
  reply: Reply,
  body: unknown,
): Reply {
  reply.send(body);
  return reply;
}

/** Builds a page from JSON texts. */
export function toPageJson({
  items,
  nextPageId,
}: {
  items: readonly string[];
  nextPageId: string | null;
}): string {
  return `{"items":[${items.join(",")}],"next_page_id":${JSON.stringify(nextPageId)}}`;
}

/** Builds a page from the bytes of JSON texts. */
export function toPageBytes({
  items,
  nextPageId,
}: {
  items: readonly Buffer[];
  nextPageId: string | null;
}): Buffer {
  const comma = Buffer.from(",");
  const listed = items.flatMap((item, index) => (index === 0 ? [item] : [comma, item]));
  return Buffer.concat([
    Buffer.from('{"items":['),
    ...listed,
    Buffer.from(`],"next_page_id":${JSON.stringify(nextPageId)}}`),
  ]);
}

/** Maximum characters of a list that was requested by ids. */
export const maxListLength = 64 * 1024 * 1024;

/**
 * Builds a list from JSON texts, read one by one, with `null` for missing ones. Throws
 * PlatformError AnswerTooLarge.
 */
export async function toArrayJson(
  items: Iterable<string | null> | AsyncIterable<string | null>,
): Promise<string> {
  const texts: string[] = [];
  let length = 0;
  for await (const item of items) {
    length += item?.length ?? 0;
    if (length > maxListLength) throw new PlatformError("BatchTooLarge");
    texts.push(item ?? "null");
  }
  return `[${texts.join(",")}]`;
}
