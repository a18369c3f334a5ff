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
import { hexId, newId, parseId, textContent } from "@sandpiper/wire";
import { listed, stateRecord } from "../agent/records.ts";
import { loadAgentDefinitions } from "../agent/skills/agent-definitions.ts";
import type { Skill } from "../agent/skills/skill.ts";
import type { Callbacks } from "../callbacks/api.ts";
import { PlatformError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { OpenModel } from "../models/model.ts";
import type { Outbound } from "../outbound/api.ts";
import { Queues } from "../queues.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { Files } from "../sandboxes/files.ts";
import type { ConversationFilter, ConversationPage, ConversationRow } from "../store/conversation-store.ts";
import type { PageRequest, PageResult } from "../store/paging.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { abortable } from "./abortable.ts";
import { Agents, type AgentsDependencies } from "./agents.ts";
import type { Conversations, Frame, SendOptions } from "./api.ts";
import { requireSandbox } from "./archived.ts";
import { askedTitle } from "./asked-title.ts";
import { condense } from "./condensing.ts";
import { Controls } from "./controls.ts";
import { ConversationHooks } from "./conversation-hooks.ts";
import { readUpdate } from "./conversation-update.ts";
import { type CreateDependencies, createConversation, type Place } from "./create.ts";
import { ExternalConversations, refuseExternal } from "./external.ts";
import { forkConversation } from "./fork.ts";
import { Goals } from "./goals.ts";
import { Hub } from "./hub.ts";
import { conversationInfo } from "./info.ts";
import { Knowledge } from "./knowledge.ts";
import { ListJson } from "./list-json.ts";
import { McpTools } from "./mcp.ts";
import { conversationModel } from "./model.ts";
import { type FilesOutcome, navigate } from "./navigate.ts";
import { OutputMasks, type OutputMasksDependencies } from "./output-masks.ts";
import { PendingMessages } from "./pending.ts";
import { presentConversation, presentStartTask } from "./present.ts";
import { rejections, unansweredReason } from "./rejections.ts";
import { removeWithSandbox } from "./removal.ts";
import { wakeOrder } from "./run-queue.ts";
import { type RunLimits, Runner } from "./runner.ts";
import { Sending } from "./sending.ts";
import { SideCalls } from "./side-calls.ts";
import { SkillTools } from "./skill-tools.ts";
import { Starter } from "./start.ts";
import { startTaskReads } from "./start-task-reads.ts";
import { SubAgents } from "./sub-agents.ts";
import { SwitchTool } from "./switch-tool.ts";
import { Titles } from "./titles.ts";
import { type AdaptTools, Toolsets } from "./toolset.ts";
import { dropWorktree } from "./worktree.ts";

export interface ConversationDependencies {
  store: Store;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  outbound: Outbound;
  settings: Settings;
  secrets: Secrets;
  /** The tools of a conversation. */
  toolsFor: AgentsDependencies["toolsFor"];
  adaptTools?: AdaptTools | undefined;
  /** Skills that this server gives to every conversation of a user. */
  globalSkills?: (userId: string) => readonly Skill[];
  /** Knows the secrets that outputs must not show. */
  mask: OutputMasksDependencies["mask"];
  openModel: OpenModel;
  limits: RunLimits;
  publicUrl: () => string;
  /** Is told secrets of users that are used now, so that they are masked in what is logged. */
  registerSecret?: (value: string, userId: string) => void;
  logger: Logger;
}

/** Conversations over the log: commands become records, reads come from the store, the runner does the work. */
export class ConversationService implements Conversations {
  readonly startTasks: Conversations["startTasks"];
  readonly pending: PendingMessages;
  readonly external: ExternalConversations;
  readonly controls: Controls;
  readonly goal: Conversations["goal"];
  readonly #deps: ConversationDependencies;
  readonly #hub: Hub;
  readonly #lists: ListJson;
  readonly #runner: Runner;
  readonly #starter: Starter;
  readonly #agents: Agents;
  readonly #knowledge: Knowledge;
  readonly #titles: Titles;
  readonly #sending: Sending;
  readonly #sideCalls: SideCalls;
  readonly #goals: Goals;
  readonly #subAgents: SubAgents;
  readonly #toolsets: Toolsets;
  readonly #replacements = new Queues();
  /** Commands to run, and what answers actions that wait. */
  readonly #runsAsked = new Queues();
  /** Conversations that clients make with ids of their own. */
  readonly #creations = new Queues();

  constructor(deps: ConversationDependencies) {
    this.#deps = deps;
    this.#lists = new ListJson({ store: deps.store, present: (rows) => this.#present(rows) });
    this.#hub = new Hub(deps.store.events);
    this.#agents = new Agents(deps);
    const agents = this.#agents;
    this.#knowledge = new Knowledge({ ...deps, agents });
    const knowledge = this.#knowledge;
    const onRest = (id: string) => this.#goals.onRest(id);
    const mcp = new McpTools({
      ...deps,
      agents,
      pluginServers: (id) => knowledge.pluginServers(id),
      sandbox: (row) => this.#runner.workspace(row).sandbox(),
    });
    this.#toolsets = new Toolsets(
      [
        agents,
        mcp,
        { tools: (row) => this.#subAgents.tools(row), prepare: (row) => this.#subAgents.prepare(row) },
        new SkillTools({ ...deps, knowledge }),
        new SwitchTool({ ...deps, agents, switchProfile: (...change) => this.switchProfile(...change) }),
      ],
      deps.adaptTools,
    );
    const masks = new OutputMasks({ ...deps, agents });
    const toolsets = this.#toolsets;
    const addUsage: Runner["addUsage"] = (...call) => this.#runner.addUsage(...call);
    const hooks = new ConversationHooks({ contexts: knowledge.contexts, agents, addUsage });
    this.#runner = new Runner({ ...deps, masks, hub: this.#hub, knowledge, hooks, agents, toolsets, onRest });
    const runner = this.#runner;
    this.#sideCalls = new SideCalls({ ...deps, masks, agents, runner });
    this.controls = new Controls({ ...deps, hub: this.#hub, runner, agents, knowledge });
    this.#titles = new Titles({ ...deps, masks, addUsage });
    this.#sending = new Sending({
      ...deps,
      toolsets,
      knowledge,
      runner,
      titles: this.#titles,
      prepare: async (row, signal) => {
        const recalled = this.#knowledge.remembers(row) ? this.#recall(row, signal) : undefined;
        const notes = await mcp.prepare(row, signal);
        await recalled;
        return notes;
      },
    });
    const send = (id: string, content: Content[], options: SendOptions) => this.send(id, content, options);
    this.#goals = new Goals({ ...deps, runner, sideCalls: this.#sideCalls, send });
    this.#subAgents = new SubAgents({
      ...deps,
      agents,
      runner,
      send,
      known: (id) => knowledge.contexts.get(id).agents ?? [],
      definitions: async (row) =>
        loadAgentDefinitions(await runner.workspace(row).sandbox(), {
          workingDir: row.config.workingDir,
          plugins: knowledge.contexts.get(row.id).plugins ?? [],
        }),
      run: (id) => this.run(id),
      pause: (id) => this.pause(id),
      reject: (id, reason) => this.reject(id, reason),
    });
    this.goal = {
      start: (id, objective, most) => this.#goals.start(this.#workable(id), objective, most),
      stop: (id) => this.#goals.stop(this.#runnable(id)),
      resume: (id) => this.#goals.resume(this.#workable(id)),
    };
    this.pending = new PendingMessages({ ...deps, send });
    this.#starter = new Starter({
      ...deps,
      runner: this.#runner,
      knowledge,
      send,
      pending: this.pending,
      waitsForTools: (row) => mcp.isUsedBy(row) || knowledge.remembers(row),
    });
    this.external = new ExternalConversations(deps);
    this.startTasks = startTaskReads(deps.store.startTasks, deps.publicUrl);
  }

  /** Reads the agent's memory for a prompt that is about to be written. A sandbox that does not run in time has none. */
  async #recall(row: ConversationRow, signal: AbortSignal): Promise<void> {
    try {
      const sandbox = await abortable(this.#runner.workspace(row).sandbox(), signal);
      await this.#knowledge.recall(row, sandbox, signal);
    } catch {
      // The prompt says how to keep one.
    }
  }

  async open(): Promise<void> {
    this.pending.recover();
    this.#starter.recover();
    this.#deps.sandboxes.onChange((row) => {
      if ("status" in row && row.status === "PAUSED") void this.#pauseAll(row.id);
    });
    const { conversations, events } = this.#deps.store;
    const running = conversations.listRunning().filter(({ config }) => !config.external);
    for (const row of wakeOrder(running, events)) this.#runner.wake(row.id);
    this.#goals.open();
  }

  async start(userId: string, request: AppConversationStartRequest): Promise<AppConversationStartTask> {
    return presentStartTask(await this.#starter.start(userId, request), this.#deps.publicUrl());
  }

  async startStream(userId: string, request: AppConversationStartRequest): Promise<AsyncIterable<AppConversationStartTask>> {
    const rows = await this.#starter.follow(userId, request);
    const publicUrl = this.#deps.publicUrl();
    return (async function* () {
      for await (const row of rows) yield presentStartTask(row, publicUrl);
    })();
  }

  create(place: Place, request: StartConversationRequest): Promise<{ row: ConversationRow; created: boolean }> {
    const send: CreateDependencies["send"] = (...message) => this.send(...message);
    const fetchPlugins: CreateDependencies["fetchPlugins"] = (...plugins) => this.controls.fetchPlugins(...plugins);
    // Who tries again with the same id gets the conversation of the first try.
    const key = parseId(request.conversation_id ?? "") ?? newId();
    const deliver = (id: string) => this.pending.deliver(id);
    return this.#creations.add(key, () => createConversation({ ...this.#deps, send, deliver, fetchPlugins }, place, request));
  }

  search(filter: ConversationFilter, page: PageRequest): PageResult<AppConversation> {
    const { items, nextPageId } = this.#deps.store.conversations.search(filter, page);
    return { items: this.#present(items), nextPageId };
  }

  rows(filter: ConversationFilter, page: ConversationPage): PageResult<ConversationRow> {
    return this.#deps.store.conversations.search(filter, page);
  }

  info(row: ConversationRow, { skills = false } = {}): ConversationInfo {
    const children = this.#deps.store.conversations.childrenOf([row.id]).get(row.id) ?? [];
    return conversationInfo({ row, state: this.#runner.histories.stateOf(row), children, agents: this.#agents, skills });
  }

  searchJson(filter: ConversationFilter, page: PageRequest): string {
    return this.#lists.page(filter, page);
  }

  count(filter: ConversationFilter): number {
    return this.#deps.store.conversations.count(filter);
  }

  batch(userId: string, ids: readonly (string | undefined)[]): (AppConversation | null)[] {
    const rows = ids.map((id) => (id ? this.get(userId, id) : undefined));
    const shown = new Map(this.#present(rows.filter((row) => row !== undefined)).map((item) => [item.id, item]));
    return rows.map((row) => (row ? (shown.get(hexId(row.id)) ?? null) : null));
  }

  get(userId: string, id: string): ConversationRow | undefined {
    const row = this.#deps.store.conversations.get(id);
    return row?.userId === userId ? row : undefined;
  }

  async update(userId: string, id: string, change: AppConversationUpdateRequest): Promise<AppConversation> {
    await this.#deps.store.conversations.update(id, readUpdate(this.#owned(userId, id), change));
    this.#deps.callbacks.changed(id);
    return this.#present([this.#owned(userId, id)])[0]!;
  }

  skills(row: ConversationRow, sandbox: Files): Promise<Skill[]> {
    return this.#knowledge.current(row, sandbox);
  }

  async switchProfile(userId: string, id: string, profile: string): Promise<void> {
    this.#owned(userId, id);
    if (!this.#deps.settings.profileModel(userId, profile)?.model) {
      throw new PlatformError("ProfileNotFound", `The settings have no LLM profile ${profile}.`);
    }
    await this.#deps.store.conversations.update(id, { config: { llmProfile: profile } });
    this.#runner.announcements.announce(id);
  }

  async remove(userId: string, id: string, { keepSandbox = false } = {}): Promise<void> {
    const row = this.#owned(userId, id);
    const { store, sandboxes } = this.#deps;
    const tellDeletion = this.#deps.callbacks.farewell(id);
    for (;;) {
      const children = (store.conversations.childrenOf([id]).get(id) ?? []).flatMap(
        (child) => store.conversations.get(child) ?? [],
      );
      if (keepSandbox && children.some(({ sandboxId }) => sandboxId !== row.sandboxId))
        throw new PlatformError("BadRequest", "The conversation has sub-conversations in other sandboxes: delete them first.");
      for (const child of children) if (store.conversations.get(child.id)) await this.remove(userId, child.id, { keepSandbox });
      await this.#runner.forget(id);
      await removeWithSandbox({ store, sandboxes }, row, { keepSandbox });
      await this.#deps.callbacks.drop(id);
      // Otherwise it has got a child meanwhile.
      if (!store.conversations.get(id)) {
        this.#hub.end(id);
        this.#subAgents.removed(id);
        await dropWorktree(this.#deps, row, row.config.worktree);
        return tellDeletion();
      }
    }
  }

  async send(id: string, content: Content[], options: SendOptions): Promise<void> {
    const row = this.#workable(id);
    const stopsGoal = !options.ofGoal && row.config.goal?.status === "running";
    if (stopsGoal) await this.#goals.stop(row);
    // It rejects what waits, unless an approval is on its way.
    const rejects = options.run && this.#workable(id).summary.executionStatus === "waiting_for_confirmation";
    const send = async () => {
      if (rejects && this.#subAgents.isWaiting(id))
        await this.#answerSubAgents(id, () => this.#subAgents.reject(id, unansweredReason));
      await this.#sending.send(this.#workable(id), content, options);
    };
    await (rejects ? this.#runsAsked.add(id, send) : send());
  }

  run(id: string): Promise<void> {
    this.#runner.announcements.forgetEnd(id);
    // One at a time: of two approvals the second finds the run under way.
    return this.#runsAsked.add(id, () => this.#run(id));
  }

  async #run(id: string): Promise<void> {
    const row = this.#workable(id);
    const status = row.summary.executionStatus;
    if (status === "running" && (this.#runner.isAwake(id) || this.#runner.isWaiting(row))) {
      throw new PlatformError("ConversationRunning", "Conversation already running. Wait for completion or pause first.");
    }
    if (status === "finished") return this.#runner.announcements.announceEnd(id);
    if (status === "waiting_for_confirmation" && this.#subAgents.isWaiting(id))
      return this.#answerSubAgents(id, () => this.#subAgents.approve(id));
    // Before the record: a run that is ending sees that at once and makes way for the next.
    const takeBack = status === "waiting_for_confirmation" ? this.#runner.approve(id) : undefined;
    try {
      if (status !== "running") await this.#deps.store.events.append(id, [stateRecord("execution_status", "running")]);
    } catch (error) {
      takeBack?.();
      throw error;
    }
    this.#runner.wake(id);
  }

  /** What a conversation waits with is an answer to its sub-agents: it goes on with them. */
  async #answerSubAgents(id: string, answer: () => Promise<void>): Promise<void> {
    await answer();
    if (this.#runnable(id).summary.executionStatus === "waiting_for_confirmation")
      await this.#deps.store.events.append(id, [stateRecord("execution_status", "running")]);
    this.#runner.wake(id);
  }

  reject(id: string, reason: string): Promise<void> {
    return this.#runsAsked.add(id, () => this.#reject(id, reason));
  }

  async #reject(id: string, reason: string): Promise<void> {
    if (this.#runnable(id).summary.executionStatus !== "waiting_for_confirmation") return;
    if (this.#subAgents.isWaiting(id)) return this.#answerSubAgents(id, () => this.#subAgents.reject(id, reason));
    const records = rejections(this.#runner.histories.openActions(id), reason);
    await this.#deps.store.events.append(id, [...records, stateRecord("execution_status", "idle")]);
    this.#runner.announcements.announceEnd(id);
  }

  async pause(id: string): Promise<void> {
    const status = this.#runnable(id).summary.executionStatus;
    if (status !== "idle" && status !== "running") return;
    await this.#deps.store.events.append(id, [
      listed({ kind: "PauseEvent", source: "user" }),
      stateRecord("execution_status", "paused"),
    ]);
    this.#runner.announcements.announceEnd(id);
  }

  async interrupt(id: string): Promise<void> {
    this.#runnable(id);
    if (this.#runner.isAwake(id)) await this.#runner.abort(id, "interrupt");
    else await this.pause(id);
  }

  condense(id: string): Promise<void> {
    return condense({ ...this.#deps, runner: this.#runner }, this.#workable(id));
  }

  async ask(id: string, question: string): Promise<string> {
    const row = this.#runnable(id);
    return this.#sideCalls.ask(row, "ask-agent", [textContent(question)]);
  }

  async title(id: string, options: { max: number; llm?: GivenLlm | undefined }): Promise<string> {
    return askedTitle({ ...this.#deps, sideCalls: this.#sideCalls }, this.#runnable(id), options);
  }

  navigate(id: string, eventId: string | null): Promise<FilesOutcome> {
    return navigate({ ...this.#deps, runner: this.#runner, replacements: this.#replacements }, this.#workable(id), eventId);
  }

  fork(id: string, request: ForkConversationRequest): Promise<{ row: ConversationRow } & FilesOutcome> {
    const source = this.#workable(id);
    const deps = { ...this.#deps, replacements: this.#replacements };
    return this.#creations.add(parseId(request.id ?? "") ?? newId(), () => forkConversation(deps, source, request));
  }

  fullState(id: string): Record<string, unknown> {
    return this.#runner.histories.stateOf(this.#known(id));
  }

  follow(id: string, listener: (frame: Frame) => void, onDeleted: () => void): () => void {
    return this.#hub.follow(id, listener, onDeleted);
  }

  followers(id: string): number {
    return this.#hub.followers(id);
  }

  async close(graceMs: number): Promise<void> {
    this.#titles.close();
    this.controls.close();
    this.#sideCalls.close();
    const runs = this.#runner.close(graceMs).then(() => this.#toolsets.close());
    await Promise.all([runs, this.#starter.close(), this.#goals.close()]);
  }

  async #pauseAll(sandboxId: string): Promise<void> {
    for (const row of this.#deps.store.conversations.bySandbox(sandboxId)) {
      if (row.summary.executionStatus === "running") await this.pause(row.id).catch(() => {});
    }
  }

  #known(id: string): ConversationRow {
    const row = this.#deps.store.conversations.get(id);
    if (!row) throw new PlatformError("ConversationNotFound", `The conversation ${hexId(id)} does not exist.`);
    return row;
  }

  /** Throws ConversationNotFound, ConversationExternal, ConversationArchived. */
  #workable(id: string): ConversationRow {
    const row = this.#runnable(id);
    requireSandbox(this.#deps.sandboxes, row);
    return row;
  }

  /** Throws ConversationNotFound, ConversationExternal. */
  #runnable(id: string): ConversationRow {
    const row = this.#known(id);
    refuseExternal(row);
    return row;
  }

  #owned(userId: string, id: string): ConversationRow {
    const row = this.#known(id);
    if (row.userId !== userId) throw new PlatformError("ConversationNotFound", `The conversation ${hexId(id)} does not exist.`);
    return row;
  }

  #present(rows: readonly ConversationRow[]): AppConversation[] {
    const { store, sandboxes, settings, publicUrl } = this.#deps;
    // Clients of this API take each of these for a conversation that its user opened, the released GUI for its planner.
    const children = store.conversations.childrenOf(
      rows.map((row) => row.id),
      { subAgents: false },
    );
    return rows.map((row) =>
      presentConversation(row, {
        sandbox: sandboxes.get(row.userId, row.sandboxId),
        children: children.get(row.id) ?? [],
        model: conversationModel(row, settings).model,
        publicUrl: publicUrl(),
      }),
    );
  }
}
