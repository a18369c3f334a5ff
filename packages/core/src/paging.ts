export interface PageRequest {
  /** Decimal offset; anything else restarts at 0 (app-server.md section 0). */
  pageId?: string | undefined;
  limit: number;
}

export interface PageResult<T> {
  items: T[];
  nextPageId: string | null;
}

/**
 * Parses a page id: a decimal offset; anything else means 0 (app-server.md section 0, row "page_id
 * encodings").
 */
export function pageOffset(pageId: string | undefined): number {
  return pageId !== undefined && /^\d{1,15}$/.test(pageId) ? Number(pageId) : 0;
}

/**
 * Makes a page of rows that were read with a limit of `limit + 1`: the extra row only shows that
 * there is a next page.
 */
export function toPage<T>(rows: readonly T[], request: PageRequest): PageResult<T> {
  const items = rows.slice(0, request.limit);
  const more = rows.length > request.limit;
  return { items, nextPageId: more ? String(pageOffset(request.pageId) + request.limit) : null };
}

/** Characters of texts above which a page ends early: 100 long ones would be gigabytes. */
export const maxPageLength = 8 * 1024 * 1024;

/**
 * Makes a page of rows that begin at the request's offset. Long rows make it shorter than `limit`,
 * but it has at least one row if any is left.
 */
export function boundedPage<Row>(
  rows: Iterable<Row>,
  lengthOf: (row: Row) => number,
  request: PageRequest,
  maxLength = maxPageLength,
): PageResult<Row> {
  const items: Row[] = [];
  let length = 0;
  for (const row of rows) {
    length += lengthOf(row);
    if (items.length === request.limit || (items.length > 0 && length > maxLength))
      return { items, nextPageId: String(pageOffset(request.pageId) + items.length) };
    items.push(row);
  }
  return { items, nextPageId: null };
}
