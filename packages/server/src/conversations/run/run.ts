import { isDeepStrictEqual } from "node:util";
import { type Hooks, stopHookText } from "@sandpiper/agent/hooks/hooks";
import { type ActContext, act, interruptedResult } from "@sandpiper/agent/loop/acting";
import type { LogRecord, NewRecord } from "@sandpiper/agent/loop/log-record";
import { listed, nudge, stateRecord, withUsage } from "@sandpiper/agent/loop/records";
import { failure, transition } from "@sandpiper/agent/loop/status";
import { type StepContext, step } from "@sandpiper/agent/loop/step";
import { judgeStuck } from "@sandpiper/agent/loop/stuck";
import { View } from "@sandpiper/agent/prompt/view";
import { getRuleName } from "@sandpiper/agent/skills/path-rules";
import { toolRegistry } from "@sandpiper/agent/tools/registry";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Model, RetryNotice } from "@sandpiper/models/model";
import { CallRecorder } from "@sandpiper/models/recording/recorder";
import type { Action, ActionEvent, MessageEvent, TextContent } from "@sandpiper/wire";
import { getOwnCost } from "../../store/summary.ts";
import { DeltaBuffer } from "../log/deltas.ts";
import { LogFollower } from "../log/follower.ts";
import { readObservations } from "../log/observation-history.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import { pickFacts } from "../log/state.ts";
import { presentAgentState } from "./full-state.ts";
import { RunCondensing } from "./run-condensing.ts";
import type { RunEnvironment } from "./run-environment.ts";

/** Why a run is aborted. After `shutdown` the next process continues it. */
export type AbortCause = "interrupt" | "shutdown" | "removed" | "paused";

/** Maximum number of times that Stop hooks can continue one run. */
const maxHeldEnds = 10;

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
  readonly #env: RunEnvironment;
  readonly #id: string;
  readonly #abort = new AbortController();
  readonly #deltas: DeltaBuffer;
  readonly #calls: CallRecorder;
  readonly #condensing: RunCondensing;
  readonly #hooks: Hooks;
  #heldEnds = 0;
  /** Ids of the actions that this run has begun. */
  readonly #begun = new Set<string>();
  /** Names of the path rules in results of this run. */
  readonly #sentRules = new Set<string>();
  /** The model has read up to this sequence number. */
  #readSeq = 0;

  constructor(env: RunEnvironment) {
    this.#env = env;
    this.#id = env.row.id;
    this.#deltas = new DeltaBuffer(env.hub, env.row.id);
    this.follower = new LogFollower(
      { events: env.store.events, scheduler: env.scheduler },
      env.row.id,
      new View(),
    );
    const { state } = this.follower;
    this.#calls = new CallRecorder({
      seq: () => state.seq,
      lastTools: env.store.modelCalls.lastTools(this.#id),
      scheduler: env.scheduler,
    });
    this.#hooks = env.openHooks({
      sandbox: () => abortable(env.toolContext.sandbox(), this.#abort.signal),
      openModel: (usageId) => this.#calls.sideCall(env.openModel(), usageId),
      mask: () => env.mask(),
      append: (records) => this.#append(records),
      signal: this.#abort.signal,
    });
    this.#condensing = new RunCondensing({
      userId: env.row.userId,
      follower: this.follower,
      options: () => env.condenser(),
      openCondenser: () => this.#calls.sideCall(env.openCondenser(), "condenser"),
      limits: env.contextLimits,
      signal: this.#abort.signal,
      append: (records) => this.#append(records),
      onRetry: (notice) => this.#publishRetry(notice),
      sideCallUsage: env.sideCallUsage,
      budget: env.budget,
    });
    this.done = this.#run().finally(async () => {
      // After a failure the next run stores them.
      if (this.follower.isReady) await env.keepFacts(pickFacts(this.follower.state)).catch(() => {});
      this.follower.close();
    });
  }

  abort(cause: AbortCause): void {
    this.#abort.abort(cause);
  }

  async #run(): Promise<boolean> {
    try {
      await this.follower.ready;
      this.#abort.signal.throwIfAborted();
      // HEAD may have been moved since the last run.
      toolRegistry.restore(this.#env.toolContext.memory, this.follower.state);
      await this.#loop();
      return true;
    } catch (error) {
      return await this.#end(error).catch(() => false);
    } finally {
      this.#deltas.flush();
    }
  }

  async #loop(): Promise<void> {
    const { state } = this.follower;
    const { toolset } = this.#env;
    // Woken only to condense: waiting actions keep waiting.
    const { status } = state;
    const notes = status === "running" ? await toolset.prepare(this.#abort.signal) : [];
    if (!state.initialised) {
      await this.#append([listed(this.#env.systemPrompt(toolset.tools))]);
    }
    if (status !== "running") return this.#condensing.onRequest(this.#findSpentBudget()?.detail);
    if (notes.length > 0) await this.#append(notes.map(nudge));
    await this.#hooks.sessionStart();
    await this.#settleOpenActions();

    const { maxIterations } = this.#env.row.config;
    for (let iteration = 0; ; iteration++) {
      // Hundreds of runs may continue at once when their results become durable.
      await this.#env.scheduler.nextTurn("iterations");
      if (state.status === "finished" && this.#hasUnseenMessage()) {
        await this.#append(transition(state.status, "reopen"));
      }
      if (state.status !== "running" || state.lastUserMessageSeq === 0) break;
      this.#abort.signal.throwIfAborted();
      if (state.turnOver && this.#hooks.holdsEnd && !this.#hasUnseenMessage() && (await this.#checkEnd()))
        continue;

      if (iteration >= maxIterations) {
        await this.#append(
          failure("MaxIterationsReached", `The run reached its limit of ${maxIterations} iterations.`),
        );
        break;
      }
      const spent = this.#findSpentBudget();
      if (spent) {
        await this.#append(failure(spent.code, spent.detail));
        break;
      }
      const model = this.#calls.agent(this.#env.openModel());
      if (await this.#condensing.beforeStep(model)) continue;
      const verdict =
        this.#env.row.config.stuckDetection === false ? "fine" : judgeStuck(this.follower.recent);
      if (verdict === "stuck") {
        await this.#append(transition(state.status, "repetition"));
        break;
      }
      if (verdict === "nudge")
        await this.#append([nudge("The same call failed three times. Change what you do.")]);
      if (!(await this.#checkMessages()) && iteration === 0) {
        this.#readSeq = state.seq;
        await this.#append(transition(state.status, "finish"));
        continue;
      }
      this.#readSeq = state.seq;
      try {
        await step(this.#stepContext(model));
      } catch (error) {
        this.#abort.signal.throwIfAborted();
        await this.#condensing.recover(error, model);
        continue;
      }
      this.#condensing.noteSuccess(model);
      // The actions wait for the user. If the answer is already there, the next run knows which are
      // approved.
      if (state.openActions.size > 0) return;
    }
    // A run without any user message has nothing to do.
    if (state.status === "running" && state.lastUserMessageSeq === 0) {
      await this.#append(transition(state.status, "nothingToDo"));
    }
  }

  /** Which budget is spent, and the message for the user. */
  #findSpentBudget(): { code: string; detail: string } | undefined {
    const { budget } = this.#env;
    if (budget !== null && getOwnCost(this.follower.state.stats) + this.#env.sumSiblingSpend() >= budget)
      return { code: "MaxBudgetReached", detail: `The conversation reached its budget of ${budget} USD.` };
    const exhausted = this.#env.dailyBudgetExhausted();
    return exhausted === undefined ? undefined : { code: "DailyBudgetReached", detail: exhausted };
  }

  /** Each rule is sent once per conversation, also by concurrent calls. */
  #rulesFor(action: Action): TextContent[] {
    const rules = this.#env.rulesFor(action, this.#sentRules.union(this.follower.state.pathRules));
    for (const { text } of rules) this.#sentRules.add(getRuleName(text)!);
    return rules;
  }

  /** Shows new messages to the hooks. False when they blocked all of them. */
  async #checkMessages(): Promise<boolean> {
    let blocked = 0;
    let admitted = 0;
    for (let next = this.#nextMessage(); next; next = this.#nextMessage()) {
      const verdict = await this.#hooks.userPrompt(next);
      if (verdict.blocked === undefined) admitted++;
      else blocked++;
    }
    return blocked === 0 || admitted > 0;
  }

  #nextMessage(): MessageEvent | undefined {
    return this.follower.state.unchecked.shift();
  }

  /**
   * Asks the Stop hooks whether the turn may end, and appends their decision. True when it ends.
   */
  async #checkEnd(): Promise<boolean> {
    const { blocked } = await this.#hooks.beforeStop();
    const ends = blocked === undefined || this.#heldEnds === maxHeldEnds;
    if (!ends) this.#heldEnds++;
    const last = `The Stop hooks asked ${maxHeldEnds} times to go on: the turn ends here.`;
    await this.#append([
      ...(blocked === undefined ? [] : [nudge(ends ? last : stopHookText(blocked))]),
      ...(ends ? transition(this.follower.state.status, "finish") : []),
    ]);
    return ends;
  }

  /**
   * Settles the actions that an earlier run left open. Approved and idempotent ones run now;
   * unanswered ones are rejected; the others were interrupted. Actions that were paused while they
   * began to wait, wait again.
   */
  async #settleOpenActions(): Promise<void> {
    const { state } = this.follower;
    if ([...state.openActions.values()].some(({ id }) => state.waiting.has(id))) {
      await this.#append(transition(state.status, "awaitApproval"));
      return;
    }
    // A finish ends the turn, unless the model had not read the newest message.
    this.#readSeq = state.readSeq;
    const context = this.#actContext();
    const { approved } = this.#env;
    const isUnanswered = ({ id }: ActionEvent) => state.unanswered.has(id) && !approved.has(id);
    const isIdempotent = (event: ActionEvent) =>
      context.tools.find(({ name }) => name === event.tool_name)?.idempotent === true;
    const canRun = (event: ActionEvent) =>
      event.action && (approved.has(event.id) || (isIdempotent(event) && !isUnanswered(event)));
    const open = [...state.openActions.values()];
    const rejected = rejectActions(open.filter(isUnanswered), unansweredReason);
    if (rejected.length > 0) await this.#append(rejected);
    const left = open.filter((event) => state.openActions.has(event.tool_call_id));
    for (const event of left)
      if (!canRun(event)) await this.#append([interruptedResult(event, { begun: true })]);
    await act(left.filter(canRun), context);
    this.#readSeq = state.seq;
  }

  #actContext(): ActContext {
    const { toolset, toolContext, concurrency } = this.#env;
    const { signal } = this.#abort;
    return {
      tools: toolset.tools,
      hooks: this.#hooks,
      mask: this.#env.mask(),
      concurrency,
      toolContext: {
        ...toolContext,
        // The preparation of a sandbox may take minutes.
        sandbox: () => abortable(toolContext.sandbox(), signal),
        terminal: () => abortable(toolContext.terminal(), signal),
        browser: () => abortable(toolContext.browser(), signal),
        earlier: () =>
          readObservations({ events: this.#env.store.events, scheduler: this.#env.scheduler }, this.#id),
        signal,
      },
      append: (records) => this.#append(records),
      onStart: (actionId) => this.#begun.add(actionId),
      hasUnseenMessage: () => this.#hooks.holdsEnd || this.#hasUnseenMessage(),
      onProgress: ({ tool_call_id, tool_name }, progress) =>
        this.#publishAgentState({ tool_progress: { tool_call_id, tool_name, ...progress } }),
      rulesFor: (action) => this.#rulesFor(action),
    };
  }

  #stepContext(model: Model): StepContext {
    const { budget, sideCallUsage } = this.#env;
    const { state, view } = this.follower;
    return {
      ...this.#actContext(),
      model,
      view,
      scheduler: this.#env.scheduler,
      policy: this.#env.policy(),
      analyzer: this.#env.analyzer(),
      budget,
      get stats() {
        return withUsage(state.stats, sideCallUsage);
      },
      onDelta: (delta) => this.#deltas.add(delta),
      onRetry: (notice) => this.#publishRetry(notice),
    };
  }

  #publishRetry({ attempt, delayMs, reason }: RetryNotice): void {
    this.#publishAgentState({ model_retry: { attempt, delay_ms: delayMs, reason } });
  }

  /**
   * Publishes an unstored `agent_state` frame. Clients replace the whole agent state by its value.
   */
  #publishAgentState(change: Record<string, unknown>): void {
    if (this.#env.hub.followers(this.#id) === 0) return;
    const { goal } = this.#env.store.conversations.get(this.#id)?.config ?? {};
    const value = { ...presentAgentState(goal), ...change };
    this.#env.hub.publishEvent(this.#id, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: "agent_state",
      value,
    });
  }

  #hasUnseenMessage(): boolean {
    return this.follower.state.lastUserMessageSeq > this.#readSeq;
  }

  #append(records: NewRecord[]): Promise<LogRecord[]> {
    this.#deltas.flush();
    const all = [...this.#unwrittenMetrics(records), ...records];
    return this.#env.store.events.append(this.#id, all, { calls: this.#calls.take() });
  }

  /**
   * The last records of a run include the metrics of side calls that no step has written, so that
   * clients see the final cost.
   */
  #unwrittenMetrics(records: readonly NewRecord[]): NewRecord[] {
    const { sideCallUsage } = this.#env;
    const { stats } = this.follower.state;
    const changes = new Map<string, unknown>();
    for (const { event } of records)
      if (event.kind === "ConversationStateUpdateEvent") changes.set(event.key, event.value);
    if ((changes.get("execution_status") ?? "running") === "running" || changes.has("stats")) return [];
    const isWritten = [...sideCallUsage].every(([usageId, metrics]) =>
      isDeepStrictEqual(stats.usage_to_metrics[usageId], metrics),
    );
    return isWritten ? [] : [stateRecord("stats", withUsage(stats, sideCallUsage))];
  }

  async #end(error: unknown): Promise<boolean> {
    const cause = this.#abort.signal.aborted ? (this.#abort.signal.reason as AbortCause) : undefined;
    if (cause === "shutdown" || cause === "removed") return false;
    // The pause is in the log, and no action had begun.
    if (cause === "paused" && this.follower.state.openActions.size === 0) return true;
    const open = [...this.follower.state.openActions.values()].map((event) =>
      interruptedResult(event, { begun: this.#begun.has(event.id) }),
    );
    // The run itself is fine and is tried again.
    if (error instanceof PlatformError && error.code === "StorageBusy") return false;
    if (cause === "interrupt") {
      await this.#append([...open, ...transition(this.follower.state.status, "interrupt")]);
      return true;
    }
    const code = error instanceof PlatformError ? error.code : "InternalError";
    const detail = error instanceof PlatformError ? error.message : `The run failed: ${errorText(error)}`;
    await this.#append([...open, ...failure(code, this.#env.mask().text(detail))]);
    return true;
  }
}
