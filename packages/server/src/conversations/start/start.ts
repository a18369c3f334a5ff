import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import { hexId, newId } from "@sandpiper/wire";
import { isPassing } from "../../store/is-passing.ts";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import { type Custody, isMoved } from "../custody.ts";
import { parseOrCreateId } from "./checks.ts";
import { toFailureReason } from "./start-failures.ts";
import type { StartControl, StartPlans } from "./start-plans.ts";
import type { StartRecords } from "./start-records.ts";
import type { StartSteps } from "./start-steps.ts";
import type { TaskFeed } from "./task-feed.ts";

/** Delay before a start retries after a failed write, ms. */
const retryDelayMs = 5_000;

export interface ConversationStarterDeps {
  plans: StartPlans;
  records: StartRecords;
  steps: StartSteps;
  tasks: TaskFeed;
  custody: Pick<Custody, "during" | "incarnation">;
  logger: Logger;
}

/** Starts conversations in the background; see app-server.md sections 2.3 and 2.4. */
export class ConversationStarter {
  readonly #deps: ConversationStarterDeps;
  readonly #closing = new AbortController();
  /** The active starts: the promise of each end, with the task. */
  readonly #active = new Map<Promise<void>, StartTaskRow>();
  /** Conversations that are being started and may not be stored yet. */
  readonly #starting = new Set<string>();

  constructor(deps: ConversationStarterDeps) {
    this.#deps = deps;
  }

  /**
   * Starts a conversation; when this resolves, clients find it in the lists, or its task has the
   * error. Throws what `planStart` throws, and InvalidParameter for an invalid callback; nothing is
   * stored then.
   */
  async start(userId: string, request: AppConversationStartRequest): Promise<StartTaskRow> {
    const { task, stored } = await this.#start(userId, request);
    await stored;
    return task;
  }

  /** Starts a conversation and yields its task in every state. Throws as `start`. */
  async follow(userId: string, request: AppConversationStartRequest): Promise<AsyncGenerator<StartTaskRow>> {
    const { task } = await this.#start(userId, request);
    return this.#deps.tasks.follow(task);
  }

  async #start(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<{ task: StartTaskRow; stored: Promise<void> }> {
    const { records } = this.#deps;
    records.check(request);
    const conversationId = parseOrCreateId(request.conversation_id, "conversation_id");
    // This happens before the first read, because two starts must not both find the id free.
    if (this.#starting.has(conversationId))
      throw new PlatformError("ConversationIdTaken", { id: hexId(conversationId) });
    this.#starting.add(conversationId);
    try {
      return await this.#startAs(conversationId, userId, request);
    } catch (error) {
      this.#starting.delete(conversationId);
      throw error;
    }
  }

  /** Starts a conversation whose id no other start has. */
  async #startAs(
    conversationId: string,
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<{ task: StartTaskRow; stored: Promise<void> }> {
    const { plans, records, steps } = this.#deps;
    const plan = await plans.plan(userId, { ...request, conversation_id: conversationId });
    const { sandboxId, createdAt: now } = plan.conversation;
    const ids = { id: newId(), userId, conversationId, sandboxId };
    const state = { status: "WORKING", detail: null, createdAt: now, updatedAt: now } as const;
    const owner = this.#deps.custody.incarnation;
    const scope = plan.conversation.config.launchedProfile?.secretRefs;
    const task = await records.create({ ...ids, ...state }, request, scope, owner).catch((error) => {
      plan.leave();
      throw error;
    });
    const { promise: stored, resolve: onStored } = Promise.withResolvers<void>();
    /**
     * The start calls this when its first attempt has ended, and when the whole start has ended.
     */
    const onEnd = () => {
      plan.leave();
      onStored();
    };
    this.#track(task, (control) => steps.start({ ...plan, task, ...control }, request, onStored), {
      owner,
      onEnd,
    });
    return { task, stored };
  }

  /** Resumes the open starts that an earlier process has left. */
  async recover(scope: SandboxScope): Promise<void> {
    for (const task of await this.#deps.records.listOpen(scope)) {
      if (this.#starting.has(task.conversationId)) continue;
      this.#starting.add(task.conversationId);
      this.#track(task, (control) => this.#resume(task, control));
    }
  }

  /** Resumes starts that have no sandbox yet and whose node has ended. */
  async adoptLeft(): Promise<void> {
    const owner = this.#deps.custody.incarnation;
    if (owner === undefined) return;
    for (const task of await this.#deps.records.claim(owner)) {
      if (this.#starting.has(task.conversationId)) continue;
      this.#starting.add(task.conversationId);
      this.#track(task, (control) => this.#resume(task, control), { owner });
    }
  }

  async #resume(task: StartTaskRow, control: StartControl): Promise<void> {
    const { plans, steps } = this.#deps;
    const { start, isStored } = await plans.planAgain(task, control);
    const request = task.request as AppConversationStartRequest;
    await (isStored ? steps.resume(start) : steps.start(start, request)).finally(start.leave);
  }

  /** `owner`: the node to which the task belongs until its sandbox has one. */
  #track(
    task: StartTaskRow,
    start: (control: StartControl) => Promise<void>,
    { owner, onEnd = () => {} }: { owner?: string | undefined; onEnd?: () => void } = {},
  ): void {
    const requireOwner = async () => {
      if (owner !== undefined && !(await this.#deps.records.isOwner(task.id, owner)))
        throw new PlatformError("EpochPassed");
    };
    let control: StartControl = { signal: this.#closing.signal, requireOwner };
    const work = this.#deps.custody
      .during(task.sandboxId ?? "", (moved) => {
        control = { requireOwner, signal: AbortSignal.any([this.#closing.signal, moved]) };
        // A start that waits for the store goes on without its caller.
        return start(control)
          .finally(onEnd)
          .catch((error) => this.#fail(task, error, control));
      })
      .finally(onEnd)
      .catch((error) => this.#fail(task, error, control));
    this.#active.set(work, task);
    void work.finally(() => {
      this.#active.delete(work);
      this.#starting.delete(task.conversationId);
    });
  }

  /** Interrupts starts that wait for their sandbox; the next process resumes them. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server is ending."));
    this.#deps.tasks.close();
    await Promise.all(this.#active.keys());
  }

  /** Ends the followers of starts in sandboxes that go to another node. */
  leave(sandboxIds: ReadonlySet<string>): void {
    for (const { id, sandboxId } of this.#active.values())
      if (sandboxId !== null && sandboxIds.has(sandboxId)) this.#deps.tasks.leave(id);
  }

  async #fail(task: StartTaskRow, error: unknown, control: StartControl): Promise<void> {
    const { signal } = control;
    const { records, tasks, logger } = this.#deps;
    // The next process, or another node, resumes the start.
    if ((signal.aborted && error === signal.reason) || isMoved(error)) return;
    if (isPassing(error) || (error instanceof PlatformError && error.code === "StorageFull")) {
      // The failure could not be stored either, so the start is resumed once the store works.
      logger.warn({ task: task.id, reason: error.message }, "a start waits for the store");
      const waited = await sleep(retryDelayMs, true, { signal }).catch(() => false);
      if (waited) await this.#resume(task, control).catch((again) => this.#fail(task, again, control));
      return;
    }
    await records.discard(task.conversationId);
    const isExpected = error instanceof PlatformError;
    if (!isExpected) logger.error({ err: error, task: task.id }, "a conversation could not be started");
    await tasks.update(task.id, { status: "ERROR", detail: toFailureReason(error) }).catch((err) => {
      logger.error({ err, task: task.id }, "a start task could not be stored");
    });
  }
}
