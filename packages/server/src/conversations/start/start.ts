import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import { newId } from "@sandpiper/wire";
import type { SandboxScope } from "../../store/sandbox-scope.ts";
import { NewerStart, type StartTaskRow } from "../../store/start-task-store.ts";
import { type Custody, isMoved } from "../custody.ts";
import { parseOrCreateId } from "./checks.ts";
import { onlyDelays, toFailureReason } from "./start-failures.ts";
import type { PlacedStart, StartControl, StartPlans } from "./start-plans.ts";
import type { StartRecords } from "./start-records.ts";
import type { StartSteps } from "./start-steps.ts";
import type { TaskFeed } from "./task-feed.ts";

/** Delay before a start continues after a failure that only delays it, ms. */
const retryDelayMs = 1_000;

export interface ConversationStarterDeps {
  plans: StartPlans;
  records: StartRecords;
  steps: StartSteps;
  tasks: TaskFeed;
  custody: Pick<Custody, "during" | "incarnation">;
  logger: Logger;
}

/** One attempt of this node to do a start. */
interface Attempt {
  task: StartTaskRow;
  /** True when this node was told during the attempt that it owns the start. */
  isWanted: boolean;
}

/** A start of this request or, if `isRepeated`, the one that an earlier equal request has begun. */
interface BegunStart {
  task: StartTaskRow;
  isRepeated: boolean;
  /** Resolves as `ConversationStarter.start` does. */
  stored: Promise<void>;
}

/** Starts conversations in the background; see app-server.md sections 2.3 and 2.4. */
export class ConversationStarter {
  readonly #deps: ConversationStarterDeps;
  readonly #closing = new AbortController();
  /** The attempts that have not ended, with the promises of their ends. */
  readonly #active = new Map<Attempt, Promise<void>>();
  /** Ids of tasks that are being stored. */
  readonly #creating = new Set<string>();

  constructor(deps: ConversationStarterDeps) {
    this.#deps = deps;
  }

  /**
   * Starts a conversation; when this resolves, clients find it in the lists, or its task has the
   * error. A repeated request with the id of the conversation gets the task of the first. Throws
   * what `planStart` throws, and InvalidParameter for an invalid callback; nothing is stored then.
   */
  async start(userId: string, request: AppConversationStartRequest): Promise<StartTaskRow> {
    const { task, stored } = await this.#begin(userId, request);
    await stored;
    return task;
  }

  /** Starts a conversation and yields its task in every state. Throws as `start`. */
  async follow(userId: string, request: AppConversationStartRequest): Promise<AsyncGenerator<StartTaskRow>> {
    const { tasks } = this.#deps;
    const { task, isRepeated } = await this.#begin(userId, request);
    return isRepeated ? tasks.watch(task) : tasks.follow(task);
  }

  async #begin(userId: string, request: AppConversationStartRequest): Promise<BegunStart> {
    const { records } = this.#deps;
    records.check(request);
    const conversationId = parseOrCreateId(request.conversation_id, "conversation_id");
    const taskId = newId();
    this.#creating.add(taskId);
    try {
      return await this.#create({ taskId, conversationId, userId }, request);
    } catch (error) {
      if (!(error instanceof PlatformError && error.code === "ConversationExists")) throw error;
      const task = await records.findEqual(userId, conversationId, request);
      if (!task) throw error;
      return { task, isRepeated: true, stored: Promise.resolve() };
    } finally {
      this.#creating.delete(taskId);
    }
  }

  async #create(
    { taskId, conversationId, userId }: { taskId: string; conversationId: string; userId: string },
    request: AppConversationStartRequest,
  ): Promise<BegunStart> {
    const { plans, steps } = this.#deps;
    const plan = await plans.plan(userId, { ...request, conversation_id: conversationId });
    let placed: PlacedStart;
    let task: StartTaskRow | undefined;
    do {
      placed = await plans.place(plan, request);
      task = await this.#store(taskId, placed, request);
    } while (!task);
    const { promise: stored, resolve: onStored } = Promise.withResolvers<void>();
    /**
     * The start calls this when its first attempt has ended, and when the whole start has ended.
     */
    const onEnd = () => {
      placed.leave();
      onStored();
    };
    const start = { ...placed, task };
    this.#track(task, (control) => steps.start({ ...start, ...control }, request, onStored), onEnd);
    return { task, isRepeated: false, stored };
  }

  /**
   * Stores the task of a start. Returns undefined when the start has to choose its sandbox again,
   * because another start of the user may have created one that it should share.
   */
  async #store(
    taskId: string,
    { conversation, leave, newest }: PlacedStart,
    request: AppConversationStartRequest,
  ): Promise<StartTaskRow | undefined> {
    const { records, custody } = this.#deps;
    const { id: conversationId, userId, sandboxId, createdAt: now, config } = conversation;
    const state = { status: "WORKING", detail: null, createdAt: now, updatedAt: now } as const;
    const about = { scope: config.launchedProfile?.secretRefs, owner: custody.incarnation, newest };
    const row = { id: taskId, userId, conversationId, sandboxId, ...state };
    try {
      return await records.create(row, request, about);
    } catch (error) {
      leave();
      if (error instanceof NewerStart) return undefined;
      throw error;
    }
  }

  /** Resumes the open starts that an earlier process has left. */
  async recover(scope: SandboxScope): Promise<void> {
    this.#continue(await this.#deps.records.listOpen(scope));
  }

  /** Resumes starts that this node owns, and those that it takes from nodes that have ended. */
  async adoptLeft(): Promise<void> {
    const { custody, records } = this.#deps;
    const { incarnation } = custody;
    if (incarnation !== undefined) this.#continue(await records.claim(incarnation));
  }

  #continue(tasks: readonly StartTaskRow[]): void {
    for (const task of tasks) {
      if (this.#creating.has(task.id)) continue;
      const active = [...this.#active.keys()].find((attempt) => attempt.task.id === task.id);
      if (active) active.isWanted = true;
      else this.#track(task, (control) => this.#resume(task, control));
    }
  }

  async #resume(task: StartTaskRow, control: StartControl): Promise<void> {
    const { plans, steps } = this.#deps;
    await control.requireOwner();
    const { start, isStored } = await plans.planAgain(task, control);
    const request = task.request as AppConversationStartRequest;
    await (isStored ? steps.resume(start) : steps.start(start, request)).finally(start.leave);
  }

  #track(
    task: StartTaskRow,
    start: (control: StartControl) => Promise<void>,
    onEnd: () => void = () => {},
  ): void {
    const attempt: Attempt = { task, isWanted: false };
    const { custody, records } = this.#deps;
    const requireOwner = async () => {
      const { incarnation } = custody;
      if (incarnation !== undefined && !(await records.isOwner(task.id, incarnation)))
        throw new PlatformError("EpochPassed");
      return incarnation;
    };
    const work = custody
      .during(task.sandboxId ?? "", (moved) => {
        const control = { requireOwner, signal: AbortSignal.any([this.#closing.signal, moved]) };
        // A start that waits for the store goes on without its caller.
        return start(control)
          .finally(onEnd)
          .catch((error) => this.#fail(attempt, error, control));
      })
      .finally(onEnd)
      // The sandbox is at another node, or goes there.
      .catch(() => this.#abandon(attempt));
    this.#active.set(attempt, work);
    void work.finally(() => this.#active.delete(attempt));
  }

  /** Interrupts starts that wait for their sandbox; the next process resumes them. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server is ending."));
    this.#deps.tasks.close();
    await Promise.all(this.#active.values());
  }

  /** Ends the followers of starts in sandboxes that go to another node. */
  leave(sandboxIds: ReadonlySet<string>): void {
    for (const { task } of this.#active.keys())
      if (task.sandboxId !== null && sandboxIds.has(task.sandboxId)) this.#deps.tasks.leave(task.id);
  }

  /** Ends a start that failed, unless it goes on later, here or at another node. */
  async #fail(attempt: Attempt, error: unknown, control: StartControl): Promise<void> {
    const { task } = attempt;
    const { signal } = control;
    const { tasks, logger } = this.#deps;
    const mayBeLost = isMoved(error) || !onlyDelays(error);
    const loss = mayBeLost && !signal.aborted ? await findLoss(control) : undefined;
    if (signal.aborted || isMoved(loss)) return this.#abandon(attempt);
    const reason = loss ?? error;
    if (onlyDelays(reason)) {
      logger.warn({ task: task.id, reason: reason.message }, "a start waits");
      const waited = await sleep(retryDelayMs, true, { signal }).catch(() => false);
      if (waited) await this.#resume(task, control).catch((again) => this.#fail(attempt, again, control));
      else this.#abandon(attempt);
      return;
    }
    const isExpected = error instanceof PlatformError;
    if (!isExpected) logger.error({ err: error, task: task.id }, "a conversation could not be started");
    await tasks.fail(task.id, toFailureReason(error)).catch((err) => {
      if (onlyDelays(err)) return this.#fail(attempt, err, control);
      logger.error({ err, task: task.id }, "a start task could not be stored");
    });
  }

  /** Leaves a start to the next process, or to the node that owns it, which may be this one. */
  #abandon(attempt: Attempt): void {
    const { task, isWanted } = attempt;
    attempt.isWanted = false;
    this.#deps.tasks.leave(task.id);
    if (isWanted && !this.#closing.signal.aborted)
      this.#track(task, (control) => this.#resume(task, control));
  }
}

/** The error that says why this node cannot end a start; undefined when it can. */
function findLoss({ requireOwner }: StartControl): Promise<unknown> {
  return requireOwner().then(
    () => undefined,
    (error: unknown) => error,
  );
}
