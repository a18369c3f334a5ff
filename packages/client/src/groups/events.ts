import { type CallOptions, path } from "../connection.ts";
import { allItems, type PageOf, type PageQuery } from "../pages.ts";
import type { Event, EventKind, LogWindow } from "../types.ts";
import { first, Group } from "./group.ts";

/** Which events a list or a count has. Times are ISO-8601. */
export interface EventFilter {
  kind__eq?: EventKind;
  timestamp__gte?: string;
  timestamp__lt?: string;
}

/** The stored events of a conversation. `follow` has the live ones. */
export class Events extends Group {
  list(
    conversation: string,
    query?: PageQuery & EventFilter & { sort_order?: "TIMESTAMP" | "TIMESTAMP_DESC" },
    options?: CallOptions,
  ): Promise<PageOf<Event>> {
    return this.connection.get(
      path`/api/v1/conversation/${conversation}/events/search`,
      { ...query },
      options,
    );
  }

  /**
   * Events by their number, with long texts cut: the newest, or those from `first` on. A window
   * of long events has fewer items than its limit.
   */
  window(
    conversation: string,
    query?: { first?: number; limit?: number; max_chars?: number },
    options?: CallOptions,
  ): Promise<LogWindow> {
    return this.connection.get(path`/api/v1/app-conversations/${conversation}/log`, { ...query }, options);
  }

  /** All stored events, oldest first, read page by page. */
  all(conversation: string, filter?: EventFilter, options?: CallOptions): AsyncGenerator<Event> {
    const query = { ...filter, sort_order: "TIMESTAMP", limit: 100 } as const;
    return allItems((page) => this.list(conversation, { ...query, ...page }, options));
  }

  count(conversation: string, filter?: EventFilter, options?: CallOptions): Promise<number> {
    return this.connection.get(
      path`/api/v1/conversation/${conversation}/events/count`,
      { ...filter },
      options,
    );
  }

  /** An event with all its texts; undefined when there is none with the id. */
  async get(conversation: string, id: string, options?: CallOptions): Promise<Event | undefined> {
    return first(await this.getMany(conversation, [id], options));
  }

  /** Up to 100 events in the order of their ids; null for unknown ones. */
  getMany(conversation: string, ids: readonly string[], options?: CallOptions): Promise<(Event | null)[]> {
    return this.connection.get(path`/api/v1/conversation/${conversation}/events`, { id: ids }, options);
  }
}
