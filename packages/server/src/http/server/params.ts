import { PlatformError } from "@sandpiper/core/errors";
import type { PageRequest } from "@sandpiper/core/paging";
import { idPattern, parseEventTime, parseId, StringEnum } from "@sandpiper/wire";
import { Type } from "typebox";
import { InvalidInput } from "./invalid-input.ts";

/**
 * Query keys of list pages (app-server.md section 0, row "list pages"). `by` is the default page
 * size.
 */
export const makePageKeys = (by: number) => ({
  page_id: Type.Optional(Type.String({ description: "next_page_id of the page before" })),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: by }),
});

export const pageKeys = makePageKeys(100);

export const PageQuery = Type.Object(pageKeys);

/** A time in a query: ISO-8601, UTC if it names no zone. */
export const Time = Type.Optional(
  Type.String({
    description: "ISO-8601, UTC if it names no zone",
    "x-documented": { format: "date-time" },
  }),
);

/** A UUID in either form; the handler parses it. */
export const Id = Type.String({ "x-documented": { pattern: idPattern } });

export const TimestampOrder = StringEnum(["TIMESTAMP", "TIMESTAMP_DESC"], { default: "TIMESTAMP" });

export function pageRequest(query: { page_id?: string; limit: number }): PageRequest {
  return { pageId: query.page_id, limit: query.limit };
}

/** Converts a page to its wire form. */
export function toWirePage<T>({ items, nextPageId }: { items: T[]; nextPageId: string | null }) {
  return { items, next_page_id: nextPageId };
}

/**
 * Decodes a base64 page id (section 0, row "page_id encodings"). An unreadable id starts at the
 * beginning.
 */
export function parsePageMark(pageId: string | undefined): string | undefined {
  if (pageId === undefined || pageId.length > 1_000) return undefined;
  return Buffer.from(pageId, "base64").toString("utf8") || undefined;
}

/** Converts a page to its wire form, with a base64 page id. */
export function toMarkPage<T>({ items, nextPageId }: { items: T[]; nextPageId: string | null }) {
  return toWirePage({
    items,
    nextPageId: nextPageId === null ? null : Buffer.from(nextPageId).toString("base64"),
  });
}

/** A page of a list in memory. Page ids are offsets; an unreadable one starts at 0. */
export function slicePage<T>(
  items: readonly T[],
  { pageId, limit }: PageRequest,
): { items: T[]; nextPageId: string | null } {
  const start = /^\d{1,15}$/.test(pageId ?? "") ? Number(pageId) : 0;
  const end = start + limit;
  return { items: items.slice(start, end), nextPageId: end < items.length ? String(end) : null };
}

/** Parses a UUID in either form into its dashed form. Throws InvalidInput that names `loc`. */
export function requireId(text: string, ...loc: string[]): string {
  const id = parseId(text);
  if (id === undefined)
    throw new InvalidInput([{ loc, msg: "Input should be a valid UUID", type: "uuid_parsing" }]);
  return id;
}

export function parseOptionalId(text: string | null | undefined, ...loc: string[]): string | undefined {
  return text === null || text === undefined ? undefined : requireId(text, ...loc);
}

/**
 * Parses the ids of a batch into dashed ids. Throws PlatformError TooManyIds above `maximum`, and
 * BadRequest with the documented text for invalid UUIDs (app-server.md section 2.2).
 */
export function parseIds(texts: readonly string[], maximum: number): string[] {
  checkCount(texts, maximum);
  const bad = texts.filter((text) => parseId(text) === undefined);
  if (bad.length > 0) {
    const shown = bad.map((text) => `'${text.slice(0, 64)}'`).join(", ");
    throw new PlatformError("IdsInvalid", { ids: shown });
  }
  return texts.map((text) => parseId(text)!);
}

/** Throws PlatformError TooManyIds when a batch has more than `maximum` ids. */
export function checkCount(texts: readonly string[], maximum: number): void {
  if (texts.length > maximum) throw new PlatformError("TooManyIdsRequested", { maximum });
}

/** Parses a time of a query or body into the form of event timestamps. Throws InvalidInput. */
export function parseEventTimeParam(
  text: string | undefined,
  name: string,
  part: "query" | "body" = "query",
): string | undefined {
  if (text === undefined) return undefined;
  // A plus sign that a client did not escape arrives as a space.
  const time = parseEventTime(text.replace(/(T[\d:.]+) (\d{2}:?\d{2})$/, "$1+$2"));
  if (time !== undefined) return time;
  throw new InvalidInput([
    { loc: [part, name], msg: "Input should be a valid datetime", type: "datetime_from_date_parsing" },
  ]);
}

/** Parses a time of a query or body into milliseconds since the epoch. Throws InvalidInput. */
export function parseTimeParam(
  text: string | undefined,
  name: string,
  part: "query" | "body" = "query",
): number | undefined {
  const time = parseEventTimeParam(text, name, part);
  return time === undefined ? undefined : Date.parse(`${time.slice(0, -3)}Z`);
}
