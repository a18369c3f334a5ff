import { isDeepStrictEqual } from "node:util";
import type { ActionEvent, Stats } from "@sandpiper/wire";
import { ContextLimits } from "../agent/condenser/context-limits.ts";
import { forgettable } from "../agent/condenser/forgettable.ts";
import { maskedModel } from "../agent/masked-model.ts";
import type { UsageMetrics } from "../agent/records.ts";
import type { Tool } from "../agent/tool.ts";
import { View } from "../agent/view.ts";
import { PlatformError } from "../errors.ts";
import type { Model, ModelMessage, ModelResponse, OpenModel } from "../models/model.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { NewRecord } from "../store/event-log.ts";
import type { Store } from "../store/store.ts";
import type { Settings } from "../users/api.ts";
import type { DailyBudget } from "../users/daily-budget.ts";
import type { Agents } from "./agents.ts";
import type { ConversationHooks } from "./conversation-hooks.ts";
import { LogFollower } from "./follower.ts";
import { fullState } from "./full-state.ts";
import type { Hub } from "./hub.ts";
import type { Knowledge } from "./knowledge.ts";
import type { OutputMasks } from "./output-masks.ts";
import { noFacts } from "./project-context.ts";
import { type AbortCause, Run } from "./run.ts";
import { RunQueue } from "./run-queue.ts";
import { spentBeside } from "./shared-budget.ts";
import type { Toolsets } from "./toolset.ts";
import { UsageBeside } from "./usage-beside.ts";
import type { Workspace } from "./workspace.ts";
import { Workspaces } from "./workspaces.ts";

/**
 * How long after the end of a run its closing state is sent again, ms. The Python client arms its wait only after the answer
 * to its run call, so the first frame of a very short run comes too early for it (remote-clients.md section 4, rule 5).
 */
const repeatMs = 200;

/** How long a step that ends after a pause is waited for, ms. */
const restMs = 10_000;

/** Time for the hooks of sessions' ends, when a conversation is removed and when the server ends, ms. */
const sessionEndMs = { removal: 10_000, shutdown: 2_000 };

/** When a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

export interface RunnerDependencies {
  store: Store;
  hub: Hub;
  sandboxes: Sandboxes;
  settings: Settings;
  agents: Agents;
  toolsets: Toolsets;
  knowledge: Knowledge;
  hooks: ConversationHooks;
  masks: OutputMasks;
  openModel: OpenModel;
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
  readonly #deps: RunnerDependencies;
  readonly #runs = new Map<string, Run>();
  readonly #queue: RunQueue;
  readonly #workspaces: Workspaces;
  readonly #beside: UsageBeside;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Closing states that are to be sent again, by conversation. */
  readonly #repeats = new Map<string, NodeJS.Timeout>();
  /** Ids of the open actions that the user approved, by conversation, for its next run. */
  readonly #approved = new Map<string, ReadonlySet<string>>();
  /** Those who wait for the summaries of sleeping conversations. */
  readonly #summaries = new Map<string, (() => void)[]>();
  readonly #contextLimits = new ContextLimits();
  #closing = false;

  constructor(deps: RunnerDependencies) {
    this.#deps = deps;
    this.#beside = new UsageBeside(deps.store.events);
    this.#queue = new RunQueue(deps.limits.maxRuns);
    this.#workspaces = new Workspaces({
      ...deps,
      isAwake: (row) => this.#runs.has(row.id) || this.isWaiting(row),
      onUnload: (id) => this.#letGo(id),
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
  async atRest(conversationId: string): Promise<void> {
    const isRunning = () => this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
    const run = this.#runs.get(conversationId);
    if (run && !isRunning()) {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([run.done, new Promise((resolve) => (timer = setTimeout(resolve, restMs)))]);
      clearTimeout(timer);
    }
    if (isRunning() || this.#runs.has(conversationId))
      throw new PlatformError("ConversationRunning", "The conversation is running: pause it first, or interrupt it.");
  }

  /** Whether there is enough history for a summary. */
  async canCondense(row: Pick<ConversationRow, "id" | "userId" | "config">): Promise<boolean> {
    const { view, ready } = this.#followerOf(row);
    await ready;
    return forgettable(view, { keepFirst: this.#deps.agents.condenser(row)?.keepFirst ?? 0 }) !== undefined;
  }

  /** What the model reads of a conversation, up to its last complete answer. */
  async history(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): Promise<{
    system: string[];
    messages: ModelMessage[];
    tools: readonly Tool[];
  }> {
    const { view, ready } = this.#followerOf(row);
    await ready;
    return { system: [...view.system], messages: view.complete(), tools: this.#deps.toolsets.of(row).tools };
  }

  /** That of its run; else one that is read now, and not kept up to date. */
  #followerOf(row: Pick<ConversationRow, "id" | "userId" | "config">): LogFollower {
    const run = this.#runs.get(row.id);
    if (run) return run.follower;
    const follower = new LogFollower(this.#deps.store.events, row.id, new View());
    follower.close();
    return follower;
  }

  /** Actions without a result, in order. */
  openActions(conversationId: string): ActionEvent[] {
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return [];
    const follower = this.#followerOf(row);
    follower.finish();
    return [...follower.state.open.values()];
  }

  workspace(row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">): Workspace {
    return this.#workspaces.of(row);
  }

  /** As `Workspace.renewShell`, where the conversation has a shell. */
  async renewShell(conversationId: string): Promise<void> {
    await this.#workspaces.get(conversationId)?.renewShell();
  }

  /** Lets the next run do the actions that are open now, and none that come later. Gives the function that takes it back. */
  approve(conversationId: string): () => void {
    this.#approved.set(conversationId, new Set(this.openActions(conversationId).map(({ id }) => id)));
    return () => void this.#approved.delete(conversationId);
  }

  /** Starts a run unless one goes on, which then sees by itself what is new in the log. Wakes the sandbox that a call of it waits for. */
  wake(conversationId: string): void {
    if (this.#closing) return;
    const current = this.#runs.get(conversationId);
    if (current) {
      // The sandbox may have been paused under a tool call, which cannot end then. If it fails to wake, the call tells why.
      if (current.follower.state.open.size > 0)
        void this.#workspaces
          .get(conversationId)
          ?.sandbox()
          .catch(() => {});
      return;
    }
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return;
    const workspace = this.workspace(row);
    // A sub-agent works in the place of the agent that waits for it.
    if (!row.config.task && !this.#queue.enter(row.userId, row.id)) return;
    const { store, hub, settings, knowledge, hooks, limits, agents, toolsets, masks } = this.#deps;
    // Clients change it while a run goes on.
    const now = () => store.conversations.get(row.id) ?? row;
    const run = new Run({
      store,
      hub,
      toolset: toolsets.of(row),
      systemPrompt: (tools) => knowledge.systemPrompt(row, tools),
      row,
      openModel: this.#modelOf(row),
      openCondenser: () => {
        const { model, ...rest } = agents.condenserModel(now());
        return maskedModel(this.#deps.openModel({ model: model ?? "", ...rest }), masks.of(row));
      },
      condenser: () => agents.condenser(now()),
      contextLimits: this.#contextLimits,
      toolContext: workspace.toolContext(),
      policy: () => agents.policy(now()),
      analyzer: () => agents.analyzer(now()),
      keepFacts: (facts) => knowledge.contexts.keepFacts(row.id, facts),
      rulesFor: (action, known) => knowledge.rulesFor(row, action, known),
      openHooks: (parts) => hooks.of(row, parts),
      mask: () => masks.of(row),
      concurrency: agents.concurrency(row),
      budget: settings.agent(row.userId).maxBudgetPerTask,
      spentBeside: () => spentBeside(store.conversations, now()),
      dailyBudgetExhausted: () => limits.dailyBudget.exhausted(row.userId),
      beside: this.#beside.of(conversationId),
      approved: this.#approved.get(conversationId) ?? new Set(),
    });
    this.#approved.delete(conversationId);
    this.#runs.set(conversationId, run);
    this.announce(conversationId);
    const isForSummary = this.#summaries.has(conversationId);
    void run.done.then((complete) => {
      // A run that was ending has not seen what is asked for.
      const wantsSummary = !isForSummary && run.follower.view.condensationRequested;
      this.#ended(row, complete, run.follower.state.stats, wantsSummary);
    });
  }

  /** Wakes a sleeping conversation for the summary that its log asks for. Resolves when it rests again, with the summary or without. */
  summarise(conversationId: string): Promise<void> {
    if (this.#closing) return Promise.resolve();
    return new Promise((resolve) => {
      this.#summaries.set(conversationId, [...(this.#summaries.get(conversationId) ?? []), resolve]);
      this.wake(conversationId);
      if (!this.#deps.store.conversations.get(conversationId)) this.#summarised(conversationId);
    });
  }

  #summarised(conversationId: string): void {
    const waiting = this.#summaries.get(conversationId) ?? [];
    this.#summaries.delete(conversationId);
    for (const resolve of waiting) resolve();
  }

  /** Adds a model call beside the run to the metrics of a conversation. */
  async addUsage(conversationId: string, usageId: string, model: string, response: ModelResponse): Promise<void> {
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return;
    const stats = this.stateOf(row).stats as Stats;
    this.#beside.add(conversationId, usageId, model, response, stats);
    if (!this.#runs.has(conversationId)) await this.#beside.write(conversationId, stats);
  }

  /** Lets the metrics of a conversation tell what one of its sub-agents has used. */
  useTaskMetrics(conversationId: string, usageId: string, metrics: UsageMetrics): void {
    const known = this.#deps.store.conversations.get(conversationId)?.summary.stats?.usage_to_metrics[usageId];
    if (!isDeepStrictEqual(known, metrics)) this.#beside.set(conversationId, usageId, metrics);
  }

  /** Cuts a run off and waits for its last record. */
  async abort(conversationId: string, cause: AbortCause): Promise<void> {
    const run = this.#runs.get(conversationId);
    run?.abort(cause);
    await run?.done;
  }

  /** Forgets what is kept for a conversation while it is awake. */
  async forget(conversationId: string): Promise<void> {
    await this.abort(conversationId, "removed");
    await this.#endSession(conversationId, sessionEndMs.removal);
    this.#deps.hooks.drop(conversationId);
    const userId = this.#deps.store.conversations.get(conversationId)?.userId;
    if (userId !== undefined) this.#queue.leave(userId, conversationId);
    this.#approved.delete(conversationId);
    this.#summarised(conversationId);
    this.#dropWorkspace(conversationId);
  }

  /** Runs the hooks of a session's end, where its sandbox runs and as long as there is time. */
  async #endSession(conversationId: string, mostMs: number): Promise<void> {
    const { store, sandboxes, hooks, masks } = this.#deps;
    const row = store.conversations.get(conversationId);
    if (!row || !hooks.hasEnd(row) || sandboxes.get(row.userId, row.sandboxId)?.status !== "RUNNING") return;
    const parts = {
      sandbox: () => this.workspace(row).sandbox(),
      openModel: this.#modelOf(row),
      mask: () => masks.of(row),
      append: (records: NewRecord[]) => store.events.append(conversationId, records),
      signal: AbortSignal.timeout(mostMs),
    };
    await hooks.endSession(row, parts).catch(() => {});
  }

  #dropWorkspace(conversationId: string): void {
    this.#letGo(conversationId);
    this.#workspaces.remove(conversationId);
  }

  #letGo(conversationId: string): void {
    this.#deps.toolsets.drop(conversationId);
    this.#deps.masks.drop(conversationId);
  }

  /** Lets go of what is kept for conversations that have rested for that long, ms; it comes back when it is needed. By itself this happens after minutes. */
  unload(restedMs: number): void {
    this.#workspaces.unload(restedMs);
  }

  /** Sends the whole state to the followers. */
  announce(conversationId: string): void {
    if (this.#deps.hub.followers(conversationId) === 0) return;
    const row = this.#deps.store.conversations.get(conversationId);
    if (!row) return;
    const value = this.stateOf(row);
    this.#deps.hub.publishEvent(conversationId, {
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: "full_state",
      value,
    });
  }

  /** Sends the whole state now, and once more for clients that were not ready for it. */
  announceEnd(conversationId: string): void {
    this.announce(conversationId);
    this.forgetEnd(conversationId);
    const repeat = () => {
      this.#repeats.delete(conversationId);
      if (!this.#runs.has(conversationId)) this.announce(conversationId);
    };
    this.#repeats.set(conversationId, setTimeout(repeat, repeatMs));
  }

  /**
   * Who writes or asks for a run has seen the end of the one before: it is not sent again. On the way to the next run that state would look like
   * its end, and a client that waits for it would stop.
   */
  forgetEnd(conversationId: string): void {
    clearTimeout(this.#repeats.get(conversationId));
    this.#repeats.delete(conversationId);
  }

  stateOf(row: ConversationRow): Record<string, unknown> {
    const { store, knowledge, agents } = this.#deps;
    const follower = this.#runs.get(row.id)?.follower;
    return fullState({
      row,
      state: follower?.isReady ? follower.state : undefined,
      events: store.events,
      agents,
      activatedSkills: knowledge.activated(row.id),
      facts: knowledge.contexts.get(row.id).folded ?? noFacts,
      secretNames: Object.keys(store.conversationSecrets.get(row.id)?.values ?? {}),
    });
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const id of [...this.#summaries.keys()]) if (!this.#runs.has(id)) this.#summarised(id);
    for (const timer of [...this.#timers, ...this.#repeats.values()]) clearTimeout(timer);
    const runs = [...this.#runs.values()];
    const timer = setTimeout(() => {
      for (const run of runs) run.abort("shutdown");
    }, graceMs);
    await Promise.all(runs.map((run) => run.done));
    clearTimeout(timer);
    await Promise.all(this.#deps.hooks.sessions().map((id) => this.#endSession(id, sessionEndMs.shutdown)));
    this.#workspaces.close();
  }

  /** Opens the model of a run: once, and again when the conversation was switched to another model (app-server.md section 2.9, agent-server.md section 3). */
  #modelOf(first: ConversationRow): () => Model {
    const { agents, store, openModel, masks } = this.#deps;
    let opened: { name: string; model: Model } | undefined;
    return () => {
      const row = store.conversations.get(first.id) ?? first;
      const { llmProfile, llmModel, llmRevision = 0 } = row.config;
      const name = JSON.stringify([llmProfile, llmModel, llmRevision]);
      if (opened?.name !== name) {
        const { model, ...rest } = agents.model(row);
        opened = { name, model: maskedModel(openModel({ model: model ?? "", ...rest }), masks.of(row)) };
      }
      return opened.model;
    };
  }

  #ended({ userId, id: conversationId }: ConversationRow, complete: boolean, stats: Stats, wantsSummary: boolean): void {
    this.#runs.delete(conversationId);
    this.#queue.leave(userId, conversationId);
    // A message may have woken it while it was being deleted.
    if (!this.#deps.store.conversations.get(conversationId)) this.#dropWorkspace(conversationId);
    const goesOnForSummary = complete && wantsSummary && this.#summaries.has(conversationId) && !this.#closing;
    if (!goesOnForSummary) this.#summarised(conversationId);
    if (this.#closing) return;
    this.#wakeNext(userId);
    // A message or a run command that came while the run was ending is in the log, and the row shows it.
    const goesOn = () => this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
    if (goesOnForSummary || (complete && goesOn())) return this.wake(conversationId);
    this.#beside.write(conversationId, stats).catch(() => {});
    if (!complete && goesOn()) {
      // Its end could not be written, for example on a full disk: once it can, the run goes on.
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        if (goesOn()) this.wake(conversationId);
      }, retryMs);
      this.#timers.add(timer);
    }
    this.announceEnd(conversationId);
    this.#deps.toolsets.rest(conversationId);
    this.#deps.onRest?.(conversationId);
  }

  /** Gives free places to the conversations whose turn it is, and that were not stopped while they waited. */
  #wakeNext(userId: string): void {
    for (let id = this.#queue.next(userId); id !== undefined; id = this.#queue.next(userId)) {
      const isRunning = this.#deps.store.conversations.get(id)?.summary.executionStatus === "running";
      if (isRunning || this.#summaries.has(id)) this.wake(id);
      else this.#approved.delete(id);
    }
  }
}
