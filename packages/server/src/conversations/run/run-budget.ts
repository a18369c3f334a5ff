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

  constructor(deps: RunBudgetDeps, row: ConversationRow) {
    this.#deps = deps;
    this.#first = row;
    this.usd = lower(deps.settings.agent(row.userId).maxBudgetPerTask, row.config.maxBudget ?? null);
  }

  /** Which budget is spent, and the message for the user; `stats`: the conversation's metrics. */
  findSpent(stats: Stats): { code: string; detail: string } | undefined {
    const { usd } = this;
    if (usd !== null && getOwnCost(stats) + this.#sumSiblingSpend() >= usd)
      return { code: "MaxBudgetReached", detail: `The conversation reached its budget of ${usd} USD.` };
    const exhausted = this.#deps.dailyBudget.getExhaustedReason(this.#first.userId);
    return exhausted === undefined ? undefined : { code: "DailyBudgetReached", detail: exhausted };
  }

  /** USD that the parent and its other sub-agents have spent: one budget covers all of them. */
  #sumSiblingSpend(): number {
    const { conversations } = this.#deps.store;
    const row = conversations.get(this.#first.id) ?? this.#first;
    const root = row.config.task ? row.parentId : row.id;
    if (!root) return 0;
    const family = [root, ...(conversations.listChildren([root]).get(root) ?? [])];
    let sum = 0;
    for (const id of family) {
      const other = id === row.id ? undefined : conversations.get(id);
      if (!other || (id !== root && !other.config.task)) continue;
      const { stats, metrics } = other.summary;
      sum += stats ? getOwnCost(stats) : (metrics?.accumulated_cost ?? 0);
    }
    return sum;
  }
}

function lower(first: number | null, second: number | null): number | null {
  return first === null || second === null ? (first ?? second) : Math.min(first, second);
}
