import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { nudge } from "@sandpiper/agent/loop/records";
import { failure, transition } from "@sandpiper/agent/loop/status";
import { judgeStuck } from "@sandpiper/agent/loop/stuck";
import type { ConversationConfig } from "../../store/conversation-store.ts";
import type { LogFollower } from "../log/follower.ts";
import type { RunBudget } from "./run-budget.ts";

export interface RunLimitsDeps {
  config: Pick<ConversationConfig, "maxIterations" | "stuckDetection">;
  budget: Pick<RunBudget, "findSpent" | "usd">;
  follower: Pick<LogFollower, "recent" | "state">;
}

/** What ends one run before its next step. */
export class RunLimits {
  readonly #deps: RunLimitsDeps;

  constructor(deps: RunLimitsDeps) {
    this.#deps = deps;
  }

  /** USD; null: no limit. */
  get usd(): number | null {
    return this.#deps.budget.usd;
  }

  /** The records of a limit that the run has reached after this number of iterations. */
  async findReached(iterations: number): Promise<NewRecord[] | undefined> {
    const { config, budget, follower } = this.#deps;
    const { maxIterations } = config;
    if (iterations >= maxIterations)
      return failure("MaxIterationsReached", `The run reached its limit of ${maxIterations} iterations.`);
    const spent = await budget.findSpent(follower.state.stats);
    return spent && failure(spent.code, spent.detail);
  }

  /**
   * The records that stop a model which repeats itself, or advise it; `ends`: they end the run.
   */
  judgeRepetition(): { ends: boolean; records: NewRecord[] } | undefined {
    const { config, follower } = this.#deps;
    const verdict = config.stuckDetection === false ? "fine" : judgeStuck(follower.recent);
    if (verdict === "stuck") return { ends: true, records: transition(follower.state.status, "repetition") };
    if (verdict === "nudge")
      return {
        ends: false,
        records: [nudge("The same call failed three times. Change what you do.")],
      };
    return undefined;
  }
}
