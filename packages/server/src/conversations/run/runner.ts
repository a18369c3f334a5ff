import { setTimeout as sleep } from "node:timers/promises";
import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { AppendOptions } from "../../store/event-log.ts";
import type { Store } from "../../store/store.ts";
import { isMoved, makeMoved } from "../custody.ts";
import type { ActiveRuns } from "./active-runs.ts";
import type { AbortCause, Run } from "./run.ts";
import type { SessionEnds } from "./session-ends.ts";
import type { Workspaces } from "./workspaces.ts";

/** Maximum wait for a paused run to end, ms. */
const maxRestWaitMs = 10_000;

/** Delay before a run that could not write its end is tried again, ms. */
const retryMs = 5_000;

/** How long a node waits for the end of an aborted run before it gives the run up, ms. */
const maxAbortMs = 2_000;

export interface RunnerDeps {
  store: Pick<Store, "conversations" | "events">;
  runs: ActiveRuns;
  workspaces: Workspaces;
  sessionEnds: SessionEnds;
  /** Reads what a run begins with. */
  prepareRun(row: ConversationRow): Promise<BeginRun>;
  listener: RunListener;
}

/** Begins a run. */
export type BeginRun = () => Run;

export interface RunListener {
  /** The conversation waits for its turn, or its turn has come. */
  onTurn(conversationId: string): void;
  /** The runner calls this when the last of several runs has ended. */
  onRest(conversationId: string): void;
}

/** Wakes conversations, waits for them and ends their runs. */
export class Runner {
  readonly #deps: RunnerDeps;
  /** Timers of conversations that are woken later. */
  readonly #timers = new Map<string, NodeJS.Timeout>();
  /** Callers that wait for a sleeping conversation to be condensed. */
  readonly #condensations = new Map<string, ((failure?: PlatformError) => void)[]>();
  /** The ends of runs that are being handled. */
  readonly #endings = new Map<Run, Promise<void>>();
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
  async leaveQueue(row: Pick<ConversationRow, "userId" | "id">): Promise<void> {
    const { id } = row;
    if (!this.isWaiting(row) || (await this.#isRunning(id)) || !this.isWaiting(row)) return;
    this.#deps.runs.releaseSlot(row);
    // A message that came during the read found the conversation in the queue.
    if (await this.#isRunning(id)) return this.wake(id);
  }

  /** Waits briefly for a paused run to end. Throws ConversationRunning while a run continues. */
  async requireAtRest(conversationId: string): Promise<void> {
    await this.#deps.runs.begun(conversationId);
    const run = this.#deps.runs.get(conversationId);
    if (run && !(await this.#isRunning(conversationId))) {
      let timer: NodeJS.Timeout | undefined;
      await Promise.race([run.done, new Promise((resolve) => (timer = setTimeout(resolve, maxRestWaitMs)))]);
      clearTimeout(timer);
    }
    if ((await this.#isRunning(conversationId)) || this.isAwake(conversationId))
      throw new PlatformError("NotAtRest");
  }

  /**
   * Appends records after which the caller wakes the conversation. The append names the owner,
   * because the next owner would not notice a late append, and nobody would begin the run. Throws
   * SandboxMoved when this node does not own the sandbox, and what `EventLog.append` throws.
   */
  async append(
    row: Pick<ConversationRow, "id" | "sandboxId">,
    records: readonly NewRecord[],
    options: AppendOptions = {},
  ): Promise<void> {
    const { store, runs } = this.#deps;
    try {
      const owner = runs.requireOwner(row);
      await store.events.append(row.id, records, { ...options, owner });
    } catch (error) {
      throw isMoved(error) ? makeMoved() : error;
    }
  }

  /**
   * Starts a run. A current run reads new records by itself; its paused sandbox is woken if a call
   * waits for it. Resolves when the run has begun or waits for its turn. Never rejects.
   */
  async wake(conversationId: string): Promise<void> {
    if (this.#closing) return;
    const { runs, workspaces } = this.#deps;
    if (runs.isBeginning(conversationId)) {
      await runs.begun(conversationId);
      // The earlier call read the conversation before the new record was stored, so it may have
      // begun no run.
      if (!runs.get(conversationId)) await this.wake(conversationId);
      return;
    }
    const current = runs.get(conversationId);
    if (!current) return runs.begin(conversationId, () => this.#begin(conversationId));
    const workspace = workspaces.get(conversationId);
    workspace?.pauseGate.open();
    // The sandbox may be paused during a tool call. If it fails to wake, the call reports why.
    if (current.follower.state.openActions.size > 0) void workspace?.sandbox().catch(() => {});
  }

  /**
   * Reads the conversation and begins its run. Never rejects: it tries again later when a read or
   * the run fails.
   */
  async #begin(id: string): Promise<void> {
    const { store, runs } = this.#deps;
    let row: ConversationRow | undefined;
    try {
      row = await store.conversations.get(id);
      if (row) await this.#beginRow(row);
      else this.#resolveCondensations(id);
    } catch {
      if (row) runs.releaseSlot(row);
      this.#resolveCondensations(id);
      if (!this.#closing) this.#wakeLater(id);
    }
  }

  async #beginRow(row: ConversationRow): Promise<void> {
    if (this.#closing) return;
    const { runs, workspaces, prepareRun, listener } = this.#deps;
    const { id } = row;
    if (!runs.isHere(row)) return this.#forget(row);
    workspaces.getOrCreate(row).pauseGate.open();
    const waited = runs.isWaiting(row);
    if (!(await runs.acquireSlot(row))) {
      if (!waited) listener.onTurn(id);
      return this.#leaveIfStopped(row);
    }
    const begin = await prepareRun(row);
    if (this.#closing) return;
    if (!runs.isHere(row)) return this.#forget(row);
    const run = begin();
    runs.add(id, run);
    const isForSummary = this.#condensations.has(id);
    const ending = run.done
      .then((complete) => {
        // A run that is ending has not read a request that was appended last.
        const wantsSummary = !isForSummary && run.follower.view.condensationRequested;
        return this.#onEnded(row, complete, wantsSummary, run);
      })
      .catch(() => {})
      .then(() => void this.#endings.delete(run));
    this.#endings.set(run, ending);
  }

  /** Forgets the conversation here, because another node runs it. */
  #forget(row: Pick<ConversationRow, "id" | "userId">): void {
    const { id } = row;
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#deps.runs.releaseSlot(row);
    this.#resolveCondensations(id, makeMoved());
  }

  /** A caller that stopped the conversation before it waited did not find it in the queue. */
  async #leaveIfStopped(row: ConversationRow): Promise<void> {
    const { id } = row;
    if (this.#condensations.has(id) || (await this.#isRunning(id)) || !this.isWaiting(row)) return;
    this.#deps.runs.releaseSlot(row);
    this.#deps.listener.onRest(id);
  }

  /**
   * Wakes a sleeping conversation to condense it. Resolves when it rests, with a summary or
   * with the reason why there is none, if that is known.
   */
  condense(conversationId: string): Promise<PlatformError | undefined> {
    if (this.#closing) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#condensations.set(conversationId, [...(this.#condensations.get(conversationId) ?? []), resolve]);
      void this.wake(conversationId);
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
    await this.#deps.runs.begun(conversationId);
    const run = this.#deps.runs.get(conversationId);
    if (run) this.#abortRun(conversationId, run, cause);
    await run?.done;
  }

  /** Ends the run of a conversation and drops its in-memory state. */
  async remove(conversationId: string): Promise<void> {
    const { store, runs, workspaces, sessionEnds } = this.#deps;
    await this.abort(conversationId, "removed");
    await sessionEnds.remove(conversationId);
    const row = await store.conversations.get(conversationId);
    if (row) runs.releaseSlot(row);
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
    await runs.allBegun();
    for (const id of [...this.#condensations.keys()]) if (!runs.isAwake(id)) this.#resolveCondensations(id);
    for (const timer of this.#timers.values()) clearTimeout(timer);
    const active = runs.all();
    const timer = setTimeout(() => {
      for (const [id, run] of active) this.#abortRun(id, run, "shutdown");
    }, graceMs);
    await Promise.all(this.#endings.values());
    clearTimeout(timer);
    await sessionEnds.close();
    workspaces.close();
  }

  /**
   * Ends the runs of conversations that go to another node, after `graceMs` in the middle of a
   * step. Runs that do not end in time are given up. Never rejects.
   */
  async release(rows: readonly Pick<ConversationRow, "id" | "userId">[], graceMs: number): Promise<void> {
    const { runs } = this.#deps;
    const within = (ms: number, work: Promise<unknown>) =>
      Promise.race([work.catch(() => {}), sleep(ms, undefined, { ref: false })]);
    await within(maxAbortMs, Promise.all(rows.map(({ id }) => runs.begun(id))));
    const active = rows.flatMap(({ id }) => {
      const run = runs.get(id);
      return run ? [{ id, run }] : [];
    });
    const ended = Promise.all(active.map(({ run }) => run.done));
    for (const { run } of active) run.handOver();
    if (graceMs > 0) await within(graceMs, ended);
    for (const { id, run } of active) if (runs.get(id) === run) this.#abortRun(id, run, "shutdown");
    await within(maxAbortMs, ended);
    for (const { run } of active) this.#endings.delete(run);
    for (const row of rows) {
      runs.leave(row);
      this.#forget(row);
    }
    for (const userId of new Set(rows.map((row) => row.userId))) void this.wakeNext(userId);
  }

  async #onEnded(row: ConversationRow, complete: boolean, wantsSummary: boolean, run: Run): Promise<void> {
    const { store, runs, workspaces, listener } = this.#deps;
    const { id } = row;
    // The conversation was released and adopted again, while a call of this run did not end.
    if (runs.get(id) !== run) return;
    // From now on, whoever wakes the conversation begins another run.
    const { isReady, state } = run.follower;
    const isMoving = !runs.isHere(row) && (!isReady || state.status === "running");
    if (isMoving) runs.leave(row);
    else runs.remove(row);
    if (!runs.isHere(row) && !this.#closing) {
      this.#forget(row);
      return this.wakeNext(row.userId);
    }
    const continuesForSummary = complete && wantsSummary && this.#condensations.has(id) && !this.#closing;
    if (!continuesForSummary) this.#resolveCondensations(id, run.summaryFailure);
    if (this.#closing) return;
    const others = this.wakeNext(row.userId);
    // A message or run command that arrived while the run was ending is in the row's status.
    const current = await store.conversations.get(id).catch(() => row);
    if (this.#closing) return;
    // A message may have woken the conversation during its removal.
    if (!current) workspaces.remove(id);
    const asksForRun = current?.summary.executionStatus === "running";
    if (continuesForSummary || (complete && asksForRun)) await this.wake(id);
    else if (!runs.isAwake(id) && !runs.isWaiting(row)) {
      // The end of the run could not be written, for example because the disk is full.
      if (asksForRun && !run.isStuck) this.#wakeLater(id);
      listener.onRest(id);
    }
    await others;
  }

  /** Wakes a conversation once its log can be written: else the next answer would be lost too. */
  #wakeLater(id: string): void {
    if (this.#timers.has(id)) return;
    const timer = setTimeout(async () => {
      this.#timers.delete(id);
      const row = await this.#deps.store.conversations.get(id).catch(() => undefined);
      if (row && !this.#deps.runs.isHere(row)) return this.#forget(row);
      const isWritable = await this.#deps.store.events.append(id, []).then(
        () => true,
        () => false,
      );
      const asksForRun = await this.#isRunning(id).catch(() => true);
      if (this.#closing || !asksForRun || this.isAwake(id)) return;
      if (isWritable) void this.wake(id);
      else this.#wakeLater(id);
    }, retryMs);
    this.#timers.set(id, timer);
  }

  async #isRunning(conversationId: string): Promise<boolean> {
    const row = await this.#deps.store.conversations.get(conversationId);
    return row?.summary.executionStatus === "running";
  }

  /**
   * Starts the next waiting conversations of a user, except those that were stopped meanwhile.
   * Never rejects.
   */
  async wakeNext(userId: string): Promise<void> {
    const { runs, listener } = this.#deps;
    // Each conversation gets its slot before the first read, so that no later conversation takes
    // the slot.
    for (;;) {
      const id = await runs.nextWaiting(userId);
      if (id === undefined) return;
      const asksForRun = await this.#isRunning(id).catch(() => true);
      if (asksForRun || this.#condensations.has(id)) {
        await this.wake(id);
        listener.onTurn(id);
      }
      if (!runs.isAwake(id) && !runs.isWaiting({ userId, id })) runs.releaseSlot({ userId, id });
    }
  }
}
