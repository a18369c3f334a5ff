import { failure } from "@sandpiper/agent/loop/status";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { withRepositoryHost } from "@sandpiper/sandbox/network/policy/repository-rule";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { toNetworkPolicy } from "@sandpiper/sandbox/specs/network-override";
import type { AppConversationStartRequest, StartTaskStatus } from "@sandpiper/wire";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow, NewConversation } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import { conversationModel } from "../agent/model.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { SendOptions } from "../api.ts";
import type { PendingMessages } from "../commands/pending.ts";
import { removeWithSandbox } from "../commands/removal.ts";
import type { parseContent } from "../log/messages.ts";
import { getGitIdentity } from "../project/clone.ts";
import type { Runner } from "../run/runner.ts";
import { type PreparedProject, prepareProject } from "./prepare-project.ts";
import { type StartWork, sourceHosts } from "./start-plan.ts";
import type { TaskFeed } from "./task-feed.ts";

/** What connecting to the model and writing the request take of this process, before its sandbox is started, ms. */
const headStartMs = 5;

/** How often the steps in a sandbox are done whose processes are ended under them. */
const maxAttempts = 5;

export interface StartStepsDeps {
  store: Store;
  callbacks: Callbacks;
  secrets: Secrets;
  sandboxes: Sandboxes;
  settings: Settings;
  runner: Runner;
  knowledge: ProjectKnowledge;
  openModel: OpenModel;
  send(id: string, content: ReturnType<typeof parseContent>, options: SendOptions): Promise<void>;
  pending: Pick<PendingMessages, "deliver">;
  /** Whether the first message of a conversation waits for tools, which may need the sandbox. */
  waitsForTools(conversation: NewConversation): boolean;
  tasks: TaskFeed;
  /** Aborted when this process is about to end. */
  closing: AbortSignal;
  logger: Logger;
}

/** The steps of one start, from its sandbox to READY. Each can be done again by a later process. */
export class StartSteps {
  readonly #deps: StartStepsDeps;
  readonly #task: StartTaskRow;
  readonly #conversation: NewConversation;
  readonly #work: StartWork;
  /** The sandbox is made for this conversation. */
  readonly #ownSandbox: boolean;

  constructor(
    deps: StartStepsDeps,
    task: StartTaskRow,
    conversation: NewConversation,
    work: StartWork,
    ownSandbox: boolean,
  ) {
    this.#deps = deps;
    this.#task = task;
    this.#conversation = conversation;
    this.#work = work;
    this.#ownSandbox = ownSandbox;
  }

  /**
   * The conversation is made, and where nothing has to be read before, its first model call is under way, before the sandbox runs: the agent's tools
   * wait for it. A failing sandbox ends the task; the conversation then shows the same reason. Throws why the start failed, or the reason of `closing`.
   * `onStored` is called once the conversation is stored.
   */
  async start(request: AppConversationStartRequest, onStored?: () => void): Promise<void> {
    const { store, settings, openModel } = this.#deps;
    const work = this.#work;
    if (work.message) {
      const { model, ...rest } = conversationModel(this.#conversation, settings);
      openModel({ model: model ?? "", ...rest });
    }
    // Starting a sandbox keeps this process busy for some milliseconds, so the model's first request goes out before.
    const { promise: asked, resolve: startSandbox } = Promise.withResolvers<void>();
    const goesFirst = work.message !== undefined && !work.preparesFirst;
    if (!goesFirst || this.#deps.waitsForTools(this.#conversation)) startSandbox();
    try {
      // All in one go, and the task first: no crash leaves a sandbox that nothing leads to.
      const stored = await Promise.allSettled([
        this.#step("WAITING_FOR_SANDBOX"),
        this.#ownSandbox && this.#newSandbox(request, asked),
        store.conversations.create(this.#conversation),
      ]);
      for (const one of stored) if (one.status === "rejected") throw one.reason;
      onStored?.();
      if (goesFirst) await this.#sendFirst();
    } catch (error) {
      startSandbox();
      await this.#discard(error);
      throw error;
    }
    if (goesFirst) setTimeout(startSandbox, headStartMs);
    await this.#finish();
  }

  /** Goes on with a start whose conversation is there. Throws as `begin`. */
  async resume(): Promise<void> {
    const { message, preparesFirst } = this.#work;
    if (!preparesFirst && message && this.#isEmpty()) await this.#sendFirst();
    await this.#finish();
  }

  /** Waits for the sandbox and makes the project ready. The task shows how that goes on. */
  async #finish(): Promise<void> {
    const { id } = this.#conversation;
    const { store, runner, knowledge, pending, closing } = this.#deps;
    const { preparesFirst } = this.#work;
    // Tools of a run that somebody else begins wait until the project is there.
    const release = preparesFirst ? runner.workspace(this.#conversation).block() : () => {};
    let sandbox: Sandbox;
    try {
      sandbox = await this.#ready(release);
      await this.#step("READY");
    } catch (error) {
      // The next start of the server goes on with it.
      closing.throwIfAborted();
      await runner.abort(id, "removed");
      if (!store.conversations.get(id)) await runner.remove(id);
      else if (preparesFirst && this.#isEmpty()) await this.#discard(error);
      else await this.#reportFailure(error);
      throw error;
    } finally {
      release();
    }
    void pending.deliver(id);
    // The image may bring skills along: messages from now on may name them.
    const row = store.conversations.get(id);
    if (row && !preparesFirst)
      await knowledge
        .collect(row, sandbox, { plugins: [], notes: [], late: !this.#isEmpty() })
        .catch(() => {});
  }

  /** The sandbox with its project, and the conversation with its first message. A snapshot or a stop may end a step's processes: then all are done again. */
  async #ready(release: () => void): Promise<Sandbox> {
    for (let attempt = 1; ; attempt++) {
      const sandbox = await this.#sandbox();
      try {
        await this.#inSandbox(sandbox, release);
        return sandbox;
      } catch (error) {
        this.#deps.closing.throwIfAborted();
        const now = await this.#sandbox().catch(() => sandbox);
        if (attempt === maxAttempts || now.incarnation === sandbox.incarnation) throw error;
      }
    }
  }

  async #inSandbox(sandbox: Sandbox, release: () => void): Promise<void> {
    const { runner, knowledge, store } = this.#deps;
    const { message, preparesFirst } = this.#work;
    const workspace = runner.workspace(this.#conversation);
    const row = this.#requireRow();
    if (!preparesFirst) {
      await this.#step("PREPARING_REPOSITORY");
      await workspace.sandbox();
      return this.#step("STARTING_CONVERSATION");
    }
    const project = await this.#untilClosing(this.#prepare(sandbox));
    await knowledge.collect(row, sandbox, { ...project, late: false });
    release();
    await this.#untilClosing(workspace.sandbox());
    await this.#step("STARTING_CONVERSATION");
    if (message && store.events.batch(row.id, [this.#task.id])[0] === null) await this.#sendFirst();
  }

  /** The running sandbox; until it runs, the task tells how its start goes on. */
  async #sandbox(): Promise<Sandbox> {
    const { sandboxes, tasks } = this.#deps;
    const { sandboxId } = this.#conversation;
    const unfollow = sandboxes.onChange((row) => {
      if (row.id !== sandboxId || !("status" in row) || row.status !== "STARTING") return;
      tasks.update(this.#task.id, { detail: row.statusDetail }).catch(() => {});
    });
    return this.#untilClosing(sandboxes.running(sandboxId)).finally(unfollow);
  }

  #prepare(sandbox: Sandbox): Promise<PreparedProject> {
    const { settings, store, closing: signal } = this.#deps;
    const conversation = this.#conversation;
    const preferences = settings.agent(conversation.userId);
    const parent = conversation.parentId ? store.conversations.get(conversation.parentId) : undefined;
    return prepareProject(sandbox, {
      conversation,
      work: this.#work,
      joinsProject: parent?.config.workingDir === conversation.config.workingDir,
      identity: getGitIdentity(preferences),
      fullClone: preferences.gitFullClone,
      onStep: async (status, detail) => {
        this.#requireRow();
        await this.#step(status, detail);
      },
      signal,
    });
  }

  /** A new sandbox may reach the hosts of what is cloned into it. */
  async #newSandbox(request: AppConversationStartRequest, after: Promise<void>): Promise<void> {
    const { sandboxes } = this.#deps;
    const { userId, sandboxId: id } = this.#conversation;
    const specId = request.sandbox_spec_id ?? undefined;
    const asked = request.network ? toNetworkPolicy(request.network) : undefined;
    const hosts = sourceHosts(this.#work);
    let network = asked;
    if (hosts.length > 0) {
      const policy = { ...sandboxes.resolveSpec(userId, specId).network, ...asked };
      for (const host of hosts) Object.assign(policy, withRepositoryHost(policy, host));
      network = { mode: policy.mode, allow: policy.allow };
    }
    await sandboxes.create(userId, specId, { id, after, ...(network && { network }) });
  }

  /** The first message has an id that the task knows: it is never sent twice. */
  async #sendFirst(): Promise<void> {
    await this.#deps.send(this.#conversation.id, this.#work.message!, { run: true, eventId: this.#task.id });
  }

  async #reportFailure(error: unknown): Promise<void> {
    const { store, runner } = this.#deps;
    const { id } = this.#conversation;
    const code =
      error instanceof PlatformError && error.code === "RepositoryFailed" ? error.code : "SandboxFailed";
    await store.events.append(id, failure(code, errorText(error)));
    runner.announcements.announceEnd(id);
  }

  /** Nothing is left of a conversation that could not be started as a whole and that nobody has written to. */
  async #discard(error: unknown): Promise<void> {
    await this.#deps.runner.remove(this.#conversation.id);
    const how = { keepSandbox: !this.#ownSandbox, endsStart: toFailureReason(error) };
    await removeWithSandbox(this.#deps, this.#conversation, how).catch(() => {});
  }

  /** The conversation as it is now. Throws where it, or the parent that it was started for, was deleted meanwhile. */
  #requireRow(): ConversationRow {
    const { conversations } = this.#deps.store;
    const { id, parentId } = this.#conversation;
    const row = conversations.get(id);
    if (row && (parentId === null || conversations.get(parentId))) return row;
    const what = row ? "The parent conversation" : "The conversation";
    throw new PlatformError("ConversationNotFound", `${what} was deleted while it was being started.`);
  }

  #isEmpty(): boolean {
    return this.#deps.store.events.lastSeq(this.#conversation.id) === 0;
  }

  async #step(status: StartTaskStatus, detail: string | null = null): Promise<void> {
    await this.#deps.tasks.update(this.#task.id, { status, detail });
  }

  /** The work's result; throws when this process is about to end before it is there. */
  async #untilClosing<T>(work: Promise<T>): Promise<T> {
    return abortable(work, this.#deps.closing);
  }
}

/** What a start task says of an error. */
export function toFailureReason(error: unknown): string {
  if (error instanceof PlatformError) return error.message;
  return "The conversation could not be started: an unexpected error, see the server's log.";
}
