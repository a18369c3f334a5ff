import type { SlotKind } from "../slot-store.ts";
import { type Database, toQuery } from "./database.ts";
import { channel, type DocumentKind, encodeNotices } from "./notice.ts";

/**
 * Tells other servers what this one has stored, after the commit and with a statement of its own: a
 * notification inside of a transaction takes a lock that all committing transactions share. Changes
 * during a notification go with the next one. Polls and the age limit of cached entries make up for
 * a lost notification.
 */
export class Notifier {
  readonly #database: Database;
  readonly #from: string;
  readonly #logs = new Map<string, number>();
  readonly #documents = new Map<string, [kind: DocumentKind, userId: string]>();
  readonly #slots = new Map<string, [kind: SlotKind, userId: string]>();
  #isDue = false;
  /** Settles with the next notification. */
  #next = Promise.withResolvers<void>();
  #sending: Promise<void> | undefined;

  readonly #hasPeers: () => boolean;

  /**
   * `hasPeers` says whether another server is there; without one, notices contain only documents.
   */
  constructor(database: Database, from: string, hasPeers: () => boolean) {
    this.#database = database;
    this.#from = from;
    this.#hasPeers = hasPeers;
  }

  appended(conversationId: string, seq: number): void {
    if (!this.#hasPeers()) return;
    this.#logs.set(conversationId, seq);
    this.#tell();
  }

  /**
   * Resolves when the database has taken the notice of a changed document, so that other servers
   * have dropped what they cached before a client learns of the change. Never rejects.
   */
  changed(kind: DocumentKind, userId: string): Promise<void> {
    this.#documents.set(`${kind} ${userId}`, [kind, userId]);
    this.#tell();
    return this.#next.promise;
  }

  freed(kind: SlotKind, userId: string): void {
    if (!this.#hasPeers()) return;
    this.#slots.set(`${kind} ${userId}`, [kind, userId]);
    this.#tell();
  }

  #tell(): void {
    this.#isDue = true;
    this.#sending ??= this.#send();
  }

  async drained(): Promise<void> {
    while (this.#sending) await this.#sending;
  }

  async #send(): Promise<void> {
    await Promise.resolve();
    while (this.#isDue) {
      this.#isDue = false;
      const sent = this.#next;
      this.#next = Promise.withResolvers();
      const texts = encodeNotices({
        from: this.#from,
        logs: [...this.#logs],
        documents: [...this.#documents.values()],
        slots: [...this.#slots.values()],
      });
      this.#logs.clear();
      this.#documents.clear();
      this.#slots.clear();
      const sql = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text";
      // Correctness does not depend on a notification.
      await this.#database
        .use((connection) => connection.query(toQuery(sql, [channel, texts], true)))
        .catch(() => {});
      sent.resolve();
    }
    this.#sending = undefined;
  }
}
