import { transition } from "@sandpiper/agent/loop/status";
import { type StepContext, step } from "@sandpiper/agent/loop/step";
import type { Model } from "@sandpiper/models/model";
import type { RunActions } from "./run-actions.ts";
import type { RunAgent } from "./run-agent.ts";
import type { RunCondensing } from "./run-condensing.ts";
import type { RunLimits } from "./run-limits.ts";
import type { RunLog } from "./run-log.ts";
import type { RunTurn } from "./run-turn.ts";

export interface RunStepsDeps {
  log: RunLog;
  agent: Pick<RunAgent, "openModel" | "rules">;
  turn: RunTurn;
  actions: Pick<RunActions, "context">;
  condensing: RunCondensing;
  limits: RunLimits;
}

/** The steps of one run. */
export class RunSteps {
  readonly #deps: RunStepsDeps;

  constructor(deps: RunStepsDeps) {
    this.#deps = deps;
  }

  /**
   * Steps until nothing is left to do, or `mayStep`, which is asked before each step, returns
   * false. Throws what `mayStep` throws, and what ends the run.
   */
  async run(mayStep: () => boolean): Promise<void> {
    const { log, agent, turn, condensing, limits } = this.#deps;
    const { state } = log.follower;
    for (let iteration = 0; ; iteration++) {
      // Hundreds of runs may continue at once when their results become durable.
      await log.scheduler.nextTurn("iterations");
      if (state.status === "finished" && turn.hasUnseenMessage)
        await log.append(transition(state.status, "reopen"));
      if (state.status !== "running" || state.lastUserMessageSeq === 0) break;
      if (!mayStep()) return;
      if (await turn.endIfOver()) continue;

      const reached = await limits.findReached(iteration);
      // A user may have paused the run during the read.
      if (state.status !== "running") continue;
      if (reached) {
        await log.append(reached);
        break;
      }
      const model = log.calls.agent(await agent.openModel());
      if (await condensing.beforeStep(model)) continue;
      const repetition = limits.judgeRepetition();
      if (repetition) await log.append(repetition.records);
      if (repetition?.ends) break;
      const context = await this.#context(model);
      // Nothing is awaited between the check of the messages and the call that reads them.
      if (!(await turn.checkMessages()) && iteration === 0) {
        turn.noteRead(state.seq);
        await log.append(transition(state.status, "finish"));
        continue;
      }
      turn.noteRead(state.seq);
      try {
        await step(context);
      } catch (error) {
        await condensing.recover(error, model);
        continue;
      }
      condensing.noteSuccess(model);
      // The actions wait for the user. If the answer is already there, the next run acts on it.
      if (state.openActions.size > 0) return;
    }
    // A run without any user message has nothing to do.
    if (state.status === "running" && state.lastUserMessageSeq === 0)
      await log.append(transition(state.status, "nothingToDo"));
  }

  async #context(model: Model): Promise<StepContext> {
    const { agent, actions, limits, log } = this.#deps;
    const [context, { streams, policy, analyzer }] = await Promise.all([actions.context(), agent.rules()]);
    return {
      ...context,
      model,
      view: log.follower.view,
      scheduler: log.scheduler,
      policy,
      analyzer,
      budget: limits.usd,
      get stats() {
        return log.stats;
      },
      onDelta: (delta) => {
        if (streams) log.addDelta(delta);
      },
      onRetry: (notice) => log.publishRetry(notice),
    };
  }
}
