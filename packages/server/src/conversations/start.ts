import type { AppConversationStartRequest, StartTaskStatus } from "@sandpiper/wire";
import { hexId, newId, parseId } from "@sandpiper/wire";
import { failure } from "../agent/records.ts";
import { errorText, PlatformError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { OpenModel } from "../models/model.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationConfig, ConversationRow, StartTaskRow, Store } from "../store/store.ts";
import type { Settings } from "../users/api.ts";
import { readContent, titleFrom } from "./messages.ts";
import { conversationModel } from "./model.ts";
import type { Runner } from "./runner.ts";

/** What connecting to the model and writing the request take of this process, before its sandbox is started, ms. */
const headStartMs = 5;

export interface StarterDependencies {
  store: Store;
  sandboxes: Sandboxes;
  settings: Settings;
  runner: Runner;
  openModel: OpenModel;
  send(id: string, content: ReturnType<typeof readContent>, options: { run: boolean }): Promise<void>;
  logger: Logger;
}

/** A request that was checked: everything about the conversation but its sandbox. */
type Plan = Omit<ConversationRow, "sandboxId" | "updatedAt" | "summary"> & {
  sandboxId: string | undefined;
  specId: string | undefined;
};

/** Starts conversations in the background and keeps their start tasks (app-server.md sections 2.3 and 2.4). */
export class Starter {
  readonly #deps: StarterDependencies;
  readonly #active = new Set<Promise<void>>();
  /** Conversations that are being started: the store may not have their rows yet. */
  readonly #starting = new Set<string>();

  constructor(deps: StarterDependencies) {
    this.#deps = deps;
  }

  /** Throws InvalidParameter, ConversationExists, SandboxNotFound, SandboxSpecNotFound, ConversationNotFound (the parent); nothing is stored then. */
  async start(userId: string, request: AppConversationStartRequest): Promise<StartTaskRow> {
    const plan = this.#check(userId, request);
    const now = plan.createdAt;
    const task: StartTaskRow = {
      id: newId(),
      userId,
      status: "WORKING",
      detail: null,
      conversationId: plan.id,
      sandboxId: null,
      request: { ...request, conversation_id: request.conversation_id ? plan.id : null },
      createdAt: now,
      updatedAt: now,
    };
    this.#starting.add(plan.id);
    try {
      await this.#deps.store.startTasks.create(task);
    } catch (error) {
      this.#starting.delete(plan.id);
      throw error;
    }
    this.#track(task, this.#work(task, plan, request));
    return task;
  }

  /** Goes on with the starts of a process that died: with what is missing of a conversation, or from the beginning. */
  recover(): void {
    for (const task of this.#deps.store.startTasks.listOpen()) this.#track(task, this.#resume(task));
  }

  async #resume(task: StartTaskRow): Promise<void> {
    const { conversations, events } = this.#deps.store;
    const request = task.request as AppConversationStartRequest;
    const conversation = conversations.get(task.conversationId);
    if (!conversation) {
      const sandbox_id = task.sandboxId ?? request.sandbox_id;
      const plan = this.#check(task.userId, { ...request, conversation_id: task.conversationId, sandbox_id });
      return this.#work(task, plan, request);
    }
    if (request.initial_message && events.lastSeq(conversation.id) === 0) {
      await this.#deps.send(conversation.id, readContent(request.initial_message.content), { run: true });
    }
    await this.#finish(task, conversation);
  }

  #track(task: StartTaskRow, start: Promise<void>): void {
    const work = start.catch((error) => this.#fail(task, error));
    this.#active.add(work);
    void work.finally(() => {
      this.#active.delete(work);
      this.#starting.delete(task.conversationId);
    });
  }

  /** Waits for the starts that go on. */
  async close(): Promise<void> {
    await Promise.all(this.#active);
  }

  #check(userId: string, request: AppConversationStartRequest): Plan {
    const { store, sandboxes, settings } = this.#deps;
    const id = request.conversation_id ? parseId(request.conversation_id) : newId();
    if (!id) throw new PlatformError("InvalidParameter", "conversation_id is not a UUID.");
    if (this.#starting.has(id) || store.conversations.get(id))
      throw new PlatformError("ConversationExists", `The conversation ${hexId(id)} exists already.`);

    let parent: ConversationRow | undefined;
    if (request.parent_conversation_id) {
      const parentId = parseId(request.parent_conversation_id);
      parent = parentId ? store.conversations.get(parentId) : undefined;
      if (parent?.userId !== userId) throw new PlatformError("ConversationNotFound", "The parent conversation does not exist.");
    }
    const sandboxId = request.sandbox_id ?? parent?.sandboxId;
    const sandbox = sandboxId ? sandboxes.get(userId, sandboxId) : undefined;
    if (sandboxId && !sandbox) throw new PlatformError("SandboxNotFound", `The sandbox ${sandboxId} does not exist.`);
    const specs = sandboxes.specs();
    const specId = request.sandbox_spec_id ?? sandbox?.specId ?? specs[0]?.id;
    const spec = specs.find((candidate) => candidate.id === specId);
    if (!spec) throw new PlatformError("SandboxSpecNotFound", `The sandbox spec ${specId} does not exist.`);

    const config: ConversationConfig = {
      llmModel: request.llm_model ?? parent?.config.llmModel ?? null,
      selectedRepository: request.selected_repository ?? parent?.config.selectedRepository ?? null,
      selectedBranch: request.selected_branch ?? parent?.config.selectedBranch ?? null,
      gitProvider: request.git_provider ?? parent?.config.gitProvider ?? null,
      trigger: request.trigger ?? null,
      prNumber: request.pr_number ?? [],
      public: request.public ?? null,
      tags: request.tags ?? {},
      agentType: request.agent_type ?? "default",
      systemMessageSuffix: request.system_message_suffix ?? null,
      workingDir: parent?.config.workingDir ?? spec.workingDir,
      maxIterations: settings.agent(userId).maxIterations,
    };
    const message = request.initial_message ? readContent(request.initial_message.content) : [];
    return {
      id,
      userId,
      sandboxId,
      specId: sandboxId ? undefined : spec.id,
      config,
      title: request.title ?? titleFrom(message) ?? `Conversation ${hexId(id).slice(0, 5)}`,
      parentId: parent?.id ?? null,
      createdAt: Date.now(),
    };
  }

  /**
   * The conversation is made, and its first model call is under way, before the sandbox runs: the agent's tools wait for it.
   * A failing sandbox ends the task; the conversation then shows the same reason.
   */
  async #work(task: StartTaskRow, plan: Plan, request: AppConversationStartRequest): Promise<void> {
    const { store, sandboxes, settings, openModel } = this.#deps;
    if (request.selected_repository) {
      throw new PlatformError(
        "InvalidParameter",
        "This version does not clone repositories by itself: leave out selected_repository and upload the files to a sandbox (PUT /api/v1/sandboxes/{id}/archive), or use `sandpiper run --repo`.",
      );
    }
    if (request.initial_message) {
      const { model, ...rest } = conversationModel(plan, settings);
      openModel({ model: model ?? "", ...rest });
    }
    const { specId, ...conversation } = plan;
    // Starting a sandbox keeps this process busy for some milliseconds, so the model's first request goes out before.
    const { promise: asked, resolve: startSandbox } = Promise.withResolvers<void>();
    const sandboxId = plan.sandboxId ?? (await sandboxes.create(plan.userId, specId, { after: asked })).id;
    try {
      await Promise.all([
        store.conversations.create({ ...conversation, sandboxId }),
        store.startTasks.update(task.id, { status: "WAITING_FOR_SANDBOX", sandboxId }),
      ]);
      if (request.initial_message) {
        await this.#deps.send(plan.id, readContent(request.initial_message.content), { run: true });
      }
    } catch (error) {
      startSandbox();
      // Nothing is left of a conversation that could not be stored as a whole.
      await store.conversations.remove(plan.id).catch(() => {});
      if (!plan.sandboxId) await sandboxes.remove(plan.userId, sandboxId).catch(() => {});
      throw error;
    }
    if (request.initial_message) setTimeout(startSandbox, headStartMs);
    else startSandbox();
    await this.#finish(task, { ...conversation, sandboxId });
  }

  /** Waits for the sandbox and its working folder. */
  async #finish(task: StartTaskRow, conversation: Pick<ConversationRow, "id" | "sandboxId" | "config">): Promise<void> {
    const { store, sandboxes, runner } = this.#deps;
    try {
      await sandboxes.running(conversation.sandboxId);
      await this.#step(task, "PREPARING_REPOSITORY");
      await runner.workspace(conversation).sandbox();
      await this.#step(task, "STARTING_CONVERSATION");
      await this.#step(task, "READY");
    } catch (error) {
      await runner.abort(conversation.id, "removed");
      await store.events.append(conversation.id, failure("SandboxFailed", errorText(error)));
      runner.announceEnd(conversation.id);
      throw error;
    }
  }

  async #step(task: StartTaskRow, status: StartTaskStatus): Promise<void> {
    await this.#deps.store.startTasks.update(task.id, { status });
  }

  async #fail(task: StartTaskRow, error: unknown): Promise<void> {
    const known = error instanceof PlatformError;
    if (!known) this.#deps.logger.error({ err: error, task: task.id }, "a conversation could not be started");
    const detail = known ? error.message : "The conversation could not be started: an unexpected error, see the server's log.";
    await this.#deps.store.startTasks.update(task.id, { status: "ERROR", detail }).catch((err) => {
      this.#deps.logger.error({ err, task: task.id }, "a start task could not be stored");
    });
  }
}
