import { isDeepStrictEqual } from "node:util";
import { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
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
import { Histories } from "./histories.ts";
import type { HookSessions } from "./hook-sessions.ts";
import { type AbortCause, Run } from "./run.ts";
import { makeModelOpener, makeRunEnvironment, type RunEnvironmentDeps } from "./run-environment.ts";
import { RunQueue } from "./run-queue.ts";
import { SideCallUsage } from "./side-call-usage.ts";
import type { ConversationWorkspace } from "./workspace.ts";
import { Workspaces } from "./workspaces.ts";

/** Maximum wait for a paused run to end, ms. */
const maxRestWaitMs = 10_000;

/** Time for SessionEnd hooks, ms. */
const sessionEndMs = { removal: 10_000, shutdown: 2_000 };

/** Delay before a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

export interface RunnerDeps extends RunEnvironmentDeps {
  sandboxes: Sandboxes;
  settings: Settings;
  toolsets: Toolsets;
  knowledge: ProjectKnowledge;
  hooks: HookSessions;
  masks: OutputMasks;
  limits: RunLimits;
  /** Called when a conversation comes to rest. */
  onRest?: (conversationId: string) => void;
}

/** Limits for the runs of each user. */
export interface RunLimits {
  /** Maximum concurrent runs; 0: no limit. */
  maxRuns: number;
  dailyBudget: DailyBudget;
}

/** Runs awake conversations, at most one run per conversation. */
export class Runner {
  readonly histories: Histories;
  readonly announcements: Announcements;
  readonly workspaces: Workspaces;
  readonly #deps: RunnerDeps;
  readonly #runs = new Map<string, Run>();
  readonly #queue: RunQueue;
  readonly #sideCallUsage: SideCallUsage;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Ids of the approved open actions for the next run, by conversation. */
  readonly #approved = new Map<string, ReadonlySet<string>>();
  /** Callers that wait for a sleeping conversation to be condensed. */
  readonly #condensations = new Map<string, (() => void)[]>();
  readonly #contextLimits = new ContextLimits();
  #closing = false;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
    const { store, scheduler, hub, agents, knowledge, toolsets, sandboxes, settings } = deps;
    const follower = (id: string) => this.#runs.get(id)?.follower;
    this.histories = new Histories({ store, scheduler, agents, knowledge, toolsets, follower });
    const isAwake = (id: string) => this.isAwake(id);
    this.announcements = new Announcements({ store, hub, histories: this.histories, isAwake });
    this.#sideCallUsage = new SideCallUsage(store.events);
    this.#queue = new RunQueue(deps.limits.maxRuns);
    this.workspaces = new Workspaces({
      sandboxes,
      settings,
      isAwake: (row) => this.#runs.has(row.id) || this.isWaiting(row),
      onUnload: (id) => this.#release(id),
    });
  }

  isAwake(conversationId: string): boolean {
    return this.#runs.has(conversationId);
  }

  /** Whether its run waits for a slot. */
  isWaiting({ userId, id }: Pick<ConversationRow, "userId" | "id">): boolean {
    return this.#queue.isWaiting(userId, id);
  }

  /** Waits briefly for a paused run to end. Throws ConversationRunning while a run continues. */
  async requireAtRest(conversationId: string): Promise<void> {
    const run = this.#runs.get(conversationId);
    if (run && !this.#isRunning(conversationId)) {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([run.done, new Promise((resolve) => (timer = setTimeout(resolve, maxRestWaitMs)))]);
      clearTimeout(timer);
    }
    if (this.#isRunning(conversationId) || this.isAwake(conversationId)) throw new PlatformError("NotAtRest");
  }

  workspace(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): ConversationWorkspace {
    return this.workspaces.getOrCreate(row);
  }

  /** See `Workspace.renewShell`; does nothing without a workspace. */
  async renewShell(conversationId: string): Promise<void> {
    await this.workspaces.get(conversationId)?.renewShell();
  }

  /**
   * Approves the currently open actions for the next run. Returns a function that revokes the
   * approval.
   */
  approve(conversationId: string): () => void {
    this.#approved.set(
      conversationId,
      new Set(this.histories.openActions(conversationId).map(({ id }) => id)),
    );
    return () => void this.#approved.delete(conversationId);
  }

  /**
   * Starts a run. A current run reads new records by itself; its paused sandbox is woken if a call
   * waits for it.
   */
  wake(conversationId: string): void {
    if (this.#closing) return;
    const current = this.#runs.get(conversationId);
    if (current) {
      this.workspaces.get(conversationId)?.pauseGate.open();
      // The sandbox may be paused during a tool call. If it fails to wake, the call reports why.
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
    // A sub-agent uses the slot of its parent.
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
      // The ending run has not read a request that was appended last.
      const wantsSummary = !isForSummary && run.follower.view.condensationRequested;
      this.#onEnded(row, complete, run.follower.state.stats, wantsSummary);
    });
  }

  /**
   * Wakes a sleeping conversation to condense it. Resolves when it rests, with or without a
   * summary.
   */
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

  /** Adds a side call to the metrics of a conversation. */
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

  /** Sets what a sub-agent has used in the metrics of its parent. */
  setTaskMetrics(conversationId: string, usageId: string, metrics: UsageMetrics): void {
    const stored =
      this.#deps.store.conversations.get(conversationId)?.summary.stats?.usage_to_metrics[usageId];
    if (!isDeepStrictEqual(stored, metrics)) this.#sideCallUsage.set(conversationId, usageId, metrics);
  }

  /** Aborts the model call of a paused run. A tool call continues when its sandbox does. */
  abortCall(conversationId: string): void {
    const run = this.#runs.get(conversationId);
    if (
      run?.follower.isReady &&
      run.follower.state.status === "paused" &&
      run.follower.state.openActions.size === 0
    )
      this.#abortRun(conversationId, run, "paused");
  }

  /** Aborts a run and waits for its last record. */
  async abort(conversationId: string, cause: AbortCause): Promise<void> {
    const run = this.#runs.get(conversationId);
    if (run) this.#abortRun(conversationId, run, cause);
    await run?.done;
  }

  /** Ends the run of a conversation and drops its in-memory state. */
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

  /** An interrupt must reach the command, so it wakes a paused sandbox. */
  #abortRun(conversationId: string, run: Run, cause: AbortCause): void {
    run.abort(cause);
    const workspace = this.workspaces.get(conversationId);
    if (cause === "interrupt") workspace?.pauseGate.open();
    else workspace?.pauseGate.cancel();
  }

  /** Runs the SessionEnd hooks, if the conversation's sandbox is running. */
  async #endSession(conversationId: string, maxMs: number): Promise<void> {
    const { store, sandboxes, hooks, masks } = this.#deps;
    const row = store.conversations.get(conversationId);
    if (!row || !hooks.hasSessionEnd(row)) return;
    if (sandboxes.get(row.userId, row.sandboxId)?.status !== "RUNNING") return;
    const run = {
      sandbox: () => this.workspace(row).sandbox(),
      openModel: makeModelOpener(this.#deps, row),
      mask: () => masks.forConversation(row),
      append: (records: NewRecord[]) => store.events.append(conversationId, records),
      signal: AbortSignal.timeout(maxMs),
    };
    await hooks.endSession(row, run).catch(() => {});
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
    // A message may have woken the conversation during its removal.
    if (!this.#deps.store.conversations.get(conversationId)) this.#dropWorkspace(conversationId);
    const continuesForSummary =
      complete && wantsSummary && this.#condensations.has(conversationId) && !this.#closing;
    if (!continuesForSummary) this.#resolveCondensations(conversationId);
    if (this.#closing) return;
    this.#wakeNext(userId);
    // A message or run command that arrived while the run was ending is in the row's status.
    const asksForRun = this.#isRunning(conversationId);
    if (continuesForSummary || (complete && asksForRun)) return this.wake(conversationId);
    this.#sideCallUsage.write(conversationId, stats).catch(() => {});
    if (asksForRun) {
      // Its end could not be written, for example because the disk is full.
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        if (this.#isRunning(conversationId)) this.wake(conversationId);
      }, retryMs);
      this.#timers.add(timer);
    }
    this.announcements.announceEnd(conversationId);
    this.#deps.toolsets.rest(conversationId);
    this.#deps.onRest?.(conversationId);
  }

  #isRunning(conversationId: string): boolean {
    return this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
  }

  /** Starts the next waiting conversations, except those that were stopped meanwhile. */
  #wakeNext(userId: string): void {
    for (let id = this.#queue.next(userId); id !== undefined; id = this.#queue.next(userId)) {
      if (this.#isRunning(id) || this.#condensations.has(id)) this.wake(id);
      else this.#approved.delete(id);
    }
  }
}
