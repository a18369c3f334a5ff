import type { Hooks } from "@sandpiper/agent/hooks/hooks";
import { type ActContext, act, interruptedResult } from "@sandpiper/agent/loop/acting";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { approvedBegin, transition } from "@sandpiper/agent/loop/status";
import type { OutputMask } from "@sandpiper/agent/masking/output-mask";
import { getRuleName } from "@sandpiper/agent/skills/path-rules";
import type { ToolContext } from "@sandpiper/agent/tools/tool";
import { abortable } from "@sandpiper/core/abortable";
import type { Action, ActionEvent, TextContent } from "@sandpiper/wire";
import type { Toolset } from "../agent/toolset.ts";
import { rejectActions, unansweredReason } from "../log/rejections.ts";
import type { RunAgent } from "./run-agent.ts";
import type { RunLog } from "./run-log.ts";
import { addProgress, type RunProgress } from "./run-progress.ts";
import type { RunProject } from "./run-project.ts";
import type { RunTurn } from "./run-turn.ts";

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

export interface RunActionsDeps {
  log: Pick<RunLog, "append" | "follower" | "observations" | "publishAgentState" | "requireOwner">;
  agent: Pick<RunAgent, "concurrency">;
  project: Pick<RunProject, "rulesFor">;
  /** `signal` ends the actions. */
  tools: Pick<RunTools, "context" | "loss" | "mask" | "toolset"> & { signal: AbortSignal };
  hooks: Hooks;
  turn: Pick<RunTurn, "hasUnseenMessage" | "noteRead">;
}

/** The actions of one run: what they act with, and those that an earlier run left open. */
export class RunActions {
  readonly #deps: RunActionsDeps;
  /** Ids of the actions that this run has begun. */
  readonly #begun = new Set<string>();
  /** Names of the path rules in results of this run. */
  readonly #sentRules = new Set<string>();
  #progress: RunProgress | undefined;

  constructor(deps: RunActionsDeps) {
    this.#deps = deps;
  }

  /** The progress of the running call, with the end of all that it printed. */
  get progress(): RunProgress | undefined {
    const { isReady, state } = this.#deps.log.follower;
    return isReady && this.#progress && state.openActions.has(this.#progress.tool_call_id)
      ? this.#progress
      : undefined;
  }

  /** The results of the open actions of a run that ends. */
  interrupt(): NewRecord[] {
    const { openActions } = this.#deps.log.follower.state;
    return [...openActions.values()].map((event) =>
      interruptedResult(event, { begun: this.#begun.has(event.id) }),
    );
  }

  /**
   * Settles the actions that an earlier run left open. Approved and idempotent ones run now;
   * unanswered ones are rejected; the others were interrupted. Actions that were paused while they
   * began to wait, wait again.
   */
  async settleOpen(): Promise<void> {
    const { log, turn } = this.#deps;
    const { state } = log.follower;
    if ([...state.openActions.values()].some(({ id }) => state.waiting.has(id))) {
      await log.append(transition(state.status, "awaitApproval"));
      return;
    }
    // A finish ends the turn, unless the model had not read the newest message.
    turn.noteRead(state.readSeq);
    const context = await this.context();
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
    if (rejected.length > 0) await log.append(rejected);
    const left = open.filter((event) => state.openActions.has(event.tool_call_id));
    for (const event of left)
      if (!canRun(event)) await log.append([interruptedResult(event, { begun: true, loss })]);
    const repeated = new Set(left.map(({ id }) => id).filter((id) => !approved.has(id)));
    // After this record no later run begins the approved actions again.
    if (approved.size > 0) await log.append([approvedBegin(state.leafEventId!)]);
    await act(left.filter(canRun), { ...context, repeated });
    turn.noteRead(state.seq);
  }

  /** What the actions of the next step act with. */
  async context(): Promise<ActContext> {
    const { agent, hooks, log, tools, turn } = this.#deps;
    const { context, signal } = tools;
    const [available, mask] = await Promise.all([tools.toolset.tools, tools.mask()]);
    return {
      tools: available,
      hooks,
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
      hasUnseenMessage: () => hooks.holdsEnd || turn.hasUnseenMessage,
      onProgress: ({ tool_call_id, tool_name }, progress) => {
        const tool_progress = { tool_call_id, tool_name, ...progress };
        this.#progress = addProgress(this.#progress, tool_progress);
        log.publishAgentState({ tool_progress });
      },
      rulesFor: (action) => this.#rulesFor(action),
    };
  }

  /** Each rule is sent once per conversation, also by concurrent calls. */
  async #rulesFor(action: Action): Promise<TextContent[]> {
    const { project, log } = this.#deps;
    const known = this.#sentRules.union(log.follower.state.pathRules);
    const rules = await project.rulesFor(action, known);
    // Another call may have sent some of the rules during the read.
    const unsent = rules.filter(({ text }) => !this.#sentRules.has(getRuleName(text)!));
    for (const { text } of unsent) this.#sentRules.add(getRuleName(text)!);
    return unsent;
  }
}
