import { isDeepStrictEqual } from "node:util";
import { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { UsageMetrics } from "@sandpiper/agent/loop/records";
import { PlatformError } from "@sandpiper/core/errors";
import type { ModelResponse } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Stats } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";
import type { DailyBudget } from "../../users/daily-budget.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import { Announcements } from "./announcements.ts";
import type { ConversationHooks } from "./conversation-hooks.ts";
import { Histories } from "./histories.ts";
import { type AbortCause, Run } from "./run.ts";
import { makeRunEnvironment, type RunEnvironmentDeps } from "./run-environment.ts";
import { RunQueue } from "./run-queue.ts";
import { endSession } from "./session-end.ts";
import { SideCallUsage } from "./side-call-usage.ts";
import type { Workspace } from "./workspace.ts";
import { Workspaces } from "./workspaces.ts";

/** How long a step that ends after a pause is waited for, ms. */
const maxRestWaitMs = 10_000;

/** Time for the hooks of sessions' ends, when a conversation is removed and when the server ends, ms. */
const sessionEndMs = { removal: 10_000, shutdown: 2_000 };

/** When a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

export interface RunnerDeps extends RunEnvironmentDeps {
  sandboxes: Sandboxes;
  settings: Settings;
  toolsets: Toolsets;
  knowledge: ProjectKnowledge;
  hooks: ConversationHooks;
  masks: OutputMasks;
  limits: RunLimits;
  /** Told when no run of a conversation goes on any more. */
  onRest?: (conversationId: string) => void;
}

/** What bounds the runs of each user. */
export interface RunLimits {
  /** Runs at a time; 0: no limit. */
  maxRuns: number;
  dailyBudget: DailyBudget;
}

/** Wakes conversations: at most one run of each at a time. */
export class Runner {
  readonly histories: Histories;
  readonly announcements: Announcements;
  readonly workspaces: Workspaces;
  readonly #deps: RunnerDeps;
  readonly #runs = new Map<string, Run>();
  readonly #queue: RunQueue;
  readonly #sideCallUsage: SideCallUsage;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Ids of the open actions that the user approved, by conversation, for its next run. */
  readonly #approved = new Map<string, ReadonlySet<string>>();
  /** Those who wait for the summaries of sleeping conversations. */
  readonly #condensations = new Map<string, (() => void)[]>();
  readonly #contextLimits = new ContextLimits();
  #closing = false;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
    this.histories = new Histories({ ...deps, follower: (id) => this.#runs.get(id)?.follower });
    this.announcements = new Announcements({
      ...deps,
      histories: this.histories,
      isAwake: (id) => this.isAwake(id),
    });
    this.#sideCallUsage = new SideCallUsage(deps.store.events);
    this.#queue = new RunQueue(deps.limits.maxRuns);
    this.workspaces = new Workspaces({
      ...deps,
      isAwake: (row) => this.#runs.has(row.id) || this.isWaiting(row),
      onUnload: (id) => this.#release(id),
    });
  }

  isAwake(conversationId: string): boolean {
    return this.#runs.has(conversationId);
  }

  /** Whether a run waits until others of the user have ended. */
  isWaiting({ userId, id }: Pick<ConversationRow, "userId" | "id">): boolean {
    return this.#queue.isWaiting(userId, id);
  }

  /** Waits a little for the end of what a run does after it was paused. Throws ConversationRunning where a run goes on. */
  async requireAtRest(conversationId: string): Promise<void> {
    const isRunning = () =>
      this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
    const run = this.#runs.get(conversationId);
    if (run && !isRunning()) {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([run.done, new Promise((resolve) => (timer = setTimeout(resolve, maxRestWaitMs)))]);
      clearTimeout(timer);
    }
    if (isRunning() || this.#runs.has(conversationId))
      throw new PlatformError(
        "ConversationRunning",
        "The conversation is running: pause it first, or interrupt it.",
      );
  }

  workspace(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): Workspace {
    return this.workspaces.getOrCreate(row);
  }

  /** As `Workspace.renewShell`, where the conversation has a shell. */
  async renewShell(conversationId: string): Promise<void> {
    await this.workspaces.get(conversationId)?.renewShell();
  }

  /** Lets the next run do the actions that are open now, and none that come later. Gives the function that takes it back. */
  approve(conversationId: string): () => void {
    this.#approved.set(
      conversationId,
      new Set(this.histories.openActions(conversationId).map(({ id }) => id)),
    );
    return () => void this.#approved.delete(conversationId);
  }

  /** Starts a run unless one goes on, which then sees by itself what is new in the log. Wakes the sandbox that a call of it waits for. */
  wake(conversationId: string): void {
    if (this.#closing) return;
    const current = this.#runs.get(conversationId);
    if (current) {
      this.workspaces.get(conversationId)?.pauseGate.open();
      // The sandbox may have been paused under a tool call, which cannot end then. If it fails to wake, the call tells why.
      if (current.follower.state.openActions.size > 0)
        void this.workspaces
          .get(conversationId)
          ?.sandbox()
          .catch(() => {});
      return;
    }
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return;
    const workspace = this.workspace(row);
    workspace.pauseGate.open();
    // A sub-agent works in the place of the agent that waits for it.
    if (!row.config.task && !this.#queue.acquire(row.userId, row.id)) return;
    const run = new Run(
      makeRunEnvironment(this.#deps, row, {
        contextLimits: this.#contextLimits,
        toolContext: workspace.toolContext(),
        sideCallUsage: this.#sideCallUsage.getPending(conversationId),
        approved: this.#approved.get(conversationId) ?? new Set(),
      }),
    );
    this.#approved.delete(conversationId);
    this.#runs.set(conversationId, run);
    this.announcements.announce(conversationId);
    const isForSummary = this.#condensations.has(conversationId);
    void run.done.then((complete) => {
      // A run that was ending has not seen what is asked for.
      const wantsSummary = !isForSummary && run.follower.view.condensationRequested;
      this.#onEnded(row, complete, run.follower.state.stats, wantsSummary);
    });
  }

  /** Wakes a sleeping conversation for the summary that its log asks for. Resolves when it rests again, with the summary or without. */
  condense(conversationId: string): Promise<void> {
    if (this.#closing) return Promise.resolve();
    return new Promise((resolve) => {
      this.#condensations.set(conversationId, [...(this.#condensations.get(conversationId) ?? []), resolve]);
      this.wake(conversationId);
      if (!this.#deps.store.conversations.get(conversationId)) this.#resolveCondensations(conversationId);
    });
  }

  #resolveCondensations(conversationId: string): void {
    const waiting = this.#condensations.get(conversationId) ?? [];
    this.#condensations.delete(conversationId);
    for (const resolve of waiting) resolve();
  }

  /** Adds a model call beside the run to the metrics of a conversation. */
  async addUsage(
    conversationId: string,
    usageId: string,
    model: string,
    response: ModelResponse,
  ): Promise<void> {
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return;
    const stats = this.histories.fullState(row).stats as Stats;
    this.#sideCallUsage.add(conversationId, usageId, model, response, stats);
    if (!this.#runs.has(conversationId)) await this.#sideCallUsage.write(conversationId, stats);
  }

  /** Lets the metrics of a conversation tell what one of its sub-agents has used. */
  setTaskMetrics(conversationId: string, usageId: string, metrics: UsageMetrics): void {
    const known =
      this.#deps.store.conversations.get(conversationId)?.summary.stats?.usage_to_metrics[usageId];
    if (!isDeepStrictEqual(known, metrics)) this.#sideCallUsage.set(conversationId, usageId, metrics);
  }

  /** Ends the model call of a run that was paused, where one goes on: nobody waits for its answer. What a tool does goes on when its sandbox does. */
  abortCall(conversationId: string): void {
    const run = this.#runs.get(conversationId);
    if (
      run?.follower.isReady &&
      run.follower.state.status === "paused" &&
      run.follower.state.openActions.size === 0
    )
      this.#abortRun(conversationId, run, "paused");
  }

  /** Cuts a run off and waits for its last record. */
  async abort(conversationId: string, cause: AbortCause): Promise<void> {
    const run = this.#runs.get(conversationId);
    if (run) this.#abortRun(conversationId, run, cause);
    await run?.done;
  }

  /** Forgets what is kept for a conversation while it is awake. */
  async remove(conversationId: string): Promise<void> {
    await this.abort(conversationId, "removed");
    await this.#endSession(conversationId, sessionEndMs.removal);
    this.#deps.hooks.drop(conversationId);
    const userId = this.#deps.store.conversations.get(conversationId)?.userId;
    if (userId !== undefined) this.#queue.release(userId, conversationId);
    this.#approved.delete(conversationId);
    this.#resolveCondensations(conversationId);
    this.#dropWorkspace(conversationId);
  }

  /** Whoever interrupts a command wants it ended, for which a paused sandbox has to wake. */
  #abortRun(conversationId: string, run: Run, cause: AbortCause): void {
    run.abort(cause);
    const workspace = this.workspaces.get(conversationId);
    if (cause === "interrupt") workspace?.pauseGate.open();
    else workspace?.pauseGate.cancel();
  }

  #endSession(conversationId: string, mostMs: number): Promise<void> {
    return endSession({ ...this.#deps, workspaces: this.workspaces }, conversationId, mostMs);
  }

  #dropWorkspace(conversationId: string): void {
    this.#release(conversationId);
    this.workspaces.remove(conversationId);
  }

  #release(conversationId: string): void {
    this.#deps.toolsets.drop(conversationId);
    this.#deps.masks.drop(conversationId);
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const id of [...this.#condensations.keys()]) if (!this.#runs.has(id)) this.#resolveCondensations(id);
    this.announcements.close();
    for (const timer of this.#timers) clearTimeout(timer);
    const runs = [...this.#runs];
    const timer = setTimeout(() => {
      for (const [id, run] of runs) this.#abortRun(id, run, "shutdown");
    }, graceMs);
    await Promise.all(runs.map(([, run]) => run.done));
    clearTimeout(timer);
    await Promise.all(
      this.#deps.hooks.listSessions().map((id) => this.#endSession(id, sessionEndMs.shutdown)),
    );
    this.workspaces.close();
  }

  #onEnded(
    { userId, id: conversationId }: ConversationRow,
    complete: boolean,
    stats: Stats,
    wantsSummary: boolean,
  ): void {
    this.#runs.delete(conversationId);
    this.#queue.release(userId, conversationId);
    // A message may have woken it while it was being deleted.
    if (!this.#deps.store.conversations.get(conversationId)) this.#dropWorkspace(conversationId);
    const goesOnForSummary =
      complete && wantsSummary && this.#condensations.has(conversationId) && !this.#closing;
    if (!goesOnForSummary) this.#resolveCondensations(conversationId);
    if (this.#closing) return;
    this.#wakeNext(userId);
    // A message or a run command that came while the run was ending is in the log, and the row shows it.
    const goesOn = () =>
      this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
    if (goesOnForSummary || (complete && goesOn())) return this.wake(conversationId);
    this.#sideCallUsage.write(conversationId, stats).catch(() => {});
    if (!complete && goesOn()) {
      // Its end could not be written, for example on a full disk: once it can, the run goes on.
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        if (goesOn()) this.wake(conversationId);
      }, retryMs);
      this.#timers.add(timer);
    }
    this.announcements.announceEnd(conversationId);
    this.#deps.toolsets.rest(conversationId);
    this.#deps.onRest?.(conversationId);
  }

  /** Gives free places to the conversations whose turn it is, and that were not stopped while they waited. */
  #wakeNext(userId: string): void {
    for (let id = this.#queue.next(userId); id !== undefined; id = this.#queue.next(userId)) {
      const isRunning = this.#deps.store.conversations.get(id)?.summary.executionStatus === "running";
      if (isRunning || this.#condensations.has(id)) this.wake(id);
      else this.#approved.delete(id);
    }
  }
}
