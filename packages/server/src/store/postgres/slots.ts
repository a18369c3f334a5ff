import type { SlotKind, SlotPlace, SlotStore, SlotsOf } from "../slot-store.ts";
import { type Database, toQuery } from "./database.ts";
import type { PostgresValue } from "./parameters.ts";

/** Slots of users in PostgreSQL, by functions of the database that `004-slots.ts` makes. */
export class PostgresSlots implements SlotStore {
  readonly #database: Database;
  readonly #tell: (kind: SlotKind, userId: string) => void;
  readonly #listeners: ((kind: SlotKind, userId: string) => void)[] = [];

  /** `tell` tells other nodes that a slot is free. */
  constructor(database: Database, tell: (kind: SlotKind, userId: string) => void) {
    this.#database = database;
    this.#tell = tell;
  }

  share({ kind, userId, node, max }: SlotsOf, holder?: string, options?: { force: boolean }) {
    const values = [kind, userId, node, max, holder ?? null, options?.force ?? false];
    return this.#run<SlotPlace>(
      "SELECT holder, place AS position FROM share_slots_1($1, $2, $3, $4, $5, $6)",
      values,
    );
  }

  async free({ kind, userId, node }: Pick<SlotsOf, "kind" | "userId" | "node">, holder: string) {
    await this.#run("DELETE FROM slots WHERE kind = $1 AND holder = $2 AND node = $3", [kind, holder, node]);
    this.#tell(kind, userId);
  }

  async usersWaiting({ kind, node }: Pick<SlotsOf, "kind" | "node">): Promise<string[]> {
    const sql = `SELECT DISTINCT user_id FROM slots s WHERE kind = $1 AND NOT taken AND node <> $2
      AND asked_at < clock_timestamp() - interval '1 second'`;
    return (await this.#run<{ user_id: string }>(sql, [kind, node])).map(({ user_id: id }) => id);
  }

  async shouldFree({ kind, userId, node, max }: SlotsOf): Promise<boolean> {
    const sql = "SELECT ask_for_slot_1($1, $2, $3, $4) AS answer";
    return (await this.#run<{ answer: boolean }>(sql, [kind, userId, node, max]))[0]!.answer;
  }

  onFreed(listener: (kind: SlotKind, userId: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Passes the notice of another node on. */
  heard(kind: SlotKind, userId: string): void {
    for (const listener of this.#listeners) listener(kind, userId);
  }

  #run<Row>(sql: string, values: readonly PostgresValue[]): Promise<Row[]> {
    return this.#database.use(
      async (connection) => (await connection.query(toQuery(sql, values, true))).rows as Row[],
    );
  }
}
