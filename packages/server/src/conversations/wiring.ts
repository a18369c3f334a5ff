import { loadAgentDefinitions } from "@sandpiper/agent/skills/agent-definitions";
import type { Skill } from "@sandpiper/agent/skills/skill";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type Content, newId, parseId } from "@sandpiper/wire";
import type { Callbacks } from "../callbacks/api.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { AgentConfigResolver, type AgentConfigResolverDeps } from "./agent/agent-config.ts";
import { McpTools } from "./agent/mcp.ts";
import { OutputMasks, type OutputMasksDeps } from "./agent/output-masks.ts";
import { ProjectKnowledge } from "./agent/project-knowledge.ts";
import { RefreshedSecrets } from "./agent/refreshed-secrets.ts";
import { SkillTools, SwitchModelTool, UnknownToolWarnings } from "./agent/tool-sources.ts";
import { type AdaptTools, Toolsets } from "./agent/toolset.ts";
import type { Conversations, SendOptions } from "./api.ts";
import { Commands } from "./commands/commands.ts";
import { ConversationUpdater, parseConversationUpdate } from "./commands/conversation-updater.ts";
import { Goals } from "./commands/goals.ts";
import { navigate } from "./commands/navigate.ts";
import { PendingMessages } from "./commands/pending.ts";
import { removeConversation } from "./commands/removal.ts";
import { ReportedConversations } from "./commands/reported-conversations.ts";
import { Hub } from "./log/hub.ts";
import { ConversationLookup } from "./lookup.ts";
import { condense } from "./run/condensing.ts";
import { HookSessions } from "./run/hook-sessions.ts";
import { sortForWake } from "./run/run-queue.ts";
import { type RunLimits, Runner } from "./run/runner.ts";
import { handleSandboxPauses } from "./run/sandbox-pause.ts";
import { SideCalls } from "./run/side-calls.ts";
import { SubAgentRunner } from "./run/sub-agent-runner.ts";
import { generateTitle, Titles } from "./run/titles.ts";
import { createConversation } from "./start/create.ts";
import { forkConversation } from "./start/fork.ts";
import { ConversationStarter } from "./start/start.ts";
import { presentStartTask } from "./views/present.ts";
import { ConversationReads, startTaskReads } from "./views/reads.ts";

export interface ConversationsDeps {
  store: Store;
  scheduler: EventLoopScheduler;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  outbound: Outbound;
  settings: Settings;
  secrets: Secrets;
  /** The tools of a conversation. */
  toolsFor: AgentConfigResolverDeps["toolsFor"];
  adaptTools?: AdaptTools | undefined;
  /** Skills that this server gives to every conversation of a user. */
  globalSkills?: (userId: string) => readonly Skill[];
  /** Masks secrets in outputs. */
  mask: OutputMasksDeps["mask"];
  openModel: OpenModel;
  limits: RunLimits;
  publicUrl: () => string;
  /** Registers a secret of a user, so that logs do not show it. */
  registerSecret?: (value: string, userId: string) => void;
  logger: Logger;
}

/**
 * Conversations over the log: commands append records, reads come from the store, the runner works.
 * Some parts need each other; they get closures, which must not be called during construction.
 */
export function createConversations(deps: ConversationsDeps): Conversations {
  const { store, scheduler, callbacks, sandboxes, outbound, settings, secrets } = deps;
  const { mask, openModel, limits, publicUrl, logger, toolsFor, globalSkills, registerSecret } = deps;
  const { events } = store;
  /** Copies of files, by sandbox. */
  const replacements = new KeyedMutex();
  /** Creations with an id of the client. */
  const creations = new KeyedMutex();

  const hub = new Hub(events);
  const access = new ConversationLookup({ store, sandboxes });
  const agents = new AgentConfigResolver({ store, settings, toolsFor });
  const masks = new OutputMasks({ mask, secrets, settings, agents });
  const knowledge = new ProjectKnowledge({ store, settings, agents, masks, secrets, globalSkills });
  const send = (id: string, content: Content[], options: SendOptions): Promise<void> =>
    commands.send(id, content, options);
  const addUsage: Runner["addUsage"] = (...call) => runner.addUsage(...call);
  const switchProfile = (userId: string, id: string, profile: string): Promise<void> =>
    controls.switchProfile(access.requireOwned(userId, id), profile);
  const mcp = new McpTools({
    agents,
    settings,
    sandboxes,
    secrets,
    outbound,
    registerSecret,
    foundServers: (row, invoked) => knowledge.servers(row, invoked),
    sandbox: (row) => runner.workspace(row).sandbox(),
  });
  const toolsets = new Toolsets(
    [
      agents,
      mcp,
      { tools: (row) => subAgents.tools(row), prepare: (row) => subAgents.prepare(row) },
      new RefreshedSecrets({ store, secrets, outbound }),
      new UnknownToolWarnings({ agents, contexts: knowledge.contexts }),
      new SkillTools({ store, knowledge, joinServers: (...skill) => mcp.join(...skill) }),
      new SwitchModelTool({ settings, agents, switchProfile }),
    ],
    deps.adaptTools,
  );
  const hooks = new HookSessions({ contexts: knowledge.contexts, agents, addUsage });
  const runner: Runner = new Runner({
    store,
    scheduler,
    hub,
    settings,
    agents,
    toolsets,
    knowledge,
    hooks,
    masks,
    openModel,
    limits,
    sandboxes,
    onRest: (id) => goals.onRest(id),
  });
  const sideCalls = new SideCalls({ agents, runner, masks, store, scheduler, openModel, limits });
  const controls: ConversationUpdater = new ConversationUpdater({
    store,
    callbacks,
    settings,
    sandboxes,
    secrets,
    outbound,
    publicUrl,
    agents,
    knowledge,
    hub,
    runner,
  });
  const titles = new Titles({
    store,
    scheduler,
    callbacks,
    runner,
    settings,
    masks,
    openModel,
    limits,
    logger,
  });
  const goals: Goals = new Goals({ store, runner, sideCalls, send, logger });
  const subAgents: SubAgentRunner = new SubAgentRunner({
    store,
    settings,
    agents,
    runner,
    send,
    listKnown: (id) => knowledge.contexts.get(id).agents ?? [],
    loadDefinitions: async (row) =>
      loadAgentDefinitions(await runner.workspace(row).sandbox(), {
        workingDir: row.config.workingDir,
        plugins: knowledge.contexts.get(row.id).plugins ?? [],
      }),
    run: (id) => commands.run(id),
    pause: (id) => commands.pause(id),
    reject: (id, reason) => commands.reject(id, reason),
  });
  const commands = new Commands({
    store,
    access,
    runner,
    goals,
    subAgents,
    toolsets,
    knowledge,
    titles,
    masks,
    prepare: async (row, signal) => {
      const recalled = knowledge.loadMemory(row, () => runner.workspace(row).sandbox(), signal);
      const notes = await mcp.prepare(row, signal);
      await recalled;
      // No run may follow that would close the servers, so they are closed after a while.
      if (!runner.isAwake(row.id)) mcp.linger(row.id);
      return notes;
    },
  });
  const pending = new PendingMessages({ store, send, sandboxes, logger });
  const starter = new ConversationStarter({
    store,
    callbacks,
    secrets,
    sandboxes,
    settings,
    runner,
    knowledge,
    openModel,
    send,
    pending,
    logger,
    mask,
    waitsForTools: (row) => mcp.hasServers(row) || knowledge.usesMemory(row),
  });
  const reads = new ConversationReads({
    store,
    sandboxes,
    settings,
    agents,
    histories: runner.histories,
    publicUrl,
  });

  return {
    reads,
    commands,
    pending,
    settings: controls,
    reports: new ReportedConversations({ store, callbacks, sandboxes, runner }),
    starts: {
      async start(userId, request) {
        return presentStartTask(await starter.start(userId, request), publicUrl());
      },
      async startStream(userId, request) {
        const rows = await starter.follow(userId, request);
        return (async function* () {
          for await (const row of rows) yield presentStartTask(row, publicUrl());
        })();
      },
      create: (target, request) =>
        // A retry with the same id returns the conversation that the first attempt created.
        creations.run(parseId(request.conversation_id ?? "") ?? newId(), () =>
          createConversation(
            {
              store,
              settings,
              secrets,
              mask,
              callbacks,
              sandboxes,
              outbound,
              publicUrl,
              send,
              fetchPlugins: (...plugins) => controls.fetchPlugins(...plugins),
              deliver: (id) => pending.deliver(id),
            },
            target,
            request,
          ),
        ),
      tasks: startTaskReads(store.startTasks, publicUrl),
    },
    branches: {
      navigate: async (id, eventId) =>
        navigate({ store, sandboxes, runner, replacements }, access.requireWithSandbox(id), eventId),
      async fork(id, request) {
        const source = access.requireWithSandbox(id);
        return creations.run(parseId(request.id ?? "") ?? newId(), () =>
          forkConversation({ store, sandboxes, replacements, secrets, callbacks }, source, request),
        );
      },
    },
    live: {
      fullState: (id) => runner.histories.fullState(access.require(id)),
      follow: (id, listener, onDeleted) => hub.follow(id, listener, onDeleted),
      followers: (id) => hub.followers(id),
    },
    sideCalls: {
      ask: async (id, question) => sideCalls.ask(access.requireLocal(id), question),
      title: async (id, options) => generateTitle({ events, sideCalls }, access.requireLocal(id), options),
      condense: async (id) => condense({ store, runner }, access.requireWithSandbox(id)),
    },
    goals: {
      start: async (id, objective, maxIterations) =>
        goals.start(access.requireWithSandbox(id), objective, maxIterations),
      stop: async (id) => goals.stop(access.requireLocal(id)),
      resume: async (id) => goals.resume(access.requireWithSandbox(id)),
    },
    async update(userId, id, change) {
      await store.conversations.update(id, parseConversationUpdate(access.requireOwned(userId, id), change));
      callbacks.notifyChange(id);
      if (change.title !== undefined) runner.announcements.announceTitle(id);
      return reads.present([access.requireOwned(userId, id)])[0]!;
    },
    skills: (row, sandbox) => knowledge.listSkills(row, sandbox),
    switchProfile: async (userId, id, profile) => switchProfile(userId, id, profile),
    remove: async (userId, id, options) =>
      removeConversation(
        { store, sandboxes, callbacks, runner, hub, subAgents },
        access.requireOwned(userId, id),
        options,
      ),
    async open() {
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
      for (const row of sortForWake(running, events)) runner.wake(row.id);
      goals.open();
    },
    async close(graceMs) {
      titles.close();
      controls.close();
      sideCalls.close();
      const runs = runner.close(graceMs).then(() => toolsets.close());
      await Promise.all([runs, starter.close(), goals.close()]);
    },
  };
}
