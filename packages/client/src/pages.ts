/** A page of a list; `next_page_id` is null on the last page. */
export interface PageOf<T> {
  items: T[];
  next_page_id: string | null;
}

/** What every list takes. */
export interface PageQuery {
  /** The `next_page_id` of the page before. */
  page_id?: string | undefined;
  /** Most items of the page, 1 to 100. */
  limit?: number | undefined;
}

/**
 * All items of a list, page by page:
 * `for await (const each of allItems((page) => client.conversations.list(page)))`.
 */
export async function* allItems<T>(read: (page: PageQuery) => Promise<PageOf<T>>): AsyncGenerator<T> {
  let pageId: string | undefined;
  do {
    const { items, next_page_id: next } = await read(pageId === undefined ? {} : { page_id: pageId });
    yield* items;
    pageId = next ?? undefined;
  } while (pageId !== undefined);
}
