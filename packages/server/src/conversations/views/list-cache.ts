import type { PageRequest } from "@sandpiper/core/paging";
import type { AppConversation } from "@sandpiper/wire";
import { LRUCache } from "lru-cache";
import type { ConversationFilter, ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Viewer } from "../../users/api.ts";

export interface ListCacheDeps {
  store: Pick<Store, "conversations" | "version">;
  /** Keeps the order of the rows. */
  present(rows: readonly ConversationRow[], viewer: Viewer): Promise<AppConversation[]>;
}

/** Conversation pages as JSON for polling clients, kept until the next write to the store. */
export class ListCache {
  readonly #deps: ListCacheDeps;
  readonly #pages = new LRUCache<string, { json: string; version: number }>({
    max: 100,
    maxSize: 8 * 2 ** 20,
  });

  constructor(deps: ListCacheDeps) {
    this.#deps = deps;
  }

  /** `{"items": […], "next_page_id": …}` */
  async page(filter: ConversationFilter, request: PageRequest, viewer: Viewer): Promise<string> {
    const { store, present } = this.#deps;
    const version = store.version();
    const key = JSON.stringify([filter, request, viewer.source]);
    const cached = this.#pages.get(key);
    if (cached?.version === version) return cached.json;
    const { items, nextPageId } = await store.conversations.search(filter, request);
    const json = JSON.stringify({ items: await present(items, viewer), next_page_id: nextPageId });
    this.#pages.set(key, { json, version }, { size: json.length });
    return json;
  }
}
