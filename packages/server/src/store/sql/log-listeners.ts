import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { errorText } from "@sandpiper/core/errors";

export type LogListener = (records: readonly LogRecord[]) => void;

/** The followers of logs in this process. A follower that throws does not disturb the others. */
export class LogListeners {
  readonly #followers = new Map<string, Set<LogListener>>();
  readonly #observers = new Set<(conversationId: string, records: readonly LogRecord[]) => void>();

  /** Ids of the conversations that are followed. */
  followed(): string[] {
    return [...this.#followers.keys()];
  }

  isFollowed(conversationId: string): boolean {
    return this.#followers.has(conversationId);
  }

  follow(conversationId: string, listener: LogListener): () => void {
    const followers = this.#followers.get(conversationId) ?? new Set();
    const own: LogListener = (records) => listener(records);
    followers.add(own);
    this.#followers.set(conversationId, followers);
    return () => {
      followers.delete(own);
      if (followers.size === 0 && this.#followers.get(conversationId) === followers)
        this.#followers.delete(conversationId);
    };
  }

  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void {
    const own: typeof listener = (conversationId, records) => listener(conversationId, records);
    this.#observers.add(own);
    return () => this.#observers.delete(own);
  }

  /** Calls the followers of a conversation. */
  tellFollowers(conversationId: string, records: readonly LogRecord[]): void {
    const followers = this.#followers.get(conversationId);
    for (const listener of followers ? [...followers] : []) {
      if (followers?.has(listener)) callListener(() => listener(records));
    }
  }

  /** Calls the followers of all conversations. */
  tellObservers(conversationId: string, records: readonly LogRecord[]): void {
    for (const observer of this.#observers) callListener(() => observer(conversationId, records));
  }
}

function callListener(call: () => void): void {
  try {
    call();
  } catch (error) {
    process.emitWarning(`A follower of the log has failed: ${errorText(error)}`);
  }
}
