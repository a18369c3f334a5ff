import type { Hooks } from "@sandpiper/agent/hooks/hooks";
import { listed, nudge } from "@sandpiper/agent/loop/records";
import { failure, transition } from "@sandpiper/agent/loop/status";
import { toolRegistry } from "@sandpiper/agent/tools/registry";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { ConversationRow } from "../../store/conversation-store.ts";
import { isPassing } from "../../store/is-passing.ts";
import { isMoved } from "../custody.ts";
import type { LogFollower } from "../log/follower.ts";
import { pickFacts } from "../log/state.ts";
import { RunActions, type RunTools } from "./run-actions.ts";
import type { RunAgent } from "./run-agent.ts";
import type { RunBudget } from "./run-budget.ts";
import { RunCondensing } from "./run-condensing.ts";
import { RunLimits } from "./run-limits.ts";
import type { RunLog } from "./run-log.ts";
import type { RunProgress } from "./run-progress.ts";
import type { RunProject } from "./run-project.ts";
import { RunSteps } from "./run-steps.ts";
import { RunTurn } from "./run-turn.ts";

/** Why a run is aborted. After `shutdown` the next process continues it. */
export type AbortCause = "interrupt" | "shutdown" | "removed" | "paused";

export interface RunDeps {
  row: ConversationRow;
  log: RunLog;
  agent: RunAgent;
  project: RunProject;
  budget: RunBudget;
  tools: RunTools;
}

/**
 * One awake conversation: folds its log and steps until nothing is left to do (agent-behaviour.md
 * section 1).
 */
export class Run {
  /**
   * Resolves when the last record is durable; never rejects. True: the log is complete, so that a
   * status `running` asks for another run. False: the run was aborted or could not write its end.
   */
  readonly done: Promise<boolean>;
  readonly follower: LogFollower;
  readonly #deps: RunDeps;
  readonly #abort = new AbortController();
  readonly #hooks: Hooks;
  readonly #actions: RunActions;
  readonly #condensing: RunCondensing;
  readonly #steps: RunSteps;
  #isStuck = false;
  #handsOver = false;

  constructor(deps: RunDeps) {
    const { row, log, agent, project, budget, tools } = deps;
    const { signal } = this.#abort;
    this.#deps = deps;
    this.follower = log.follower;
    log.onLost = () => this.abort("shutdown");
    const hooks = project.openHooks({
      sandbox: () => abortable(tools.context.sandbox(), signal),
      openModel: async (usageId) => log.calls.sideCall(await agent.openModel(), usageId),
      mask: () => tools.mask(),
      append: (records) => log.append(records),
      signal,
    });
    const turn = new RunTurn({ log, hooks });
    const actions = new RunActions({ log, agent, project, tools: { ...tools, signal }, hooks, turn });
    const condensing = new RunCondensing({ userId: row.userId, log, agent, budget: budget.usd, signal });
    const limits = new RunLimits({ config: row.config, budget, follower: log.follower });
    this.#hooks = hooks;
    this.#actions = actions;
    this.#condensing = condensing;
    this.#steps = new RunSteps({ log, agent, turn, actions, condensing, limits });
    this.done = this.#run().finally(async () => {
      // After a failure the next run stores them.
      if (this.follower.isReady) await project.keepFacts(pickFacts(this.follower.state)).catch(() => {});
      this.follower.close();
    });
  }

  /** Why a summary that a client requested was not made. */
  get summaryFailure(): PlatformError | undefined {
    return this.#condensing.requestFailure;
  }

  /** The progress of the running call, with the end of all that it printed. */
  get progress(): RunProgress | undefined {
    return this.#actions.progress;
  }

  /** Its end cannot be written, now or later. */
  get isStuck(): boolean {
    return this.#isStuck;
  }

  /** Ends the run before its next step. */
  handOver(): void {
    this.#handsOver = true;
  }

  abort(cause: AbortCause): void {
    this.#abort.abort(cause);
  }

  async #run(): Promise<boolean> {
    try {
      await this.follower.ready;
      this.#abort.signal.throwIfAborted();
      // HEAD may have been moved since the last run.
      toolRegistry.restore(this.#deps.tools.context.memory, this.follower.state);
      await this.#work();
      return true;
    } catch (error) {
      return await this.#end(error).catch((failure: unknown) => {
        // Another attempt would fail in the same way.
        this.#isStuck = failure instanceof PlatformError && failure.code === "StorageQuotaReached";
        return false;
      });
    } finally {
      this.#deps.log.flushDeltas();
    }
  }

  async #work(): Promise<void> {
    const { state } = this.follower;
    const { log, budget, project, tools } = this.#deps;
    // Woken only to condense: waiting actions keep waiting.
    const { status } = state;
    if (status === "running" && state.openActions.size === 0) void tools.warm(this.#abort.signal);
    const notes = status === "running" ? await tools.toolset.prepare(this.#abort.signal) : [];
    if (!state.initialised) await this.#initialise();
    if (status !== "running") {
      const spent = await budget.findSpent(state.stats);
      return this.#condensing.onRequest(spent?.detail);
    }
    const records = [...(await project.notices()), ...notes.map(nudge)];
    if (records.length > 0) await log.append(records);
    await this.#hooks.sessionStart();
    await this.#actions.settleOpen();
    await this.#steps.run(() => this.#mayStep());
  }

  async #initialise(): Promise<void> {
    const { log, project, tools } = this.#deps;
    const prompt = await project.systemPrompt(await tools.toolset.tools);
    // The first message may have brought its own system prompt.
    if (!this.follower.state.initialised) await log.append([listed(prompt)]);
  }

  /** False when the run hands over. Throws the cause of an abort, and OwnershipLost. */
  #mayStep(): boolean {
    this.#abort.signal.throwIfAborted();
    if (this.#handsOver) return false;
    this.#deps.log.requireOwner();
    return true;
  }

  async #end(error: unknown): Promise<boolean> {
    const { log, tools } = this.#deps;
    const { state } = this.follower;
    const cause = this.#abort.signal.aborted ? (this.#abort.signal.reason as AbortCause) : undefined;
    if (cause === "shutdown" || cause === "removed") return false;
    // The pause is in the log, and no action had begun.
    if (cause === "paused" && state.openActions.size === 0) return true;
    // The run itself is sound: this server tries it again, or another node continues it.
    if (isPassing(error) || isMoved(error)) return false;
    if (cause === "interrupt") {
      await log.append([...this.#actions.interrupt(), ...transition(state.status, "interrupt")]);
      return true;
    }
    const code = error instanceof PlatformError ? error.code : "InternalError";
    const detail = error instanceof PlatformError ? error.message : `The run failed: ${errorText(error)}`;
    const mask = await tools.mask();
    await log.append([...this.#actions.interrupt(), ...failure(code, mask.text(detail))]);
    return true;
  }
}
