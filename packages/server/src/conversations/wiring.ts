import type { Skill } from "@sandpiper/agent/skills/skill";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Callbacks } from "../callbacks/api.ts";
import type { SharedSlots } from "../nodes/shared-slots.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import type { Acceptances, Secrets, Settings } from "../users/api.ts";
import type { DailyBudget } from "../users/daily-budget.ts";
import type { LentSecrets } from "../users/lent-secrets.ts";
import { Adoption } from "./adoption.ts";
import { AgentConfigResolver, type AgentConfigResolverDeps } from "./agent/agent-config.ts";
import { ClientSecrets } from "./agent/client-secrets.ts";
import { McpTools } from "./agent/mcp.ts";
import { McpSessions } from "./agent/mcp-sessions.ts";
import { resolveServerSpecs } from "./agent/mcp-specs.ts";
import { OutputMasks, type OutputMasksDeps } from "./agent/output-masks.ts";
import { ProjectKnowledge } from "./agent/project-knowledge.ts";
import { RefreshedSecrets } from "./agent/refreshed-secrets.ts";
import { SandboxFacts } from "./agent/sandbox-facts.ts";
import { SkillTools, SwitchModelTool, UnknownToolWarnings } from "./agent/tool-sources.ts";
import { type AdaptTools, Toolsets } from "./agent/toolset.ts";
import type { ConversationCommands, Conversations } from "./api.ts";
import { ConversationDetails } from "./commands/conversation-details.ts";
import { GoalJudge } from "./commands/goal-judge.ts";
import { Goals } from "./commands/goals.ts";
import { MessageDelivery } from "./commands/message-delivery.ts";
import { MessageTitles } from "./commands/message-titles.ts";
import { Messages } from "./commands/messages.ts";
import { ModelSwitches } from "./commands/model-switches.ts";
import { navigate } from "./commands/navigate.ts";
import { Openings } from "./commands/openings.ts";
import { PendingMessages } from "./commands/pending.ts";
import { PluginAdditions } from "./commands/plugin-additions.ts";
import { removeConversation } from "./commands/removal.ts";
import { ReportedConversations } from "./commands/reported-conversations.ts";
import { RunCommands } from "./commands/run-commands.ts";
import { SecretAdditions } from "./commands/secret-additions.ts";
import { Custody, type SandboxOwnership } from "./custody.ts";
import { Hub } from "./log/hub.ts";
import { ConversationLookup } from "./lookup.ts";
import { ProjectBehaviours } from "./project/behaviours.ts";
import { PluginDownloads } from "./project/plugin-downloads.ts";
import { PluginFetcher } from "./project/plugin-parts.ts";
import { Release } from "./release.ts";
import { ActiveRuns } from "./run/active-runs.ts";
import { condense } from "./run/condensing.ts";
import { presentGoal } from "./run/full-state.ts";
import { RunQueue } from "./run/run-queue.ts";
import { handleSandboxPauses } from "./run/sandbox-pause.ts";
import { SubAgentDefinitions } from "./run/sub-agent-definitions.ts";
import { SubAgentRunner } from "./run/sub-agent-runner.ts";
import { generateTitle } from "./run/titles.ts";
import { createRuns } from "./run/wiring.ts";
import { Workspaces } from "./run/workspaces.ts";
import { SandboxJoins } from "./sandbox-joins.ts";
import { createStarts } from "./start/wiring.ts";
import { ConversationReads } from "./views/reads.ts";

export interface ConversationsDeps {
  store: Store;
  scheduler: EventLoopScheduler;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  outbound: Outbound;
  settings: Settings;
  secrets: Secrets;
  lentSecrets: LentSecrets;
  acceptances: Acceptances;
  /** The tools of a conversation. */
  toolsFor: AgentConfigResolverDeps["toolsFor"];
  adaptTools?: AdaptTools | undefined;
  /** Skills that this server gives to every conversation of a user. */
  globalSkills?: (userId: string) => Promise<readonly Skill[]>;
  /** Masks secrets in outputs. */
  mask: OutputMasksDeps["mask"];
  openModel: OpenModel;
  limits: RunLimits;
  publicUrl: () => string;
  /** This part is absent in a server that is alone. */
  ownership?: SandboxOwnership | undefined;
  /** Registers a secret of a user, so that logs do not show it. */
  registerSecret?: (value: string, userId: string) => void;
  logger: Logger;
}

/** Epoch of all sandboxes in a server that is alone and owns them all. */
const onlyEpoch = 1;

/** Limits for the runs of each user. */
export interface RunLimits {
  /** Maximum concurrent runs; 0: no limit. Unused with `slots`. */
  maxRuns: number;
  /** The slots of runs that several nodes share; absent in a server that is alone. */
  slots?: SharedSlots | undefined;
  dailyBudget: DailyBudget;
}

/**
 * Conversations over the log: commands append records, reads come from the store, the runner works.
 * Some parts need each other; they get closures, which must not be called during construction.
 */
export function createConversations(deps: ConversationsDeps): Conversations {
  const { store, scheduler, callbacks, sandboxes, outbound, settings, secrets, acceptances } = deps;
  const { mask, openModel, limits, publicUrl, logger, toolsFor, globalSkills, registerSecret } = deps;
  const { events } = store;
  const { dailyBudget } = limits;
  /** Copies of files, by sandbox. */
  const replacements = new KeyedMutex();
  const commands: ConversationCommands = {
    send: (id, content, options) => messages.send(id, content, options),
    sendOnce: (id, content, options) => messages.sendOnce(id, content, options),
    run: (id) => runCommands.run(id),
    reject: (id, reason) => runCommands.reject(id, reason),
    pause: (id) => runCommands.pause(id),
    interrupt: (id) => runCommands.interrupt(id),
  };

  const { ownership } = deps;
  const custody = new Custody(ownership);
  const joins = new SandboxJoins(sandboxes, (id) => custody.isHere(id));
  const findSandbox = async (id: string) => ownership && (await store.conversations.get(id))?.sandboxId;
  const hub = new Hub({ events, custody, findSandbox });
  const access = new ConversationLookup({ store, sandboxes, custody });
  const agents = new AgentConfigResolver({ store, settings, toolsFor });
  const masks = new OutputMasks({ mask, secrets, settings, agents });
  const sandboxFacts = new SandboxFacts({ sandboxes, secrets });
  const knowledge = new ProjectKnowledge({ store, settings, agents, masks, sandboxFacts, globalSkills });
  const { contexts } = knowledge;
  const clientSecrets = new ClientSecrets({ store, secrets, outbound, publicUrl });
  const behaviours = new ProjectBehaviours({ acceptances });
  const plugins = new PluginFetcher({ sandboxes, settings, secrets, behaviours });
  const { lentSecrets } = deps;
  const downloads = new PluginDownloads({
    ...{ sandboxes, settings, secrets, lentSecrets, registerSecret },
    resolveSecrets: (place, sources) => clientSecrets.resolve(place, sources),
  });
  const withheld = (row: Pick<ConversationRow, "userId" | "sandboxId">) =>
    acceptances.withheld(row.userId, row.sandboxId);

  const runs = new ActiveRuns(limits.slots ?? new RunQueue(limits.maxRuns), custody);
  const workspaces = new Workspaces({
    sandboxes,
    settings,
    isAwake: (row) => runs.isAwake(row.id) || runs.isWaiting(row),
    epoch: (sandboxId) => custody.requireOwner(sandboxId)?.epoch ?? onlyEpoch,
    find: (id) => store.conversations.get(id),
    onUnload(id) {
      toolsets.drop(id);
      masks.drop(id);
    },
  });
  const switchProfile = async (userId: string, id: string, profile: string): Promise<void> =>
    switches.switchProfile(await access.requireOwned(userId, id), profile);
  const sandbox = (row: ConversationRow) => {
    const workspace = workspaces.getOrCreate(row);
    return runs.isAwake(row.id) ? workspace.runSandbox() : workspace.sandbox();
  };
  const foundServers: ProjectKnowledge["servers"] = (row, invoked) => knowledge.servers(row, invoked);
  const mcp = new McpTools({
    agents,
    findServers: (row, invoked) =>
      resolveServerSpecs({ agents, settings, foundServers, withheld }, row, invoked),
    sessions: new McpSessions({ sandboxes, secrets, outbound, sandbox, registerSecret }),
  });
  const toolsets = new Toolsets(
    [
      agents,
      mcp,
      { tools: (row) => subAgents.tools(row), prepare: (row) => subAgents.prepare(row) },
      new RefreshedSecrets({ store, secrets, outbound }),
      new UnknownToolWarnings({ agents, contexts }),
      new SkillTools({ store, knowledge, joinServers: (...skill) => mcp.join(...skill) }),
      new SwitchModelTool({ settings, agents, switchProfile }),
    ],
    deps.adaptTools,
  );

  const onRest = (id: string) => goals.onRest(id);
  const services = createRuns({
    store,
    scheduler,
    hub,
    callbacks,
    sandboxes,
    settings,
    secrets,
    agents,
    masks,
    knowledge,
    behaviours,
    acceptances,
    toolsets,
    runs,
    workspaces,
    openModel,
    dailyBudget,
    custody,
    onRest,
    logger,
  });
  const { runner, sessionEnds, histories, announcements, usage, sideCalls, questions, titles } = services;
  const definitions = new SubAgentDefinitions({
    ...{ agents, settings, contexts, workspaces, behaviours, acceptances },
  });
  const subAgents = new SubAgentRunner({ store, agents, definitions, runner, usage, commands });
  limits.slots?.onTurn((userId) => void runner.wakeNext(userId));
  const judge = new GoalJudge({ histories, sideCalls });
  const goals = new Goals({ store, runs, announcements, judge, commands, logger });

  const runCommands = new RunCommands({ store, access, runner, histories, announcements, subAgents });
  const openings = new Openings({ store, knowledge, toolsets, mcp, runs, workspaces });
  const messageTitles = new MessageTitles({ store, masks, announcements, generated: titles });
  const delivery = new MessageDelivery({
    store,
    openings,
    knowledge,
    histories,
    titles: messageTitles,
    runner,
  });
  const messages = new Messages({ store, access, goals, commands: runCommands, announcements, delivery });
  const pending = new PendingMessages({ store, commands, sandboxes, logger });
  const details = new ConversationDetails({ store, callbacks, announcements });
  const switches = new ModelSwitches({ store, settings, announcements });
  const secretAdditions = new SecretAdditions({
    secrets: clientSecrets,
    runner,
    workspaces,
    announcements,
  });
  const pluginAdditions = new PluginAdditions({ store, plugins, knowledge, announcements });

  const waitsForTools = async (row: Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">) =>
    (await mcp.hasServers(row)) || (await knowledge.usesMemory(row));
  const starting = createStarts({
    store,
    callbacks,
    sandboxes,
    joins,
    settings,
    secrets,
    clientSecrets,
    plugins,
    mask,
    masks,
    openModel,
    knowledge,
    behaviours,
    runner,
    workspaces,
    announcements,
    commands,
    pending,
    waitsForTools,
    replacements,
    publicUrl,
    custody,
    logger,
  });
  const reads = new ConversationReads({ store, sandboxes, settings, agents, histories, publicUrl });

  handleSandboxPauses({
    sandboxes,
    conversations: store.conversations,
    workspaces,
    pause: (id) => commands.pause(id),
    abortCall: (id) => runner.abortCall(id),
    announceEnd: (id) => announcements.announceEnd(id),
  });
  const release = new Release({
    custody,
    runs: { runner, workspaces, sessionEnds, toolsets, usage, contexts },
    feed: { hub, announcements },
    starting,
    callbacks,
    after: { store, logger },
  });
  custody.onFenced = (id) => void release.release([id], { lost: true, graceMs: 0 });
  const place = { custody, contexts, release };
  const adoption = new Adoption({
    store,
    runner,
    others: { callbacks, pending, starting, goals },
    place,
    logger,
  });
  let isOpen = false;
  return {
    reads,
    commands,
    pending,
    settings: {
      describe: (row, change) => details.describe(row, change),
      setPolicy: (row, policy) => details.setPolicy(row, policy),
      setAnalyzer: (row, analyzer) => details.setAnalyzer(row, analyzer),
      addSecrets: (row, sources) => secretAdditions.add(row, sources),
      switchLlm: (row, llm) => switches.switchLlm(row, llm),
      loadPlugin: (row, plugin) => pluginAdditions.add(row, plugin),
    },
    reports: new ReportedConversations({ store, callbacks, sandboxes, joins, announcements }),
    starts: starting.starts,
    branches: {
      navigate: async (id, eventId) =>
        navigate(
          { store, sandboxes, runner, workspaces, replacements },
          await access.requireWithSandbox(id),
          eventId,
        ),
      fork: async (id, request) => starting.fork(await access.requireWithSandbox(id), request),
      startChild: async (id, request) => starting.startChild(await access.requireWithSandbox(id), request),
    },
    live: {
      fullState: async (id) => histories.fullState(await access.require(id)),
      goal: async (id) => {
        const { goal } = (await access.require(id)).config;
        return goal && presentGoal(goal);
      },
      follow: (id, follower) => hub.follow(id, follower),
      mayMissEnd: (id) => hub.lost.mayMissEnd(id),
      followers: (id) => hub.followers(id),
      noteRead: (id, what) => announcements.noteRead(id, what),
    },
    sideCalls: {
      ask: async (id, question) => questions.ask(await access.requireLocal(id), question),
      title: async (id, options) =>
        generateTitle({ events, sideCalls }, await access.requireLocal(id), options),
      condense: async (id) => condense({ store, histories, runner }, await access.requireWithSandbox(id)),
    },
    goals: {
      start: async (id, objective, maxIterations) =>
        goals.start(await access.requireWithSandbox(id), objective, maxIterations),
      stop: async (id) => goals.stop(await access.requireLocal(id)),
      resume: async (id) => goals.resume(await access.requireWithSandbox(id)),
    },
    async update(viewer, id, change) {
      await details.patch(await access.requireOwned(viewer.userId, id), change);
      return (await reads.present([await access.requireOwned(viewer.userId, id)], viewer))[0]!;
    },
    skills: (row, files) => knowledge.listSkills(row, files),
    fetchPlugin: (target, request) => downloads.fetch(target, request),
    findBehaviour: (place, files) => behaviours.find(place, files),
    switchProfile,
    remove: async (userId, id, options) =>
      removeConversation(
        { store, sandboxes, joins, callbacks, runner, hub, subAgents },
        await access.requireOwned(userId, id),
        options,
      ),
    async adopt(scope, losses) {
      await adoption.adopt(scope, losses);
      isOpen ||= scope === "all";
    },
    adoptStarts: () => adoption.adoptStarts(),
    release: (sandboxIds, how) => release.release(sandboxIds, how),
    async close(graceMs) {
      for (const part of [adoption, titles, plugins, downloads, questions, sideCalls, announcements])
        part.close();
      const ended = runner.close(graceMs).then(() => toolsets.close());
      await Promise.all([ended, starting.close(), goals.close()]);
      if (isOpen) await store.conversations.markCleanEnd();
      isOpen = false;
    },
  };
}
