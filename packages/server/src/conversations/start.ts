import type { AppConversationStartRequest, StartTaskStatus } from "@sandpiper/wire";
import { newId } from "@sandpiper/wire";
import { failure } from "../agent/records.ts";
import { type Callbacks, withoutCallbackSecrets } from "../callbacks/api.ts";
import { errorText, PlatformError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { OpenModel } from "../models/model.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import { withRepositoryHost } from "../sandboxes/network/repository-rule.ts";
import { networkOverride } from "../sandboxes/network-override.ts";
import { newSandboxId } from "../sandboxes/new-sandbox.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import type { ConversationRow, StartTaskRow, Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { abortable } from "./abortable.ts";
import type { SendOptions } from "./api.ts";
import { gitIdentity } from "./git-identity.ts";
import { chooseSandbox } from "./grouping.ts";
import type { Knowledge } from "./knowledge.ts";
import type { readContent } from "./messages.ts";
import { conversationModel } from "./model.ts";
import type { PendingMessages } from "./pending.ts";
import { type PreparedProject, prepareProject } from "./prepare-project.ts";
import type { Runner } from "./runner.ts";
import { type Plan, planStart, type StartWork, startWork } from "./start-plan.ts";
import { TaskFeed } from "./task-feed.ts";

/** What connecting to the model and writing the request take of this process, before its sandbox is started, ms. */
const headStartMs = 5;

export interface StarterDependencies {
  store: Store;
  callbacks: Callbacks;
  secrets: Secrets;
  sandboxes: Sandboxes;
  settings: Settings;
  runner: Runner;
  knowledge: Knowledge;
  openModel: OpenModel;
  send(id: string, content: ReturnType<typeof readContent>, options: SendOptions): Promise<void>;
  pending: Pick<PendingMessages, "deliver" | "discard">;
  logger: Logger;
}

/** A conversation that is being started. */
interface Start {
  task: StartTaskRow;
  conversation: Omit<ConversationRow, "updatedAt" | "summary">;
  work: StartWork;
  /** Its sandbox was made for it. */
  ownSandbox: boolean;
}

/** Starts conversations in the background and keeps their start tasks (app-server.md sections 2.3 and 2.4). */
export class Starter {
  readonly tasks: TaskFeed;
  readonly #deps: StarterDependencies;
  readonly #active = new Set<Promise<void>>();
  /** Conversations that are being started: the store may not have their rows yet. */
  readonly #starting = new Set<string>();
  readonly #closing = new AbortController();

  constructor(deps: StarterDependencies) {
    this.#deps = deps;
    this.tasks = new TaskFeed(deps.store.startTasks);
  }

  /** Throws what `planStart` throws, and InvalidParameter for a callback that cannot be used; nothing is stored then. */
  async start(userId: string, request: AppConversationStartRequest): Promise<StartTaskRow> {
    const { callbacks, secrets, store } = this.#deps;
    const plan = this.#plan(userId, request);
    const { id: conversationId, createdAt: now } = plan.conversation;
    const processors = request.processors ?? [];
    callbacks.check(processors);
    const shared = plan.sandboxId ?? this.#sandboxToShare(plan, request);
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
      // Values are not in the task's request, so they are kept before the task is: a start that goes on after a crash has them.
      const owner = { userId, conversationId, sandboxId };
      if (request.secrets && Object.keys(request.secrets).length > 0) await secrets.putConversation(owner, request.secrets);
      await Promise.all([callbacks.register(userId, conversationId, processors), store.startTasks.create(task)]);
    } catch (error) {
      await this.#forget(conversationId);
      this.#starting.delete(conversationId);
      throw error;
    }
    this.#track(task, this.#work(task, plan, { sandboxId, isNew: shared === undefined }, request));
    return task;
  }

  /** Goes on with the starts of a process that died: with what is missing of a conversation, or from the beginning. */
  recover(): void {
    for (const task of this.#deps.store.startTasks.listOpen()) this.#track(task, this.#resume(task));
  }

  async #resume(task: StartTaskRow): Promise<void> {
    const { store, sandboxes, secrets, settings } = this.#deps;
    const request = task.request as AppConversationStartRequest;
    const conversation = store.conversations.get(task.conversationId);
    const named = Boolean(request.sandbox_id || request.parent_conversation_id);
    if (!conversation) {
      // The sandbox that was made for it has its network already.
      const made = task.sandboxId !== null && sandboxes.get(task.userId, task.sandboxId) !== undefined;
      const plan = this.#plan(task.userId, { ...request, conversation_id: task.conversationId });
      return this.#work(task, plan, { sandboxId: task.sandboxId ?? newSandboxId(), isNew: !made }, request);
    }
    const work = startWork({ secrets }, task.userId, request, conversation.config, named);
    const ownSandbox = !named && (settings.view(task.userId).sandbox_grouping_strategy ?? "NO_GROUPING") === "NO_GROUPING";
    const start = { task, conversation, work, ownSandbox };
    if (!work.preparesFirst && work.message && store.events.lastSeq(conversation.id) === 0) await this.#sendFirst(start);
    await this.#finish(start);
  }

  #plan(userId: string, request: AppConversationStartRequest): Plan {
    return planStart(this.#deps, userId, request, (id) => this.#starting.has(id));
  }

  #track(task: StartTaskRow, start: Promise<void>): void {
    const work = start.catch((error) => this.#fail(task, error));
    this.#active.add(work);
    void work.finally(() => {
      this.#active.delete(work);
      this.#starting.delete(task.conversationId);
    });
  }

  /** Waits for the starts that go on; those that wait for their sandbox or work in it are left to the next process. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("The server is ending."));
    this.tasks.close();
    await Promise.all(this.#active);
  }

  /**
   * The conversation is made, and where nothing has to be read before, its first model call is under way, before the sandbox runs: the agent's tools
   * wait for it. A failing sandbox ends the task; the conversation then shows the same reason.
   */
  async #work(
    task: StartTaskRow,
    { conversation: planned, work }: Plan,
    { sandboxId, isNew }: { sandboxId: string; isNew: boolean },
    request: AppConversationStartRequest,
  ): Promise<void> {
    const { store, settings, openModel } = this.#deps;
    if (work.message) {
      const { model, ...rest } = conversationModel(planned, settings);
      openModel({ model: model ?? "", ...rest });
    }
    const conversation = { ...planned, sandboxId };
    const start: Start = { task, conversation, work, ownSandbox: isNew };
    // Starting a sandbox keeps this process busy for some milliseconds, so the model's first request goes out before.
    const { promise: asked, resolve: startSandbox } = Promise.withResolvers<void>();
    const goesFirst = work.message !== undefined && !work.preparesFirst;
    if (!goesFirst) startSandbox();
    try {
      // All in one go, and the task first: no crash leaves a sandbox that nothing leads to.
      const stored = await Promise.allSettled([
        this.#step(task, "WAITING_FOR_SANDBOX"),
        isNew && this.#newSandbox(start, request, asked),
        store.conversations.create(conversation),
      ]);
      for (const one of stored) if (one.status === "rejected") throw one.reason;
      if (goesFirst) await this.#sendFirst(start);
    } catch (error) {
      startSandbox();
      await this.#discard(start);
      throw error;
    }
    if (goesFirst) setTimeout(startSandbox, headStartMs);
    await this.#finish(start);
  }

  /** The user's sandbox that the conversation joins, where the settings let conversations share sandboxes. */
  #sandboxToShare({ conversation, strategy }: Plan, { sandbox_spec_id, network }: AppConversationStartRequest) {
    const { store, sandboxes } = this.#deps;
    const { userId } = conversation;
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

  /** A new sandbox may reach the hosts of what is cloned into it. */
  async #newSandbox({ conversation, work }: Start, request: AppConversationStartRequest, after: Promise<void>): Promise<void> {
    const { sandboxes } = this.#deps;
    const { userId, sandboxId: id } = conversation;
    const specId = request.sandbox_spec_id ?? undefined;
    const asked = request.network ? networkOverride(request.network) : undefined;
    const sources = [work.repository, ...work.plugins.map(({ repository }) => repository)].filter((one) => one !== undefined);
    let network = asked;
    if (sources.length > 0) {
      const policy = { ...sandboxes.specFor(userId, specId).network, ...asked };
      for (const { url } of sources) Object.assign(policy, withRepositoryHost(policy, hostAndPort(url)));
      network = { mode: policy.mode, allow: policy.allow };
    }
    await sandboxes.create(userId, specId, { id, after, ...(network && { network }) });
  }

  /** Waits for the sandbox and makes the project ready. The task shows how that goes on. */
  async #finish(start: Start): Promise<void> {
    const { task, conversation, work } = start;
    const { store, sandboxes, runner } = this.#deps;
    const unfollow = sandboxes.onChange((row) => {
      if (row.id !== conversation.sandboxId || !("status" in row) || row.status !== "STARTING") return;
      this.tasks.update(task.id, { detail: row.statusDetail }).catch(() => {});
    });
    // Tools of a run that somebody else begins wait until the project is there.
    const release = work.preparesFirst ? runner.workspace(conversation).hold() : () => {};
    try {
      const sandbox = await this.#orClosing(sandboxes.running(conversation.sandboxId)).finally(unfollow);
      const known = store.conversations.get(conversation.id);
      if (!known) throw deleted();
      if (work.preparesFirst) {
        const project = await this.#orClosing(this.#prepare(start, sandbox));
        await this.#deps.knowledge.gather(known, sandbox, project.plugins, project.notes);
        release();
        await this.#orClosing(runner.workspace(conversation).sandbox());
        await this.#step(task, "STARTING_CONVERSATION");
        if (work.message && store.events.batch(conversation.id, [task.id])[0] === null) await this.#sendFirst(start);
      } else {
        await this.#step(task, "PREPARING_REPOSITORY");
        await runner.workspace(conversation).sandbox();
        await this.#step(task, "STARTING_CONVERSATION");
      }
      await this.#step(task, "READY");
      void this.#deps.pending.deliver(conversation.id);
      // The image may bring skills along: messages from now on may name them.
      if (!work.preparesFirst) await this.#deps.knowledge.gather(known, sandbox, [], []).catch(() => {});
    } catch (error) {
      // The next start of the server goes on with it.
      if (this.#closing.signal.aborted) return;
      await runner.abort(conversation.id, "removed");
      if (!store.conversations.get(conversation.id)) await runner.forget(conversation.id);
      else if (work.preparesFirst && store.events.lastSeq(conversation.id) === 0) await this.#discard(start);
      else await this.#tellFailure(conversation.id, error);
      throw error;
    } finally {
      release();
    }
  }

  #prepare({ task, conversation, work }: Start, sandbox: Sandbox): Promise<PreparedProject> {
    const { settings, store } = this.#deps;
    const preferences = settings.agent(conversation.userId);
    const parent = conversation.parentId ? store.conversations.get(conversation.parentId) : undefined;
    return prepareProject(sandbox, {
      conversation,
      work,
      joinsProject: parent?.config.workingDir === conversation.config.workingDir,
      identity: gitIdentity(preferences),
      fullClone: preferences.gitFullClone,
      onStep: async (status, detail) => {
        if (!store.conversations.get(conversation.id)) throw deleted();
        await this.#step(task, status, detail);
      },
      signal: this.#closing.signal,
    });
  }

  /** The first message has an id that the task knows: it is never sent twice. */
  async #sendFirst({ task, conversation, work }: Start): Promise<void> {
    await this.#deps.send(conversation.id, work.message!, { run: true, eventId: task.id });
  }

  async #tellFailure(id: string, error: unknown): Promise<void> {
    const { store, runner } = this.#deps;
    const code = error instanceof PlatformError && error.code === "RepositoryFailed" ? error.code : "SandboxFailed";
    await store.events.append(id, failure(code, errorText(error)));
    runner.announceEnd(id);
  }

  /** Nothing is left of a conversation that could not be started as a whole and that nobody has written to. */
  async #discard({ conversation, ownSandbox }: Start): Promise<void> {
    const { store, sandboxes, runner } = this.#deps;
    const { id, userId, sandboxId } = conversation;
    await runner.forget(id);
    await store.conversations.remove(id).catch(() => {});
    await this.#forget(id);
    const others = store.conversations.bySandbox(sandboxId).length > 0;
    if (ownSandbox && !others && sandboxes.get(userId, sandboxId)) await sandboxes.remove(userId, sandboxId).catch(() => {});
  }

  async #forget(conversationId: string): Promise<void> {
    const { callbacks, secrets } = this.#deps;
    await Promise.allSettled([callbacks.drop(conversationId), secrets.dropConversation(conversationId)]);
  }

  async #step(task: StartTaskRow, status: StartTaskStatus, detail: string | null = null): Promise<void> {
    await this.tasks.update(task.id, { status, detail });
  }

  /** The work's result; throws when this process is about to end before it is there. */
  async #orClosing<T>(work: Promise<T>): Promise<T> {
    return abortable(work, this.#closing.signal);
  }

  async #fail(task: StartTaskRow, error: unknown): Promise<void> {
    await this.#deps.pending.discard(task.conversationId).catch(() => {});
    const known = error instanceof PlatformError;
    if (!known) this.#deps.logger.error({ err: error, task: task.id }, "a conversation could not be started");
    const detail = known ? error.message : "The conversation could not be started: an unexpected error, see the server's log.";
    await this.tasks.update(task.id, { status: "ERROR", detail }).catch((err) => {
      this.#deps.logger.error({ err, task: task.id }, "a start task could not be stored");
    });
  }
}

function deleted(): PlatformError {
  return new PlatformError("ConversationNotFound", "The conversation was deleted while it was being started.");
}

function hostAndPort(address: string): string {
  const { hostname, port, protocol } = new URL(address);
  return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
}

/** The request as its task keeps and shows it: without the values of secrets. */
function storedRequest(request: AppConversationStartRequest, conversationId: string): AppConversationStartRequest {
  const { secrets, processors } = request;
  return {
    ...request,
    conversation_id: request.conversation_id ? conversationId : null,
    ...(processors && { processors: withoutCallbackSecrets(processors) }),
    ...(secrets && { secrets: Object.fromEntries(Object.keys(secrets).map((name) => [name, "**********"])) }),
  };
}
