import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import { newSandboxId } from "@sandpiper/sandbox/ids";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import { maskText, newId } from "@sandpiper/wire";
import { type Callbacks, withoutCallbackSecrets } from "../../callbacks/api.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Secrets } from "../../users/api.ts";
import type { OutputMasksDeps } from "../agent/output-masks.ts";
import type { PendingMessages } from "../commands/pending.ts";
import { findSharedSandbox } from "./grouping.ts";
import { planStart, planWork } from "./start-plan.ts";
import { StartSteps, type StartStepsDeps, toFailureReason } from "./start-steps.ts";
import { TaskFeed } from "./task-feed.ts";

/** Delay before a start retries after a failed write, ms. */
const retryDelayMs = 5_000;

export interface StarterDeps extends Omit<StartStepsDeps, "tasks" | "closing"> {
  pending: Pick<PendingMessages, "deliver" | "discard">;
  callbacks: Callbacks;
  secrets: Secrets;
  mask: OutputMasksDeps["mask"];
  logger: Logger;
}

/** Starts conversations in the background; see app-server.md sections 2.3 and 2.4. */
export class ConversationStarter {
  readonly tasks: TaskFeed;
  readonly #deps: StarterDeps;
  readonly #stepsDeps: StartStepsDeps;
  readonly #active = new Set<Promise<void>>();
  /** Conversations that are being started and may not be stored yet. */
  readonly #starting = new Set<string>();
  readonly #closing = new AbortController();

  constructor(deps: StarterDeps) {
    this.#deps = deps;
    this.tasks = new TaskFeed(deps.store.startTasks);
    this.#stepsDeps = { ...deps, tasks: this.tasks, closing: this.#closing.signal };
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
    return this.tasks.follow(task);
  }

  async #start(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<{ task: StartTaskRow; stored: Promise<void> }> {
    const { callbacks, secrets, store } = this.#deps;
    const plan = planStart(this.#deps, userId, request, (id) => this.#starting.has(id));
    const { id: conversationId, createdAt: now } = plan.conversation;
    const processors = request.processors ?? [];
    callbacks.check(processors);
    const shared = plan.sandboxId ?? findSharedSandbox(this.#deps, plan, request);
    const sandboxId = shared ?? newSandboxId();
    const task: StartTaskRow = {
      id: newId(),
      userId,
      status: "WORKING",
      detail: null,
      conversationId,
      sandboxId,
      request: storedRequest(request, conversationId),
      createdAt: now,
      updatedAt: now,
    };
    this.#starting.add(conversationId);
    try {
      // The task's request has no secret values, so they are stored first, for a start that resumes
      // after a
      // crash. The store removes values without a task when it is opened.
      const owner = { userId, conversationId, sandboxId };
      if (request.secrets && Object.keys(request.secrets).length > 0)
        await secrets.putConversation(owner, request.secrets);
      // Issued together, so they are one transaction.
      await Promise.all([
        callbacks.register(userId, conversationId, processors),
        store.startTasks.create(task),
      ]);
    } catch (error) {
      await this.#forget(conversationId);
      this.#starting.delete(conversationId);
      throw error;
    }
    const conversation = { ...plan.conversation, sandboxId };
    const ownsSandbox = shared === undefined;
    const steps = new StartSteps(this.#stepsDeps, { task, conversation, work: plan.work, ownsSandbox });
    const { promise: stored, resolve: onStored } = Promise.withResolvers<void>();
    this.#track(task, steps.start(request, onStored).finally(onStored));
    return { task, stored };
  }

  /** Resumes the open starts of an earlier process. */
  recover(): void {
    for (const task of this.#deps.store.startTasks.listOpen()) this.#track(task, this.#resume(task));
  }

  async #resume(task: StartTaskRow): Promise<void> {
    const { store, sandboxes, secrets, settings } = this.#deps;
    const { userId, conversationId } = task;
    const request = task.request as AppConversationStartRequest;
    const conversation = store.conversations.get(conversationId);
    const named = Boolean(request.sandbox_id || request.parent_conversation_id);
    if (!conversation) {
      // A sandbox that was created for it already has its network.
      const hasSandbox = task.sandboxId !== null && sandboxes.get(userId, task.sandboxId) !== undefined;
      const sameId = { ...request, conversation_id: conversationId };
      const plan = planStart(this.#deps, userId, sameId, () => false);
      const planned = { ...plan.conversation, sandboxId: task.sandboxId ?? newSandboxId() };
      const start = { task, conversation: planned, work: plan.work, ownsSandbox: !hasSandbox };
      return new StartSteps(this.#stepsDeps, start).start(request);
    }
    const work = planWork({ secrets }, userId, request, conversation.config, named);
    const ownsSandbox =
      !named && (settings.view(userId).sandbox_grouping_strategy ?? "NO_GROUPING") === "NO_GROUPING";
    await new StartSteps(this.#stepsDeps, { task, conversation, work, ownsSandbox }).resume();
  }

  #track(task: StartTaskRow, start: Promise<void>): void {
    const work = start.catch((error) => this.#fail(task, error));
    this.#active.add(work);
    void work.finally(() => {
      this.#active.delete(work);
      this.#starting.delete(task.conversationId);
    });
  }

  /** Interrupts starts that wait for their sandbox; the next process resumes them. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server is ending."));
    this.tasks.close();
    await Promise.all(this.#active);
  }

  async #forget(conversationId: string): Promise<void> {
    const { callbacks, secrets } = this.#deps;
    await Promise.allSettled([callbacks.drop(conversationId), secrets.removeConversation(conversationId)]);
  }

  async #fail(task: StartTaskRow, error: unknown): Promise<void> {
    // The next process resumes the start.
    if (this.#closing.signal.aborted && error === this.#closing.signal.reason) return;
    const { pending, logger, store } = this.#deps;
    if (error instanceof PlatformError && (error.code === "StorageFull" || error.code === "StorageBusy")) {
      // The failure could not be stored either, so the start is resumed once there is space.
      logger.warn({ task: task.id, reason: error.message }, "a start waits for the store");
      const waited = await sleep(retryDelayMs, true, { signal: this.#closing.signal }).catch(() => false);
      if (waited) await this.#resume(task).catch((again) => this.#fail(task, again));
      return;
    }
    const { conversationId } = task;
    await pending.discard(conversationId).catch(() => {});
    if (!store.conversations.get(conversationId)) await this.#forget(conversationId);
    const isExpected = error instanceof PlatformError;
    if (!isExpected) logger.error({ err: error, task: task.id }, "a conversation could not be started");
    await this.tasks.update(task.id, { status: "ERROR", detail: toFailureReason(error) }).catch((err) => {
      logger.error({ err, task: task.id }, "a start task could not be stored");
    });
  }
}

/** The request as stored and shown with its task: without secret values. */
function storedRequest(
  request: AppConversationStartRequest,
  conversationId: string,
): AppConversationStartRequest {
  const { secrets, processors } = request;
  return {
    ...request,
    conversation_id: request.conversation_id ? conversationId : null,
    ...(processors && { processors: withoutCallbackSecrets(processors) }),
    ...(secrets && { secrets: Object.fromEntries(Object.keys(secrets).map((name) => [name, maskText])) }),
  };
}
