import { failure } from "@sandpiper/agent/loop/status";
import { abortable } from "@sandpiper/core/abortable";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { withRepositoryHost } from "@sandpiper/sandbox/network/policy/repository-rule";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { toNetworkPolicy } from "@sandpiper/sandbox/specs/network-override";
import type { AppConversationStartRequest, StartTaskStatus } from "@sandpiper/wire";
import type { ConversationRow, NewConversation } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { conversationModel } from "../agent/agent-config.ts";
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

/** Delay of the sandbox's start, so that the first model request is written before it, ms. */
const headStartMs = 5;

/** Maximum attempts when the sandbox restarts in the middle of a start. */
const maxAttempts = 5;

export interface StartStepsDeps {
  store: Store;
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
  /** Aborted at shutdown. */
  closing: AbortSignal;
}

export interface Start {
  task: StartTaskRow;
  conversation: NewConversation;
  work: StartWork;
  /** Whether the sandbox is created for this conversation. */
  ownsSandbox: boolean;
}

/** The steps of one start up to READY; a later process can repeat each of them. */
export class StartSteps {
  readonly #deps: StartStepsDeps;
  readonly #start: Start;

  constructor(deps: StartStepsDeps, start: Start) {
    this.#deps = deps;
    this.#start = start;
  }

  /**
   * Stores the conversation and calls `onStored`, starts the first model call if nothing has to be
   * read before it, and waits for the sandbox, in which the agent's tools run. A failing sandbox
   * ends the task, and the conversation shows the same reason. Throws the reason of the failure, or
   * that of `closing`.
   */
  async start(request: AppConversationStartRequest, onStored?: () => void): Promise<void> {
    const { store, settings, openModel } = this.#deps;
    const work = this.#start.work;
    if (work.message) {
      const { model, ...rest } = conversationModel(this.#start.conversation, settings);
      openModel({ model: model ?? "", ...rest });
    }
    // Starting a sandbox blocks this process for some milliseconds, so the first model request goes
    // first.
    const { promise: sandboxMayStart, resolve: startSandbox } = Promise.withResolvers<void>();
    const goesFirst = work.message !== undefined && !work.preparesFirst;
    if (!goesFirst || this.#deps.waitsForTools(this.#start.conversation)) startSandbox();
    try {
      // One transaction, task first, so that a crash cannot leave an unreferenced sandbox.
      const stored = await Promise.allSettled([
        this.#step("WAITING_FOR_SANDBOX"),
        this.#start.ownsSandbox && this.#createSandbox(request, sandboxMayStart),
        store.conversations.create(this.#start.conversation),
      ]);
      for (const result of stored) if (result.status === "rejected") throw result.reason;
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

  /** Resumes a start whose conversation is stored. Throws as `start`. */
  async resume(): Promise<void> {
    const { message, preparesFirst } = this.#start.work;
    if (!preparesFirst && message && this.#isEmpty()) await this.#sendFirst();
    await this.#finish();
  }

  /** Waits for the sandbox and prepares the project; the task shows the progress. */
  async #finish(): Promise<void> {
    const { id } = this.#start.conversation;
    const { store, runner, knowledge, pending, closing } = this.#deps;
    const { preparesFirst } = this.#start.work;
    // The tools of a run that a client starts wait for the project.
    const release = preparesFirst ? runner.workspace(this.#start.conversation).block() : () => {};
    let sandbox: Sandbox;
    try {
      sandbox = await this.#ready(release);
      await this.#step("READY");
    } catch (error) {
      // The next process resumes the start.
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
    // Later messages may name skills of the image.
    const row = store.conversations.get(id);
    if (row && !preparesFirst)
      await knowledge
        .collect(row, sandbox, { plugins: [], notes: [], late: !this.#isEmpty() })
        .catch(() => {});
  }

  /** Prepares the sandbox and sends the first message; repeats this when the sandbox restarts. */
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
    const { message, preparesFirst } = this.#start.work;
    const workspace = runner.workspace(this.#start.conversation);
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
    if (message && store.events.batch(row.id, [this.#start.task.id])[0] === null) await this.#sendFirst();
  }

  /** The running sandbox; until then the task shows the progress of its start. */
  async #sandbox(): Promise<Sandbox> {
    const { sandboxes, tasks } = this.#deps;
    const { sandboxId } = this.#start.conversation;
    const unfollow = sandboxes.onChange((row) => {
      if (row.id !== sandboxId || !("status" in row) || row.status !== "STARTING") return;
      tasks.update(this.#start.task.id, { detail: row.statusDetail }).catch(() => {});
    });
    return this.#untilClosing(sandboxes.running(sandboxId)).finally(unfollow);
  }

  #prepare(sandbox: Sandbox): Promise<PreparedProject> {
    const { settings, store, closing: signal } = this.#deps;
    const conversation = this.#start.conversation;
    const preferences = settings.agent(conversation.userId);
    const parent = conversation.parentId ? store.conversations.get(conversation.parentId) : undefined;
    return prepareProject(sandbox, {
      conversation,
      work: this.#start.work,
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

  /** Creates the sandbox with access to the hosts of repository and plugins. */
  async #createSandbox(request: AppConversationStartRequest, after: Promise<void>): Promise<void> {
    const { sandboxes } = this.#deps;
    const { userId, sandboxId: id } = this.#start.conversation;
    const specId = request.sandbox_spec_id ?? undefined;
    const requested = request.network ? toNetworkPolicy(request.network) : undefined;
    const hosts = sourceHosts(this.#start.work);
    let network = requested;
    if (hosts.length > 0) {
      const policy = { ...sandboxes.resolveSpec(userId, specId).network, ...requested };
      for (const host of hosts) Object.assign(policy, withRepositoryHost(policy, host));
      network = { mode: policy.mode, allow: policy.allow };
    }
    await sandboxes.create(userId, specId, { id, after, ...(network && { network }) });
  }

  /** The message has the task's id, so that it is never sent twice. */
  async #sendFirst(): Promise<void> {
    await this.#deps.send(this.#start.conversation.id, this.#start.work.message!, {
      run: true,
      eventId: this.#start.task.id,
    });
  }

  async #reportFailure(error: unknown): Promise<void> {
    const { store, runner } = this.#deps;
    const { id } = this.#start.conversation;
    const code =
      error instanceof PlatformError && error.code === "RepositoryFailed" ? error.code : "SandboxFailed";
    await store.events.append(id, failure(code, errorText(error)));
    runner.announcements.announceEnd(id);
  }

  /** Removes a conversation whose start failed before its first message. */
  async #discard(error: unknown): Promise<void> {
    await this.#deps.runner.remove(this.#start.conversation.id);
    const how = { keepSandbox: !this.#start.ownsSandbox, endsStart: toFailureReason(error) };
    await removeWithSandbox(this.#deps, this.#start.conversation, how).catch(() => {});
  }

  /** The current record. Throws when the conversation or its parent was deleted in the meantime. */
  #requireRow(): ConversationRow {
    const { conversations } = this.#deps.store;
    const { id, parentId } = this.#start.conversation;
    const row = conversations.get(id);
    if (row && (parentId === null || conversations.get(parentId))) return row;
    const what = row ? "The parent conversation" : "The conversation";
    throw new PlatformError("DeletedDuringStart", { what });
  }

  #isEmpty(): boolean {
    return this.#deps.store.events.lastSeq(this.#start.conversation.id) === 0;
  }

  async #step(status: StartTaskStatus, detail: string | null = null): Promise<void> {
    await this.#deps.tasks.update(this.#start.task.id, { status, detail });
  }

  /** The result of the work; throws the reason of `closing` when that comes first. */
  #untilClosing<T>(work: Promise<T>): Promise<T> {
    return abortable(work, this.#deps.closing);
  }
}

/** The detail of a failed start task. */
export function toFailureReason(error: unknown): string {
  if (error instanceof PlatformError) return error.message;
  return "The conversation could not be started: an unexpected error, see the server's log.";
}
