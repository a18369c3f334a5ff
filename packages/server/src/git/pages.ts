import type { GitPageQuery, ListPage } from "./api.ts";

/**
 * Parses the cursor as a page number; an invalid one is 1 (app-server.md section 0, page_id
 * encodings).
 */
export function parsePageNumber({ from }: GitPageQuery): number {
  return /^[1-9]\d{0,5}$/.test(from ?? "") ? Number(from) : 1;
}

/** The next page number of a `Link` header (GitHub, Forgejo). */
export function parseNextLink(headers: Headers): string | null {
  const link = headers.get("link") ?? "";
  for (const entry of link.split("<").slice(1)) {
    const end = entry.indexOf(">");
    if (end < 0 || !/^; {0,8}rel="?next/.test(entry.slice(end + 1))) continue;
    return /[?&]page=(\d{1,6})/.exec(entry.slice(0, end))?.[1] ?? null;
  }
  return null;
}

/** Slices a list in memory; cursors are offsets. */
export function sliceGitPage<T>(items: readonly T[], { from, limit }: GitPageQuery): ListPage<T> {
  const start = /^\d{1,9}$/.test(from ?? "") ? Number(from) : 0;
  const end = start + limit;
  return { items: items.slice(start, end), next: end < items.length ? String(end) : null };
}

/** Maps items in batches of `atOnce` concurrent calls and keeps the order. */
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
