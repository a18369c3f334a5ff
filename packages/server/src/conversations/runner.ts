import type { ActionEvent } from "@sandpiper/wire";
import { policyFromSettings } from "../agent/confirmation.ts";
import type { Tool } from "../agent/tool.ts";
import { View } from "../agent/view.ts";
import type { Model, OpenModel } from "../models/model.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationRow, Store } from "../store/store.ts";
import type { Settings } from "../users/api.ts";
import { LogFollower } from "./follower.ts";
import { fullState } from "./full-state.ts";
import type { Hub } from "./hub.ts";
import { conversationModel } from "./model.ts";
import { type AbortCause, Run } from "./run.ts";
import { Workspace } from "./workspace.ts";

/**
 * How long after the end of a run its closing state is sent again, ms. The Python client arms its wait only after the answer
 * to its run call, so the first frame of a very short run comes too early for it (remote-clients.md section 4, rule 5).
 */
const repeatMs = 200;

/** When a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

export interface RunnerDependencies {
  store: Store;
  hub: Hub;
  sandboxes: Sandboxes;
  settings: Settings;
  tools: readonly Tool[];
  openModel: OpenModel;
}

/** Wakes conversations: at most one run of each at a time. */
export class Runner {
  readonly #deps: RunnerDependencies;
  readonly #runs = new Map<string, Run>();
  readonly #workspaces = new Map<string, Workspace>();
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Conversations whose open actions the user approved while their last run was still ending. */
  readonly #approved = new Set<string>();
  #closing = false;

  constructor(deps: RunnerDependencies) {
    this.#deps = deps;
  }

  isAwake(conversationId: string): boolean {
    return this.#runs.has(conversationId);
  }

  /** Actions without a result, in order. */
  openActions(conversationId: string): ActionEvent[] {
    const run = this.#runs.get(conversationId);
    if (run) return [...run.follower.state.open.values()];
    const follower = new LogFollower(this.#deps.store.events, conversationId, new View(this.#deps.tools));
    follower.close();
    return [...follower.state.open.values()];
  }

  workspace(row: Pick<ConversationRow, "id" | "sandboxId" | "config">): Workspace {
    let workspace = this.#workspaces.get(row.id);
    if (!workspace) {
      workspace = new Workspace(this.#deps.sandboxes, row, () => this.#runs.has(row.id));
      this.#workspaces.set(row.id, workspace);
    }
    return workspace;
  }

  /** Starts a run unless one goes on, which then sees by itself what is new in the log. Wakes the sandbox that a call of it waits for. */
  wake(conversationId: string, options: { approved: boolean } = { approved: false }): void {
    if (options.approved) this.#approved.add(conversationId);
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
    const { store, hub, tools, settings } = this.#deps;
    const view = settings.view(row.userId);
    const run = new Run({
      store,
      hub,
      tools,
      row,
      openModel: this.#modelOf(row),
      toolContext: this.workspace(row).toolContext(),
      policy: policyFromSettings(view.confirmation_mode, view.security_analyzer),
      trustsRisk: view.security_analyzer === "llm",
      budget: settings.agent(row.userId).maxBudgetPerTask,
      approved: this.#approved.delete(conversationId),
    });
    this.#runs.set(conversationId, run);
    this.announce(conversationId);
    void run.done.then((complete) => this.#ended(conversationId, complete));
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
    this.#workspaces.get(conversationId)?.close();
    this.#workspaces.delete(conversationId);
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
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (!this.#runs.has(conversationId)) this.announce(conversationId);
    }, repeatMs);
    this.#timers.add(timer);
  }

  stateOf(row: ConversationRow): Record<string, unknown> {
    const { store, settings, tools } = this.#deps;
    return fullState({
      row,
      state: this.#runs.get(row.id)?.follower.state,
      events: store.events,
      tools,
      model: conversationModel(row, settings).model,
      settings: settings.view(row.userId),
    });
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) clearTimeout(timer);
    const runs = [...this.#runs.values()];
    const timer = setTimeout(() => {
      for (const run of runs) run.abort("shutdown");
    }, graceMs);
    await Promise.all(runs.map((run) => run.done));
    clearTimeout(timer);
    for (const workspace of this.#workspaces.values()) workspace.close();
  }

  /** Opens the model of a run: once, and again when the conversation was switched to another profile (app-server.md section 2.9). */
  #modelOf(first: ConversationRow): () => Model {
    const { settings, store, openModel } = this.#deps;
    let opened: { profile: string | null; model: Model } | undefined;
    return () => {
      const row = store.conversations.get(first.id) ?? first;
      const profile = row.config.llmProfile ?? null;
      if (opened?.profile !== profile) {
        const { model, apiKey, baseUrl } = conversationModel(row, settings);
        opened = { profile, model: openModel({ model: model ?? "", apiKey, baseUrl }) };
      }
      return opened.model;
    };
  }

  #ended(conversationId: string, complete: boolean): void {
    this.#runs.delete(conversationId);
    if (this.#closing) return;
    // A message or a run command that came while the run was ending is in the log, and the row shows it.
    const goesOn = () => this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
    if (complete && goesOn()) return this.wake(conversationId);
    if (!complete && goesOn()) {
      // Its end could not be written, for example on a full disk: once it can, the run goes on.
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        if (goesOn()) this.wake(conversationId);
      }, retryMs);
      this.#timers.add(timer);
    }
    this.announceEnd(conversationId);
  }
}
