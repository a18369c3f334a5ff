import type { PageRequest, PageResult } from "./store.ts";

/** Reads a page id: a decimal offset; anything else restarts at 0 (app-server.md section 0, row "page_id encodings"). */
export function pageOffset(pageId: string | undefined): number {
  return pageId !== undefined && /^\d{1,15}$/.test(pageId) ? Number(pageId) : 0;
}

/**
 * Makes a page out of rows that were read from the request's offset on with a limit of `limit + 1`:
 * the row too many only tells that there is a next page.
 */
export function toPage<T>(rows: readonly T[], request: PageRequest): PageResult<T> {
  const items = rows.slice(0, request.limit);
  const more = rows.length > request.limit;
  return { items, nextPageId: more ? String(pageOffset(request.pageId) + request.limit) : null };
}
