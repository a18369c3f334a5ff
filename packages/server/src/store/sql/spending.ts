import type { SpendingStore } from "../user-store.ts";
import type { SqlContext } from "./context.ts";

/** Reads the sums that appends update with each `stats` record. */
export class SqlSpending implements SpendingStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async getSpent(userId: string, day: string): Promise<number> {
    const sql = "SELECT sum(usd) AS usd FROM spending WHERE user_id = ? AND day = ?";
    return (await this.#context.reader.get<{ usd: number | null }>(sql, userId, day))?.usd ?? 0;
  }
}
