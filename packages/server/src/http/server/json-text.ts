import { PlatformError } from "@sandpiper/core/errors";

/** Sends a ready JSON text. */
export function sendJson(
  reply: { type(contentType: string): { send(payload: unknown): unknown } },
  json: string | Buffer,
): void {
  reply.type("application/json").send(json);
}

/** A page out of JSON texts. */
export function pageJson({
  items,
  nextPageId,
}: {
  items: readonly string[];
  nextPageId: string | null;
}): string {
  return `{"items":[${items.join(",")}],"next_page_id":${JSON.stringify(nextPageId)}}`;
}

/** The same out of the bytes of JSON texts. */
export function pageBytes({
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

/** Most characters of a list that was asked for by ids. */
export const maxListLength = 64 * 1024 * 1024;

/** A list out of JSON texts, `null` where there is none; they are read one by one. Throws PlatformError AnswerTooLarge. */
export function arrayJson(items: Iterable<string | null>): string {
  const texts: string[] = [];
  let length = 0;
  for (const item of items) {
    length += item?.length ?? 0;
    if (length > maxListLength)
      throw new PlatformError(
        "AnswerTooLarge",
        "All of these together are too large: ask for fewer at a time.",
      );
    texts.push(item ?? "null");
  }
  return `[${texts.join(",")}]`;
}
