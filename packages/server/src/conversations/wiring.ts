import { loadAgentDefinitions } from "@sandpiper/agent/skills/agent-definitions";
import type { Skill } from "@sandpiper/agent/skills/skill";
import type { Logger } from "@sandpiper/core/log/logger";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Content } from "@sandpiper/wire";
import type { Callbacks } from "../callbacks/api.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { ConversationLookup } from "./access.ts";
import { AgentConfigResolver, type AgentConfigResolverDeps } from "./agent/agent-config.ts";
import { McpTools } from "./agent/mcp.ts";
import { OutputMasks, type OutputMasksDeps } from "./agent/output-masks.ts";
import { ProjectKnowledge } from "./agent/project-knowledge.ts";
import { RefreshedSecrets } from "./agent/refreshed-secrets.ts";
import { SkillTools } from "./agent/skill-tools.ts";
import { SwitchModelTool } from "./agent/switch-model-tool.ts";
import { type AdaptTools, Toolsets } from "./agent/toolset.ts";
import { UnknownToolWarnings } from "./agent/unknown-tool-warnings.ts";
import type { SendOptions } from "./api.ts";
import { Commands } from "./commands/commands.ts";
import { ConversationSettings } from "./commands/conversation-settings.ts";
import { Goals } from "./commands/goals.ts";
import { PendingMessages } from "./commands/pending.ts";
import { ReportedConversations } from "./commands/reported-conversations.ts";
import { Hub } from "./log/hub.ts";
import { ConversationHooks } from "./run/conversation-hooks.ts";
import { type RunLimits, Runner } from "./run/runner.ts";
import { SideCalls } from "./run/side-calls.ts";
import { SubAgents } from "./run/sub-agents.ts";
import { Titles } from "./run/titles.ts";
import { ConversationStarter } from "./start/start.ts";
import { ConversationReads } from "./views/reads.ts";

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
  /** Knows the secrets that outputs must not show. */
  mask: OutputMasksDeps["mask"];
  openModel: OpenModel;
  limits: RunLimits;
  publicUrl: () => string;
  /** Is told secrets of users that are used now, so that they are masked in what is logged. */
  registerSecret?: (value: string, userId: string) => void;
  logger: Logger;
}

/** The parts of which the service of conversations is made, wired together. Some know each other both ways: by closures, which nobody calls before all are there. */
export function makeParts(deps: ConversationsDeps) {
  const hub = new Hub(deps.store.events);
  const access = new ConversationLookup(deps);
  const agents = new AgentConfigResolver(deps);
  const masks = new OutputMasks({ ...deps, agents });
  const knowledge = new ProjectKnowledge({ ...deps, agents, masks });
  const send = (id: string, content: Content[], options: SendOptions): Promise<void> =>
    commands.send(id, content, options);
  const addUsage: Runner["addUsage"] = (...call) => runner.addUsage(...call);
  const mcp = new McpTools({
    ...deps,
    agents,
    foundServers: (row, invoked) => knowledge.servers(row, invoked),
    sandbox: (row) => runner.workspace(row).sandbox(),
  });
  const toolsets = new Toolsets(
    [
      agents,
      mcp,
      { tools: (row) => subAgents.tools(row), prepare: (row) => subAgents.prepare(row) },
      new RefreshedSecrets(deps),
      new UnknownToolWarnings({ agents, contexts: knowledge.contexts }),
      new SkillTools({ ...deps, knowledge, joinServers: (...skill) => mcp.join(...skill) }),
      new SwitchModelTool({
        ...deps,
        agents,
        switchProfile: (userId, id, profile) =>
          controls.switchProfile(access.requireOwned(userId, id), profile),
      }),
    ],
    deps.adaptTools,
  );
  const hooks = new ConversationHooks({ contexts: knowledge.contexts, agents, addUsage });
  const onRest = (id: string): void => goals.onRest(id);
  const runner: Runner = new Runner({ ...deps, masks, hub, knowledge, hooks, agents, toolsets, onRest });
  const sideCalls = new SideCalls({ ...deps, masks, agents, runner });
  const controls: ConversationSettings = new ConversationSettings({
    ...deps,
    hub,
    runner,
    agents,
    knowledge,
  });
  const titles = new Titles({ ...deps, masks, runner, addUsage });
  const goals: Goals = new Goals({ ...deps, runner, sideCalls, send });
  const subAgents: SubAgents = new SubAgents({
    ...deps,
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
    ...deps,
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
  const pending = new PendingMessages({ ...deps, send });
  const starter = new ConversationStarter({
    ...deps,
    runner,
    knowledge,
    send,
    pending,
    waitsForTools: (row) => mcp.hasServers(row) || knowledge.usesMemory(row),
  });
  const reads = new ConversationReads({ ...deps, agents, histories: runner.histories });
  const external = new ReportedConversations({ ...deps, runner });
  return {
    ...{ access, commands, controls, external, goals, hub, knowledge, pending },
    ...{ reads, runner, sideCalls, starter, subAgents, titles, toolsets },
  };
}
