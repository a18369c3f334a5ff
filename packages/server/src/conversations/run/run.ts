import { type Hooks, stopHookText } from "@sandpiper/agent/hooks/hooks";
import { type ActContext, act, interruptedResult } from "@sandpiper/agent/loop/acting";
import { maxReportedOutput } from "@sandpiper/agent/loop/progress-reporter";
import { listed, nudge } from "@sandpiper/agent/loop/records";
import { approvedBegin, failure, transition } from "@sandpiper/agent/loop/status";
import { type StepContext, step } from "@sandpiper/agent/loop/step";
import { judgeStuck } from "@sandpiper/agent/loop/stuck";
import type { OutputMask } from "@sandpiper/agent/masking/output-mask";
import { getRuleName } from "@sandpiper/agent/skills/path-rules";
import { toolRegistry } from "@sandpiper/agent/tools/registry";
import type { ToolContext } from "@sandpiper/agent/tools/tool";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Model } from "@sandpiper/models/model";
import type { Action, ActionEvent, MessageEvent, TextContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import { isPassing } from "../../store/is-passing.ts";
import type { Toolset } from "../agent/toolset.ts";
import { isMoved } from "../custody.ts";
import type { LogFollower } from "../log/follower.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import { pickFacts } from "../log/state.ts";
import type { RunAgent } from "./run-agent.ts";
import type { RunBudget } from "./run-budget.ts";
import { RunCondensing } from "./run-condensing.ts";
import type { RunLog } from "./run-log.ts";
import type { RunProgress } from "./run-progress.ts";
import type { RunProject } from "./run-project.ts";

/** Why a run is aborted. After `shutdown` the next process continues it. */
export type AbortCause = "interrupt" | "shutdown" | "removed" | "paused";

/** Maximum number of times that Stop hooks can continue one run. */
const maxHeldEnds = 10;

export interface RunDeps {
  row: ConversationRow;
  log: RunLog;
  agent: RunAgent;
  project: RunProject;
  budget: RunBudget;
  tools: RunTools;
}

/** What the actions of a run are executed with. */
export interface RunTools {
  toolset: Toolset;
  context: Omit<ToolContext, "signal" | "actionId">;
  /** Opens the shell before the first command, where that starts no sandbox. Never rejects. */
  warm(signal: AbortSignal): Promise<void>;
  /** Called for each batch of actions, because secrets may be added. */
  mask(): Promise<OutputMask>;
  /** Text for the model: what is lost with the sandbox's machine; undefined: nothing is lost. */
  loss: string | undefined;
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
  readonly #condensing: RunCondensing;
  readonly #hooks: Hooks;
  #heldEnds = 0;
  #isStuck = false;
  #handsOver = false;
  #progress: RunProgress | undefined;
  /** Ids of the actions that this run has begun. */
  readonly #begun = new Set<string>();
  /** Names of the path rules in results of this run. */
  readonly #sentRules = new Set<string>();
  /** The model has read up to this sequence number. */
  #readSeq = 0;

  constructor(deps: RunDeps) {
    const { row, log, agent, project, budget, tools } = deps;
    const { signal } = this.#abort;
    this.#deps = deps;
    this.follower = log.follower;
    log.onLost = () => this.abort("shutdown");
    this.#hooks = project.openHooks({
      sandbox: () => abortable(tools.context.sandbox(), signal),
      openModel: async (usageId) => log.calls.sideCall(await agent.openModel(), usageId),
      mask: () => tools.mask(),
      append: (records) => log.append(records),
      signal,
    });
    this.#condensing = new RunCondensing({ userId: row.userId, log, agent, budget: budget.usd, signal });
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
    const { isReady, state } = this.follower;
    return isReady && this.#progress && state.openActions.has(this.#progress.tool_call_id)
      ? this.#progress
      : undefined;
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
      await this.#loop();
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

  async #loop(): Promise<void> {
    const { state } = this.follower;
    const { row, log, agent, budget, project } = this.#deps;
    const { toolset } = this.#deps.tools;
    // Woken only to condense: waiting actions keep waiting.
    const { status } = state;
    if (status === "running" && state.openActions.size === 0) void this.#deps.tools.warm(this.#abort.signal);
    const notes = status === "running" ? await toolset.prepare(this.#abort.signal) : [];
    if (!state.initialised) await this.#initialise();
    if (status !== "running") {
      const spent = await budget.findSpent(state.stats);
      return this.#condensing.onRequest(spent?.detail);
    }
    const records = [...(await project.notices()), ...notes.map(nudge)];
    if (records.length > 0) await log.append(records);
    await this.#hooks.sessionStart();
    await this.#settleOpenActions();

    const { maxIterations } = row.config;
    for (let iteration = 0; ; iteration++) {
      // Hundreds of runs may continue at once when their results become durable.
      await log.scheduler.nextTurn("iterations");
      if (state.status === "finished" && this.#hasUnseenMessage()) {
        await this.#deps.log.append(transition(state.status, "reopen"));
      }
      if (state.status !== "running" || state.lastUserMessageSeq === 0) break;
      this.#abort.signal.throwIfAborted();
      if (this.#handsOver) return;
      log.requireOwner();
      if (state.turnOver && this.#hooks.holdsEnd && !this.#hasUnseenMessage() && (await this.#checkEnd()))
        continue;

      if (iteration >= maxIterations) {
        await this.#deps.log.append(
          failure("MaxIterationsReached", `The run reached its limit of ${maxIterations} iterations.`),
        );
        break;
      }
      const spent = await budget.findSpent(state.stats);
      // A user may have paused the run during the read.
      if (state.status !== "running") continue;
      if (spent) {
        await this.#deps.log.append(failure(spent.code, spent.detail));
        break;
      }
      const model = log.calls.agent(await agent.openModel());
      if (await this.#condensing.beforeStep(model)) continue;
      const verdict = row.config.stuckDetection === false ? "fine" : judgeStuck(this.follower.recent);
      if (verdict === "stuck") {
        await this.#deps.log.append(transition(state.status, "repetition"));
        break;
      }
      if (verdict === "nudge")
        await this.#deps.log.append([nudge("The same call failed three times. Change what you do.")]);
      const context = await this.#stepContext(model);
      // Nothing is awaited between the check of the messages and the call that reads them.
      if (!(await this.#checkMessages()) && iteration === 0) {
        this.#readSeq = state.seq;
        await this.#deps.log.append(transition(state.status, "finish"));
        continue;
      }
      this.#readSeq = state.seq;
      try {
        await step(context);
      } catch (error) {
        this.#abort.signal.throwIfAborted();
        await this.#condensing.recover(error, model);
        continue;
      }
      this.#condensing.noteSuccess(model);
      // The actions wait for the user. If the answer is already there, the next run acts on it.
      if (state.openActions.size > 0) return;
    }
    // A run without any user message has nothing to do.
    if (state.status === "running" && state.lastUserMessageSeq === 0) {
      await this.#deps.log.append(transition(state.status, "nothingToDo"));
    }
  }

  async #initialise(): Promise<void> {
    const { log, project, tools } = this.#deps;
    const prompt = await project.systemPrompt(await tools.toolset.tools);
    // The first message may have brought its own system prompt.
    if (!this.follower.state.initialised) await log.append([listed(prompt)]);
  }

  /** Each rule is sent once per conversation, also by concurrent calls. */
  async #rulesFor(action: Action): Promise<TextContent[]> {
    const known = this.#sentRules.union(this.follower.state.pathRules);
    const rules = await this.#deps.project.rulesFor(action, known);
    // Another call may have sent some of the rules during the read.
    const unsent = rules.filter(({ text }) => !this.#sentRules.has(getRuleName(text)!));
    for (const { text } of unsent) this.#sentRules.add(getRuleName(text)!);
    return unsent;
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
    await this.#deps.log.append([
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
      await this.#deps.log.append(transition(state.status, "awaitApproval"));
      return;
    }
    // A finish ends the turn, unless the model had not read the newest message.
    this.#readSeq = state.readSeq;
    const context = await this.#actContext();
    const { loss } = this.#deps.tools;
    const { approved } = state;
    const isUnanswered = ({ id }: ActionEvent) => state.unanswered.has(id);
    const goesOn = ({ tool_name, action }: ActionEvent) => {
      const { idempotent, continues } = context.tools.find(({ name }) => name === tool_name) ?? {};
      return idempotent === true || (loss === undefined && action != null && continues?.(action) === true);
    };
    const canRun = (event: ActionEvent) =>
      event.action && (approved.has(event.id) || (goesOn(event) && !isUnanswered(event)));
    const open = [...state.openActions.values()];
    const rejected = rejectActions(open.filter(isUnanswered), unansweredReason);
    if (rejected.length > 0) await this.#deps.log.append(rejected);
    const left = open.filter((event) => state.openActions.has(event.tool_call_id));
    for (const event of left)
      if (!canRun(event)) await this.#deps.log.append([interruptedResult(event, { begun: true, loss })]);
    const repeated = new Set(left.map(({ id }) => id).filter((id) => !approved.has(id)));
    // After this record no later run begins the approved actions again.
    if (approved.size > 0) await this.#deps.log.append([approvedBegin(state.leafEventId!)]);
    await act(left.filter(canRun), { ...context, repeated });
    this.#readSeq = state.seq;
  }

  #keepProgress(next: RunProgress): void {
    const before = this.#progress?.tool_call_id === next.tool_call_id ? this.#progress : undefined;
    const output = ((before?.output ?? "") + (next.output ?? "")).slice(-maxReportedOutput);
    const output_end = next.output_end ?? before?.output_end;
    this.#progress = { ...next, ...(output_end !== undefined && { output, output_end }) };
  }

  async #actContext(): Promise<ActContext> {
    const { agent, log } = this.#deps;
    const { toolset, context } = this.#deps.tools;
    const { signal } = this.#abort;
    const [tools, mask] = await Promise.all([toolset.tools, this.#deps.tools.mask()]);
    return {
      tools,
      hooks: this.#hooks,
      mask,
      concurrency: agent.concurrency,
      toolContext: {
        ...context,
        // The preparation of a sandbox may take minutes.
        sandbox: () => abortable(context.sandbox(), signal),
        terminal: () => abortable(context.terminal(), signal),
        browser: () => abortable(context.browser(), signal),
        earlier: () => log.observations(),
        signal,
      },
      append: (records) => log.append(records),
      onStart: (actionId) => {
        log.requireOwner();
        this.#begun.add(actionId);
      },
      hasUnseenMessage: () => this.#hooks.holdsEnd || this.#hasUnseenMessage(),
      onProgress: ({ tool_call_id, tool_name }, progress) => {
        const tool_progress = { tool_call_id, tool_name, ...progress };
        this.#keepProgress(tool_progress);
        log.publishAgentState({ tool_progress });
      },
      rulesFor: (action) => this.#rulesFor(action),
    };
  }

  async #stepContext(model: Model): Promise<StepContext> {
    const { agent, budget, log } = this.#deps;
    const [context, { streams, policy, analyzer }] = await Promise.all([this.#actContext(), agent.rules()]);
    return {
      ...context,
      model,
      view: this.follower.view,
      scheduler: log.scheduler,
      policy,
      analyzer,
      budget: budget.usd,
      get stats() {
        return log.stats;
      },
      onDelta: (delta) => {
        if (streams) log.addDelta(delta);
      },
      onRetry: (notice) => log.publishRetry(notice),
    };
  }

  #hasUnseenMessage(): boolean {
    return this.follower.state.lastUserMessageSeq > this.#readSeq;
  }

  async #end(error: unknown): Promise<boolean> {
    const cause = this.#abort.signal.aborted ? (this.#abort.signal.reason as AbortCause) : undefined;
    if (cause === "shutdown" || cause === "removed") return false;
    // The pause is in the log, and no action had begun.
    if (cause === "paused" && this.follower.state.openActions.size === 0) return true;
    const settleOpen = () =>
      [...this.follower.state.openActions.values()].map((event) =>
        interruptedResult(event, { begun: this.#begun.has(event.id) }),
      );
    // The run itself is sound: this server tries it again, or another node continues it.
    if (isPassing(error) || isMoved(error)) return false;
    if (cause === "interrupt") {
      await this.#deps.log.append([...settleOpen(), ...transition(this.follower.state.status, "interrupt")]);
      return true;
    }
    const code = error instanceof PlatformError ? error.code : "InternalError";
    const detail = error instanceof PlatformError ? error.message : `The run failed: ${errorText(error)}`;
    const mask = await this.#deps.tools.mask();
    await this.#deps.log.append([...settleOpen(), ...failure(code, mask.text(detail))]);
    return true;
  }
}
