import type { SpendingStore } from "../user-store.ts";
import type { StoreContext } from "./context.ts";

/** Reads the sums that the writer updates with each `stats` record. */
export class SqliteSpending implements SpendingStore {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async getSpent(userId: string, day: string): Promise<number> {
    const sql = "SELECT usd FROM spending WHERE user_id = ? AND day = ?";
    return this.#context.reader.get<{ usd: number }>(sql, userId, day)?.usd ?? 0;
  }
}
