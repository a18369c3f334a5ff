import type { PageRequest } from "@sandpiper/core/paging";
import type { AppConversation } from "@sandpiper/wire";
import { LRUCache } from "lru-cache";
import { conversationSet } from "../../store/changes.ts";
import type { ConversationFilter, ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";

export interface ListSources {
  store: Pick<Store, "changes" | "conversations" | "settings">;
  /** Conversations as clients see them, in the same order. */
  present(rows: readonly ConversationRow[]): AppConversation[];
}

/** The text of one conversation, and the state of what it shows: the conversation with its children, its sandbox, its user's settings. */
interface Item {
  json: string;
  sandboxId: string;
  own: number;
  sandbox: number;
  settings: object | undefined;
}

interface Page {
  ids: readonly string[];
  nextPageId: string | null;
  json: string;
  set: number;
  version: number;
  settings: object | undefined;
}

/**
 * Pages of conversations as JSON. Clients poll their lists while agents write all the time, so texts are kept: of each conversation until it changes,
 * and of a page until anything in it does. A write elsewhere costs a page nothing but looking at its numbers.
 */
export class ListJson {
  readonly #sources: ListSources;
  readonly #items = new LRUCache<string, Item>({ max: 10_000, maxSize: 8 * 2 ** 20 });
  readonly #pages = new LRUCache<string, Page>({ max: 100, maxSize: 8 * 2 ** 20 });

  constructor(sources: ListSources) {
    this.#sources = sources;
  }

  /** `{"items": […], "next_page_id": …}` */
  page(filter: ConversationFilter, request: PageRequest): string {
    const { changes, conversations, settings: documents } = this.#sources.store;
    const { version } = changes;
    const set = changes.of(conversationSet);
    // A settings document is the same object until it is replaced.
    const settings = documents.get(filter.userId);
    const question = JSON.stringify([filter, request]);
    const known = this.#pages.get(question);
    if (known?.version === version && known.settings === settings) return known.json;

    const byUpdate = filter.updatedAtGte !== undefined || filter.updatedAtLt !== undefined;
    let { ids, nextPageId } = known ?? { ids: [], nextPageId: null };
    let items = known?.set === set && !byUpdate ? this.#texts(ids, settings) : undefined;
    if (items === undefined) {
      const found = conversations.search(filter, request);
      ids = found.items.map(({ id }) => id);
      nextPageId = found.nextPageId;
      items = this.#texts(ids, settings, new Map(found.items.map((row) => [row.id, row])))!;
    }
    const json = `{"items":[${items.join()}],"next_page_id":${JSON.stringify(nextPageId)}}`;
    this.#pages.set(question, { ids, nextPageId, json, set, version, settings }, { size: json.length });
    return json;
  }

  /** The texts of conversations; those that changed are made anew, of `rows` where these have them. Undefined where one is gone. */
  #texts(
    ids: readonly string[],
    settings: object | undefined,
    rows?: ReadonlyMap<string, ConversationRow>,
  ): string[] | undefined {
    const { changes, conversations } = this.#sources.store;
    const texts = ids.map((id) => this.#known(id, settings));
    const stale = ids.filter((_, index) => texts[index] === undefined);
    const read = stale.map((id) => rows?.get(id) ?? conversations.get(id));
    if (!read.every((row) => row !== undefined)) return undefined;
    const made = new Map<string, string>();
    for (const [index, shown] of this.#sources.present(read).entries()) {
      const { id, sandboxId } = read[index]!;
      const json = JSON.stringify(shown);
      made.set(id, json);
      this.#items.set(
        id,
        { json, sandboxId, own: changes.of(id), sandbox: changes.of(sandboxId), settings },
        { size: json.length },
      );
    }
    return ids.map((id, index) => texts[index] ?? made.get(id)!);
  }

  #known(id: string, settings: object | undefined): string | undefined {
    const { changes } = this.#sources.store;
    const item = this.#items.get(id);
    const holds =
      item?.settings === settings &&
      item?.own === changes.of(id) &&
      item.sandbox === changes.of(item.sandboxId);
    return holds ? item.json : undefined;
  }
}
