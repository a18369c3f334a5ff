import { PlatformError } from "@sandpiper/core/errors";
import type { Stats } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { ActiveRuns } from "./active-runs.ts";
import type { AbortCause, Run } from "./run.ts";
import type { SessionEnds } from "./session-ends.ts";
import type { Workspaces } from "./workspaces.ts";

/** Maximum wait for a paused run to end, ms. */
const maxRestWaitMs = 10_000;

/** Delay before a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

export interface RunnerDeps {
  store: Pick<Store, "conversations" | "events">;
  runs: ActiveRuns;
  workspaces: Workspaces;
  sessionEnds: SessionEnds;
  /** Begins a run; `approved`: ids of the open actions that the user approved. */
  openRun(row: ConversationRow, approved: ReadonlySet<string>): Run;
  listener: RunListener;
}

export interface RunListener {
  /** The conversation waits for its turn, or its turn has come. */
  onTurn(conversationId: string): void;
  /** The last of several runs has ended; `stats`: the metrics in the log. */
  onRest(conversationId: string, stats: Stats): void;
}

/** Wakes conversations, waits for them and ends their runs. */
export class Runner {
  readonly #deps: RunnerDeps;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** Ids of the approved open actions for the next run, by conversation. */
  readonly #approved = new Map<string, ReadonlySet<string>>();
  /** Callers that wait for a sleeping conversation to be condensed. */
  readonly #condensations = new Map<string, ((failure?: PlatformError) => void)[]>();
  #closing = false;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
  }

  isAwake(conversationId: string): boolean {
    return this.#deps.runs.isAwake(conversationId);
  }

  /** Whether its run waits for a slot. */
  isWaiting(row: Pick<ConversationRow, "userId" | "id">): boolean {
    return this.#deps.runs.isWaiting(row);
  }

  /** Takes a conversation that was stopped while it waited out of the queue. */
  leaveQueue(row: Pick<ConversationRow, "userId" | "id">): void {
    if (!this.isWaiting(row) || this.#isRunning(row.id)) return;
    this.#approved.delete(row.id);
    this.#deps.runs.releaseSlot(row);
  }

  /** Waits briefly for a paused run to end. Throws ConversationRunning while a run continues. */
  async requireAtRest(conversationId: string): Promise<void> {
    const run = this.#deps.runs.get(conversationId);
    if (run && !this.#isRunning(conversationId)) {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([run.done, new Promise((resolve) => (timer = setTimeout(resolve, maxRestWaitMs)))]);
      clearTimeout(timer);
    }
    if (this.#isRunning(conversationId) || this.isAwake(conversationId)) throw new PlatformError("NotAtRest");
  }

  /** Approves open actions for the next run. Returns a function that revokes the approval. */
  approve(conversationId: string, actionIds: ReadonlySet<string>): () => void {
    this.#approved.set(conversationId, actionIds);
    return () => void this.#approved.delete(conversationId);
  }

  /**
   * Starts a run. A current run reads new records by itself; its paused sandbox is woken if a call
   * waits for it.
   */
  wake(conversationId: string): void {
    if (this.#closing) return;
    const { store, runs, workspaces, openRun, listener } = this.#deps;
    const current = runs.get(conversationId);
    if (current) {
      const workspace = workspaces.get(conversationId);
      workspace?.pauseGate.open();
      // The sandbox may be paused during a tool call. If it fails to wake, the call reports why.
      if (current.follower.state.openActions.size > 0) void workspace?.sandbox().catch(() => {});
      return;
    }
    const row = store.conversations.get(conversationId);
    if (!row) return;
    workspaces.getOrCreate(row).pauseGate.open();
    const waited = runs.isWaiting(row);
    if (!runs.acquireSlot(row)) {
      if (!waited) listener.onTurn(conversationId);
      return;
    }
    const run = openRun(row, this.#approved.get(conversationId) ?? new Set());
    this.#approved.delete(conversationId);
    runs.add(conversationId, run);
    const isForSummary = this.#condensations.has(conversationId);
    void run.done.then((complete) => {
      // The ending run has not read a request that was appended last.
      const wantsSummary = !isForSummary && run.follower.view.condensationRequested;
      this.#onEnded(row, complete, wantsSummary, run);
    });
  }

  /**
   * Wakes a sleeping conversation to condense it. Resolves when it rests, with a summary or
   * with the reason why there is none, if that is known.
   */
  condense(conversationId: string): Promise<PlatformError | undefined> {
    if (this.#closing) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#condensations.set(conversationId, [...(this.#condensations.get(conversationId) ?? []), resolve]);
      this.wake(conversationId);
      if (!this.#deps.store.conversations.get(conversationId)) this.#resolveCondensations(conversationId);
    });
  }

  #resolveCondensations(conversationId: string, failure?: PlatformError): void {
    const waiting = this.#condensations.get(conversationId) ?? [];
    this.#condensations.delete(conversationId);
    for (const resolve of waiting) resolve(failure);
  }

  /**
   * Aborts the model call of a paused run. False: the run has a tool call instead, which continues
   * when its sandbox does.
   */
  abortCall(conversationId: string): boolean {
    const run = this.#deps.runs.get(conversationId);
    if (!run?.follower.isReady || run.follower.state.status !== "paused") return true;
    if (run.follower.state.openActions.size > 0) return false;
    this.#abortRun(conversationId, run, "paused");
    return true;
  }

  /** Aborts a run and waits for its last record. */
  async abort(conversationId: string, cause: AbortCause): Promise<void> {
    const run = this.#deps.runs.get(conversationId);
    if (run) this.#abortRun(conversationId, run, cause);
    await run?.done;
  }

  /** Ends the run of a conversation and drops its in-memory state. */
  async remove(conversationId: string): Promise<void> {
    const { store, runs, workspaces, sessionEnds } = this.#deps;
    await this.abort(conversationId, "removed");
    await sessionEnds.remove(conversationId);
    const row = store.conversations.get(conversationId);
    if (row) runs.releaseSlot(row);
    this.#approved.delete(conversationId);
    this.#resolveCondensations(conversationId);
    workspaces.remove(conversationId);
  }

  /** An interrupt must reach the command, so it wakes a paused sandbox. */
  #abortRun(conversationId: string, run: Run, cause: AbortCause): void {
    run.abort(cause);
    const workspace = this.#deps.workspaces.get(conversationId);
    if (cause === "interrupt") workspace?.pauseGate.open();
    else workspace?.pauseGate.cancel();
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    const { runs, sessionEnds, workspaces } = this.#deps;
    for (const id of [...this.#condensations.keys()]) if (!runs.isAwake(id)) this.#resolveCondensations(id);
    for (const timer of this.#timers) clearTimeout(timer);
    const active = runs.all();
    const timer = setTimeout(() => {
      for (const [id, run] of active) this.#abortRun(id, run, "shutdown");
    }, graceMs);
    await Promise.all(active.map(([, run]) => run.done));
    clearTimeout(timer);
    await sessionEnds.close();
    workspaces.close();
  }

  #onEnded(row: ConversationRow, complete: boolean, wantsSummary: boolean, run: Run): void {
    const { stats } = run.follower.state;
    const { store, runs, workspaces, listener } = this.#deps;
    const { id } = row;
    runs.remove(row);
    // A message may have woken the conversation during its removal.
    if (!store.conversations.get(id)) workspaces.remove(id);
    const continuesForSummary = complete && wantsSummary && this.#condensations.has(id) && !this.#closing;
    if (!continuesForSummary) this.#resolveCondensations(id, run.summaryFailure);
    if (this.#closing) return;
    this.#wakeNext(row.userId);
    // A message or run command that arrived while the run was ending is in the row's status.
    const asksForRun = this.#isRunning(id);
    if (continuesForSummary || (complete && asksForRun)) return this.wake(id);
    // Its end could not be written, for example because the disk is full.
    if (asksForRun && !run.isStuck) this.#wakeLater(id);
    listener.onRest(id, stats);
  }

  /** Wakes a conversation once its log can be written: else the next answer would be lost too. */
  #wakeLater(id: string): void {
    const timer = setTimeout(async () => {
      this.#timers.delete(timer);
      const isWritable = await this.#deps.store.events.append(id, []).then(
        () => true,
        () => false,
      );
      if (this.#closing || !this.#isRunning(id) || this.isAwake(id)) return;
      if (isWritable) this.wake(id);
      else this.#wakeLater(id);
    }, retryMs);
    this.#timers.add(timer);
  }

  #isRunning(conversationId: string): boolean {
    return this.#deps.store.conversations.get(conversationId)?.summary.executionStatus === "running";
  }

  /** Starts the next waiting conversations, except those that were stopped meanwhile. */
  #wakeNext(userId: string): void {
    const { runs, listener } = this.#deps;
    for (let id = runs.nextWaiting(userId); id !== undefined; id = runs.nextWaiting(userId)) {
      if (this.#isRunning(id) || this.#condensations.has(id)) {
        this.wake(id);
        listener.onTurn(id);
      } else this.#approved.delete(id);
    }
  }
}
