import type { Stats } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import { getOwnCost } from "../../store/summary.ts";
import type { Settings } from "../../users/api.ts";
import type { DailyBudget } from "../../users/daily-budget.ts";

export interface RunBudgetDeps {
  store: Pick<Store, "conversations">;
  settings: Pick<Settings, "agent">;
  dailyBudget: Pick<DailyBudget, "getExhaustedReason">;
}

/** The budgets of one run: of the conversation with its sub-agents, and of the user's day. */
export class RunBudget {
  /** USD; null: no limit. */
  readonly usd: number | null;
  readonly #deps: RunBudgetDeps;
  readonly #first: ConversationRow;

  private constructor(deps: RunBudgetDeps, row: ConversationRow, usd: number | null) {
    this.#deps = deps;
    this.#first = row;
    this.usd = usd;
  }

  /** Reads the limit of the conversation. */
  static async open(deps: RunBudgetDeps, row: ConversationRow): Promise<RunBudget> {
    const { maxBudgetPerTask } = await deps.settings.agent(row.userId);
    return new RunBudget(deps, row, lower(maxBudgetPerTask, row.config.maxBudget ?? null));
  }

  /** Which budget is spent, and the message for the user; `stats`: the conversation's metrics. */
  async findSpent(stats: Stats): Promise<{ code: string; detail: string } | undefined> {
    const { usd } = this;
    if (usd !== null && getOwnCost(stats) + (await this.#sumSiblingSpend()) >= usd)
      return { code: "MaxBudgetReached", detail: `The conversation reached its budget of ${usd} USD.` };
    const exhausted = await this.#deps.dailyBudget.getExhaustedReason(this.#first.userId);
    return exhausted === undefined ? undefined : { code: "DailyBudgetReached", detail: exhausted };
  }

  /** USD that the parent and its other sub-agents have spent: one budget covers all of them. */
  async #sumSiblingSpend(): Promise<number> {
    const { conversations } = this.#deps.store;
    const { id, config, parentId } = this.#first;
    const root = config.task ? parentId : id;
    if (!root) return 0;
    const children = (await conversations.listChildren([root])).get(root) ?? [];
    const others = [root, ...children].filter((other) => other !== id);
    const family = await Promise.all(others.map((other) => conversations.get(other)));
    let sum = 0;
    for (const row of family) {
      if (!row || (row.id !== root && !row.config.task)) continue;
      const { stats, metrics } = row.summary;
      sum += stats ? getOwnCost(stats) : (metrics?.accumulated_cost ?? 0);
    }
    return sum;
  }
}

function lower(first: number | null, second: number | null): number | null {
  return first === null || second === null ? (first ?? second) : Math.min(first, second);
}
