import type { SpendingStore } from "../store/user-store.ts";

const dayMs = 24 * 60 * 60 * 1000;

/** Limits the cost of a user's model calls per day (UTC). Calls in progress still finish. */
export class DailyBudget {
  readonly #spending: SpendingStore;
  readonly #usd: number;
  readonly #now: () => number;

  /** `usd` 0 means no limit; `now` returns milliseconds since the epoch. */
  constructor(spending: SpendingStore, usd: number, now: () => number = Date.now) {
    this.#spending = spending;
    this.#usd = usd;
    this.#now = now;
  }

  /** The message for a user whose budget is used up; undefined while some of it is left. */
  async getExhaustedReason(userId: string): Promise<string | undefined> {
    if (this.#usd === 0) return undefined;
    const now = this.#now();
    const spent = await this.#spending.getSpent(userId, new Date(now).toISOString().slice(0, 10));
    if (spent < this.#usd) return undefined;
    const tomorrow = new Date((Math.floor(now / dayMs) + 1) * dayMs).toISOString().replace(".000", "");
    return `Today's budget of ${this.#usd} USD for model calls is used up: send a message or run again from ${tomorrow} on.`;
  }
}
