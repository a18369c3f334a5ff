import type { Skill } from "@sandpiper/agent/skills/skill";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { CommandRunner } from "@sandpiper/sandbox/files/files";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  AppConversationUpdateRequest,
  Content,
  ConversationInfo,
  ForkConversationRequest,
  GivenLlm,
  StartConversationRequest,
} from "@sandpiper/wire";
import { newId, parseId, textContent } from "@sandpiper/wire";
import type { ConversationFilter, ConversationPage, ConversationRow } from "../store/conversation-store.ts";
import type { Conversations, FilesOutcome, Frame, SendOptions } from "./api.ts";
import { type ConversationSettings, parsePatch } from "./commands/conversation-settings.ts";
import { navigate } from "./commands/navigate.ts";
import type { PendingMessages } from "./commands/pending.ts";
import { removeConversation } from "./commands/removal.ts";
import type { ReportedConversations } from "./commands/reported-conversations.ts";
import { condense } from "./run/condensing.ts";
import { generateTitle } from "./run/generate-title.ts";
import { sortForWake } from "./run/run-queue.ts";
import { handleSandboxPauses } from "./run/sandbox-pause.ts";
import { type CreateDeps, createConversation, type SandboxTarget } from "./start/create.ts";
import { forkConversation } from "./start/fork.ts";
import { presentStartTask } from "./views/present.ts";
import { startTaskReads } from "./views/reads.ts";
import { type ConversationsDeps, makeParts } from "./wiring.ts";

/** Conversations over the log: commands become records, reads come from the store, the runner does the work. */
export class ConversationService implements Conversations {
  readonly startTasks: Conversations["startTasks"];
  readonly pending: PendingMessages;
  readonly external: ReportedConversations;
  readonly controls: ConversationSettings;
  readonly goal: Conversations["goal"];
  readonly #deps: ConversationsDeps;
  readonly #parts: ReturnType<typeof makeParts>;
  /** Copies of files, by sandbox. */
  readonly #replacements = new KeyedMutex();
  /** Conversations that clients make with ids of their own. */
  readonly #creations = new KeyedMutex();

  constructor(deps: ConversationsDeps) {
    this.#deps = deps;
    this.#parts = makeParts(deps);
    const { access, controls, external, goals, pending } = this.#parts;
    this.pending = pending;
    this.external = external;
    this.controls = controls;
    this.startTasks = startTaskReads(deps.store.startTasks, deps.publicUrl);
    this.goal = {
      start: (id, objective, most) => goals.start(access.requireWithSandbox(id), objective, most),
      stop: (id) => goals.stop(access.requireLocal(id)),
      resume: (id) => goals.resume(access.requireWithSandbox(id)),
    };
  }

  async open(): Promise<void> {
    const { commands, goals, pending, runner, starter } = this.#parts;
    const { sandboxes, store } = this.#deps;
    pending.recover();
    starter.recover();
    handleSandboxPauses({
      sandboxes,
      conversations: store.conversations,
      workspaces: runner.workspaces,
      pause: (id) => commands.pause(id),
      abortCall: (id) => runner.abortCall(id),
    });
    const running = store.conversations.listRunning().filter(({ config }) => !config.external);
    for (const row of sortForWake(running, store.events)) runner.wake(row.id);
    goals.open();
  }

  async start(userId: string, request: AppConversationStartRequest): Promise<AppConversationStartTask> {
    return presentStartTask(await this.#parts.starter.start(userId, request), this.#deps.publicUrl());
  }

  async startStream(
    userId: string,
    request: AppConversationStartRequest,
  ): Promise<AsyncIterable<AppConversationStartTask>> {
    const rows = await this.#parts.starter.follow(userId, request);
    const publicUrl = this.#deps.publicUrl();
    return (async function* () {
      for await (const row of rows) yield presentStartTask(row, publicUrl);
    })();
  }

  create(
    place: SandboxTarget,
    request: StartConversationRequest,
  ): Promise<{ row: ConversationRow; created: boolean }> {
    const { commands, controls, pending } = this.#parts;
    const send: CreateDeps["send"] = (...message) => commands.send(...message);
    const fetchPlugins: CreateDeps["fetchPlugins"] = (...plugins) => controls.fetchPlugins(...plugins);
    // Who tries again with the same id gets the conversation of the first try.
    const key = parseId(request.conversation_id ?? "") ?? newId();
    const deliver = (id: string) => pending.deliver(id);
    return this.#creations.run(key, () =>
      createConversation({ ...this.#deps, send, deliver, fetchPlugins }, place, request),
    );
  }

  async fork(id: string, request: ForkConversationRequest): Promise<{ row: ConversationRow } & FilesOutcome> {
    const source = this.#parts.access.requireWithSandbox(id);
    const deps = { ...this.#deps, replacements: this.#replacements };
    return this.#creations.run(parseId(request.id ?? "") ?? newId(), () =>
      forkConversation(deps, source, request),
    );
  }

  search(filter: ConversationFilter, page: PageRequest): PageResult<AppConversation> {
    return this.#parts.reads.search(filter, page);
  }

  searchJson(filter: ConversationFilter, page: PageRequest): string {
    return this.#parts.reads.searchJson(filter, page);
  }

  rows(filter: ConversationFilter, page: ConversationPage): PageResult<ConversationRow> {
    return this.#parts.reads.rows(filter, page);
  }

  count(filter: ConversationFilter): number {
    return this.#parts.reads.count(filter);
  }

  batch(userId: string, ids: readonly (string | undefined)[]): (AppConversation | null)[] {
    return this.#parts.reads.batch(userId, ids);
  }

  get(userId: string, id: string): ConversationRow | undefined {
    return this.#parts.reads.get(userId, id);
  }

  info(row: ConversationRow, options?: { skills?: boolean }): ConversationInfo {
    return this.#parts.reads.info(row, options);
  }

  fullState(id: string): Record<string, unknown> {
    const { access, runner } = this.#parts;
    return runner.histories.fullState(access.require(id));
  }

  skills(row: ConversationRow, sandbox: CommandRunner): Promise<Skill[]> {
    return this.#parts.knowledge.listSkills(row, sandbox);
  }

  async update(userId: string, id: string, change: AppConversationUpdateRequest): Promise<AppConversation> {
    const { access, reads } = this.#parts;
    await this.#deps.store.conversations.update(id, parsePatch(access.requireOwned(userId, id), change));
    this.#deps.callbacks.changed(id);
    if (change.title !== undefined) this.#parts.runner.announcements.announceTitle(id);
    return reads.present([access.requireOwned(userId, id)])[0]!;
  }

  async switchProfile(userId: string, id: string, profile: string): Promise<void> {
    await this.controls.switchProfile(this.#parts.access.requireOwned(userId, id), profile);
  }

  async remove(userId: string, id: string, options?: { keepSandbox?: boolean }): Promise<void> {
    await removeConversation(
      { ...this.#deps, ...this.#parts },
      this.#parts.access.requireOwned(userId, id),
      options,
    );
  }

  send(id: string, content: Content[], options: SendOptions): Promise<void> {
    return this.#parts.commands.send(id, content, options);
  }

  async run(id: string): Promise<void> {
    await this.#parts.commands.run(id);
  }

  async reject(id: string, reason: string): Promise<void> {
    await this.#parts.commands.reject(id, reason);
  }

  async pause(id: string): Promise<void> {
    await this.#parts.commands.pause(id);
  }

  async interrupt(id: string): Promise<void> {
    await this.#parts.commands.interrupt(id);
  }

  async condense(id: string): Promise<void> {
    const { access, runner } = this.#parts;
    await condense({ ...this.#deps, runner }, access.requireWithSandbox(id));
  }

  async ask(id: string, question: string): Promise<string> {
    const { access, sideCalls } = this.#parts;
    return sideCalls.ask(access.requireLocal(id), "ask-agent", [textContent(question)]);
  }

  async title(id: string, options: { max: number; llm?: GivenLlm | undefined }): Promise<string> {
    const { access, sideCalls } = this.#parts;
    return generateTitle({ ...this.#deps, sideCalls }, access.requireLocal(id), options);
  }

  async navigate(id: string, eventId: string | null): Promise<FilesOutcome> {
    const { access, runner } = this.#parts;
    return navigate(
      { ...this.#deps, runner, replacements: this.#replacements },
      access.requireWithSandbox(id),
      eventId,
    );
  }

  follow(id: string, listener: (frame: Frame) => void, onDeleted: () => void): () => void {
    return this.#parts.hub.follow(id, listener, onDeleted);
  }

  followers(id: string): number {
    return this.#parts.hub.followers(id);
  }

  async close(graceMs: number): Promise<void> {
    const { goals, runner, sideCalls, starter, titles, toolsets } = this.#parts;
    titles.close();
    this.controls.close();
    sideCalls.close();
    const runs = runner.close(graceMs).then(() => toolsets.close());
    await Promise.all([runs, starter.close(), goals.close()]);
  }
}
