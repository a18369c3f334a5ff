import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "@sandpiper/core/log/logger";
import { hexId } from "@sandpiper/wire";

/** The news of a conversation. */
export interface News {
  /** Number of appended records. */
  records: number;
  /** True when the records end a run. */
  urgent: boolean;
  /** True when the conversation has changed without a record. */
  changed: boolean;
}

type Active = { id: string; nextSeq: number };

export interface ConversationNewsDeps {
  /** Reads the active callbacks of a conversation. */
  find: (conversationId: string) => Promise<readonly Active[]>;
  tell: (conversationId: string, callback: Active, news: News) => void;
  logger: Pick<Logger, "error">;
  /** Ends look-ups that failed and wait for their repetition. */
  signal: AbortSignal;
  /** Delay after a failed look-up, ms; default 5 s. */
  retryMs?: number;
}

/**
 * Tells active callbacks the news of their conversation. A conversation has one look-up at a time.
 * News that come during a look-up wait for the next one, because a client may have added a callback
 * meanwhile.
 */
export class ConversationNews {
  readonly #deps: ConversationNewsDeps;
  readonly #gathered = new Map<string, News>();
  readonly #looking = new Map<string, Promise<void>>();

  constructor(deps: ConversationNewsDeps) {
    this.#deps = deps;
  }

  add(conversationId: string, news: News): void {
    const before = this.#gathered.get(conversationId);
    this.#gathered.set(conversationId, before ? merge(before, news) : news);
    if (!this.#looking.has(conversationId)) this.#looking.set(conversationId, this.#tellAll(conversationId));
  }

  /** Resolves when no look-up runs. */
  async idle(): Promise<void> {
    await Promise.all(this.#looking.values());
  }

  /** Looks up the callbacks and tells them the news. Never rejects. */
  async #tellAll(conversationId: string): Promise<void> {
    const { find, tell, logger, signal, retryMs = 5_000 } = this.#deps;
    for (let news = this.#take(conversationId); news; news = this.#take(conversationId)) {
      try {
        for (const callback of await find(conversationId)) tell(conversationId, callback, news);
      } catch (error) {
        if (signal.aborted) break;
        logger.error(
          { err: error, conversation: hexId(conversationId) },
          "the server could not look up callbacks; retrying",
        );
        this.#gathered.set(conversationId, merge(news, this.#take(conversationId)));
        await sleep(retryMs, undefined, { signal }).catch(() => {});
        if (signal.aborted) break;
      }
    }
    this.#looking.delete(conversationId);
  }

  #take(conversationId: string): News | undefined {
    const news = this.#gathered.get(conversationId);
    this.#gathered.delete(conversationId);
    return news;
  }
}

const noNews: News = { records: 0, urgent: false, changed: false };

function merge(one: News, other: News = noNews): News {
  return {
    records: one.records + other.records,
    urgent: one.urgent || other.urgent,
    changed: one.changed || other.changed,
  };
}
