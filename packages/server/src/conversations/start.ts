import type { AppConversationStartRequest, StartTaskStatus } from "@sandpiper/wire";
import { type GroupingStrategy, hexId, newId, parseId } from "@sandpiper/wire";
import { failure } from "../agent/records.ts";
import { type Callbacks, withoutCallbackSecrets } from "../callbacks/api.ts";
import { errorText, PlatformError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { OpenModel } from "../models/model.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import { networkOverride } from "../sandboxes/network-override.ts";
import { newSandboxId } from "../sandboxes/new-sandbox.ts";
import type { ConversationConfig, ConversationRow, StartTaskRow, Store } from "../store/store.ts";
import type { Settings } from "../users/api.ts";
import { abortable } from "./abortable.ts";
import { chooseSandbox } from "./grouping.ts";
import { readContent, titleFrom } from "./messages.ts";
import { conversationModel } from "./model.ts";
import type { PendingMessages } from "./pending.ts";
import type { Runner } from "./runner.ts";

/** What connecting to the model and writing the request take of this process, before its sandbox is started, ms. */
const headStartMs = 5;

export interface StarterDependencies {
  store: Store;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  settings: Settings;
  runner: Runner;
  openModel: OpenModel;
  send(id: string, content: ReturnType<typeof readContent>, options: { run: boolean }): Promise<void>;
  pending: Pick<PendingMessages, "deliver" | "discard">;
  logger: Logger;
}

/** A request that was checked: everything about the conversation but its sandbox. */
type Plan = Omit<ConversationRow, "sandboxId" | "updatedAt" | "summary"> & {
  sandboxId: string | undefined;
  strategy: GroupingStrategy;
};

/** Starts conversations in the background and keeps their start tasks (app-server.md sections 2.3 and 2.4). */
export class Starter {
  readonly #deps: StarterDependencies;
  readonly #active = new Set<Promise<void>>();
  /** Conversations that are being started: the store may not have their rows yet. */
  readonly #starting = new Set<string>();
  readonly #closing = new AbortController();

  constructor(deps: StarterDependencies) {
    this.#deps = deps;
  }

  /** Throws InvalidParameter, ConversationExists, SandboxNotFound, SandboxSpecNotFound, ConversationNotFound (the parent); nothing is stored then. */
  async start(userId: string, request: AppConversationStartRequest): Promise<StartTaskRow> {
    const plan = this.#check(userId, request);
    this.#deps.callbacks.check(request.processors ?? []);
    const now = plan.createdAt;
    const task: StartTaskRow = {
      id: newId(),
      userId,
      status: "WORKING",
      detail: null,
      conversationId: plan.id,
      sandboxId: null,
      request: {
        ...request,
        conversation_id: request.conversation_id ? plan.id : null,
        ...(request.processors && { processors: withoutCallbackSecrets(request.processors) }),
      },
      createdAt: now,
      updatedAt: now,
    };
    this.#starting.add(plan.id);
    try {
      const registered = this.#deps.callbacks.register(userId, plan.id, request.processors ?? []);
      await Promise.all([registered, this.#deps.store.startTasks.create(task)]);
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
      // The sandbox that was made for it has its network already.
      const made = task.sandboxId !== null && this.#deps.sandboxes.get(task.userId, task.sandboxId) !== undefined;
      const known = made ? { sandbox_id: task.sandboxId, network: null } : {};
      const plan = this.#check(task.userId, { ...request, conversation_id: task.conversationId, ...known });
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

  /** Waits for the starts that go on; those that wait for their sandbox are left to the next process. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server is ending."));
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
    if (sandbox && request.network)
      throw new PlatformError(
        "InvalidParameter",
        "The network of a sandbox is set when it is made: leave out network or sandbox_id.",
      );
    const spec = sandbox ? sandboxes.specOf(sandbox) : sandboxes.specFor(userId, request.sandbox_spec_id ?? undefined);
    const strategy = settings.view(userId).sandbox_grouping_strategy ?? "NO_GROUPING";
    // Conversations that share a sandbox do not share a folder.
    const workingDir = strategy === "NO_GROUPING" ? spec.workingDir : `${spec.workingDir.replace(/\/+$/, "")}/${hexId(id)}`;

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
      workingDir: parent?.config.workingDir ?? workingDir,
      maxIterations: settings.agent(userId).maxIterations,
    };
    const message = request.initial_message ? readContent(request.initial_message.content) : [];
    return {
      id,
      userId,
      sandboxId,
      strategy,
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
    const { strategy, ...conversation } = plan;
    // Starting a sandbox keeps this process busy for some milliseconds, so the model's first request goes out before.
    const { promise: asked, resolve: startSandbox } = Promise.withResolvers<void>();
    const shared = plan.sandboxId ?? this.#sandboxToShare(plan, request);
    const sandboxId = shared ?? newSandboxId();
    try {
      // All in one go, and the task first: no crash leaves a sandbox that nothing leads to.
      const stored = await Promise.allSettled([
        store.startTasks.update(task.id, { status: "WAITING_FOR_SANDBOX", sandboxId }),
        shared === undefined && this.#newSandbox(plan.userId, sandboxId, request, asked),
        store.conversations.create({ ...conversation, sandboxId }),
      ]);
      for (const one of stored) if (one.status === "rejected") throw one.reason;
      if (request.initial_message) {
        await this.#deps.send(plan.id, readContent(request.initial_message.content), { run: true });
      }
    } catch (error) {
      startSandbox();
      // Nothing is left of a conversation that could not be stored as a whole.
      await store.conversations.remove(plan.id).catch(() => {});
      await this.#deps.callbacks.drop(plan.id).catch(() => {});
      if (!shared) await sandboxes.remove(plan.userId, sandboxId).catch(() => {});
      throw error;
    }
    if (request.initial_message) setTimeout(startSandbox, headStartMs);
    else startSandbox();
    await this.#finish(task, { ...conversation, sandboxId });
  }

  /** The user's sandbox that the conversation joins, where the settings let conversations share sandboxes. */
  #sandboxToShare({ userId, strategy }: Plan, { sandbox_spec_id, network }: AppConversationStartRequest): string | undefined {
    const { store, sandboxes } = this.#deps;
    if (strategy === "NO_GROUPING" || network) return undefined;
    const candidates = sandboxes
      .search(userId, { limit: 1_000 })
      .items.filter(({ status, specId }) => status === "RUNNING" && specId === (sandbox_spec_id ?? specId))
      .map(({ id, createdAt }) => {
        const filter = { userId, sandboxId: id, includeSubConversations: true };
        return { id, createdAt, conversations: store.conversations.count(filter) };
      });
    return chooseSandbox(strategy, candidates);
  }

  async #newSandbox(userId: string, id: string, request: AppConversationStartRequest, after: Promise<void>): Promise<void> {
    const { sandbox_spec_id, network } = request;
    const options = { id, after, ...(network && { network: networkOverride(network) }) };
    await this.#deps.sandboxes.create(userId, sandbox_spec_id ?? undefined, options);
  }

  /** Waits for the sandbox and its working folder. The task shows how the preparation of the sandbox goes on. */
  async #finish(task: StartTaskRow, conversation: Pick<ConversationRow, "id" | "sandboxId" | "config">): Promise<void> {
    const { store, sandboxes, runner } = this.#deps;
    const unfollow = sandboxes.onChange((row) => {
      if (row.id !== conversation.sandboxId || !("status" in row) || row.status !== "STARTING") return;
      store.startTasks.update(task.id, { detail: row.statusDetail }).catch(() => {});
    });
    try {
      await this.#orClosing(sandboxes.running(conversation.sandboxId)).finally(unfollow);
      await this.#step(task, "PREPARING_REPOSITORY");
      await runner.workspace(conversation).sandbox();
      await this.#step(task, "STARTING_CONVERSATION");
      await this.#step(task, "READY");
      void this.#deps.pending.deliver(conversation.id);
    } catch (error) {
      // The next start of the server goes on with it.
      if (this.#closing.signal.aborted) return;
      await runner.abort(conversation.id, "removed");
      await store.events.append(conversation.id, failure("SandboxFailed", errorText(error)));
      runner.announceEnd(conversation.id);
      throw error;
    }
  }

  async #step(task: StartTaskRow, status: StartTaskStatus): Promise<void> {
    await this.#deps.store.startTasks.update(task.id, { status, detail: null });
  }

  /** The work's result; throws when this process is about to end before it is there. */
  async #orClosing<T>(work: Promise<T>): Promise<T> {
    return abortable(work, this.#closing.signal);
  }

  async #fail(task: StartTaskRow, error: unknown): Promise<void> {
    const known = error instanceof PlatformError;
    if (!known) this.#deps.logger.error({ err: error, task: task.id }, "a conversation could not be started");
    const detail = known ? error.message : "The conversation could not be started: an unexpected error, see the server's log.";
    await this.#deps.store.startTasks.update(task.id, { status: "ERROR", detail }).catch((err) => {
      this.#deps.logger.error({ err, task: task.id }, "a start task could not be stored");
    });
    await this.#deps.pending.discard(task.conversationId).catch(() => {});
  }
}
