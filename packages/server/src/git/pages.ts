import type { ListPage, PageQuery } from "./api.ts";

/** The number of the page that a part asks for; an unreadable one is the first (app-server.md section 0, row "page_id encodings"). */
export function parsePageNumber({ from }: PageQuery): number {
  return /^[1-9]\d{0,5}$/.test(from ?? "") ? Number(from) : 1;
}

/** The page after this one as a `Link` header names it (GitHub, Forgejo). */
export function parseNextLink(headers: Headers): string | null {
  const link = headers.get("link") ?? "";
  return /<[^>]*[?&]page=(\d{1,6})[^>]*>;\s*rel="?next/.exec(link)?.[1] ?? null;
}

/** A part of a list that is whole in memory. Marks are offsets. */
export function slicePage<T>(items: readonly T[], { from, limit }: PageQuery): ListPage<T> {
  const start = /^\d{1,9}$/.test(from ?? "") ? Number(from) : 0;
  const end = start + limit;
  return { items: items.slice(start, end), next: end < items.length ? String(end) : null };
}

/** Does work for each item, some at a time, and keeps the order. */
export async function mapConcurrently<T, R>(
  items: readonly T[],
  work: (item: T) => Promise<R>,
  atOnce = 6,
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += atOnce)
    results.push(...(await Promise.all(items.slice(at, at + atOnce).map(work))));
  return results;
}
