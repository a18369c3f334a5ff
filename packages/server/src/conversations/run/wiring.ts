import { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { Logger } from "@sandpiper/core/log/logger";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { OpenModel } from "@sandpiper/models/model";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Callbacks } from "../../callbacks/api.ts";
import type { Store } from "../../store/store.ts";
import type { Acceptances, Secrets, Settings } from "../../users/api.ts";
import type { DailyBudget } from "../../users/daily-budget.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { ConversationModels } from "../agent/conversation-models.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolsets } from "../agent/toolset.ts";
import type { Custody } from "../custody.ts";
import type { Hub } from "../log/hub.ts";
import type { ProjectBehaviours } from "../project/behaviours.ts";
import type { ActiveRuns } from "./active-runs.ts";
import { Announcements } from "./announcements.ts";
import { ConversationUsage } from "./conversation-usage.ts";
import { Histories } from "./histories.ts";
import { HookSessions } from "./hook-sessions.ts";
import { Questions } from "./questions.ts";
import { Restrictions } from "./restrictions.ts";
import { Run } from "./run.ts";
import { RunAgent } from "./run-agent.ts";
import { RunBudget } from "./run-budget.ts";
import { RunLog } from "./run-log.ts";
import { RunProject } from "./run-project.ts";
import { Runner, type RunnerDeps } from "./runner.ts";
import { SessionEnds } from "./session-ends.ts";
import { SideCallUsage } from "./side-call-usage.ts";
import { SideCalls } from "./side-calls.ts";
import { GeneratedTitles } from "./titles.ts";
import type { Workspaces } from "./workspaces.ts";

export interface RunsDeps {
  store: Store;
  scheduler: TurnScheduler;
  hub: Hub;
  callbacks: Callbacks;
  sandboxes: Sandboxes;
  settings: Settings;
  secrets: Pick<Secrets, "forSandbox">;
  acceptances: Acceptances;
  behaviours: ProjectBehaviours;
  agents: AgentConfigResolver;
  masks: OutputMasks;
  knowledge: ProjectKnowledge;
  toolsets: Toolsets;
  runs: ActiveRuns;
  workspaces: Workspaces;
  openModel: OpenModel;
  dailyBudget: DailyBudget;
  custody: Custody;
  /** Called when a conversation comes to rest. */
  onRest(conversationId: string): void;
  logger: Logger;
}

/** The runs of conversations, and the model calls outside of runs. */
export interface RunServices {
  runner: Runner;
  sessionEnds: SessionEnds;
  histories: Histories;
  announcements: Announcements;
  usage: ConversationUsage;
  sideCalls: SideCalls;
  questions: Questions;
  titles: GeneratedTitles;
}

export function createRuns(deps: RunsDeps): RunServices {
  const { store, scheduler, hub, callbacks, sandboxes, settings, agents, masks, knowledge } = deps;
  const { secrets, acceptances, behaviours, toolsets, runs, workspaces, openModel } = deps;
  const { dailyBudget, custody, onRest, logger } = deps;
  const models = new ConversationModels({ store, agents, masks, openModel, hub });
  const contextLimits = new ContextLimits();
  const histories = new Histories({
    ...{ store, scheduler, agents, knowledge, toolsets, runs },
  });
  const announcements = new Announcements({ store, hub, histories });
  const pendingUsage = new SideCallUsage(store.events);
  const usage = new ConversationUsage({ store, runs, histories, pending: pendingUsage });
  const addUsage: ConversationUsage["add"] = (...call) => usage.add(...call);
  const { contexts } = knowledge;
  const restrictions = new Restrictions({ acceptances, behaviours, contexts, secrets, sandboxes });
  const hooks = new HookSessions({ contexts, agents, restrictions, addUsage });

  const prepareRun: RunnerDeps["prepareRun"] = async (row) => {
    const [agent, budget, lastTools] = await Promise.all([
      RunAgent.open({ store, agents, models, contextLimits }, row),
      RunBudget.open({ store, settings, dailyBudget }, row),
      store.modelCalls.lastTools(row.id),
    ]);
    return () => {
      const sideCallUsage = pendingUsage.getPending(row.id);
      const owner = () => custody.requireOwner(row.sandboxId);
      const onFenced = () => custody.onFenced(row.sandboxId);
      const workspace = workspaces.getOrCreate(row);
      const toolset = toolsets.forConversation(row);
      return new Run({
        row,
        log: new RunLog({ store, scheduler, hub, owner, onFenced, sideCallUsage }, row.id, lastTools),
        agent,
        project: new RunProject({ knowledge, hooks, restrictions, custody }, row),
        budget,
        tools: {
          toolset,
          context: workspace.toolContext(),
          warm: (signal) => workspace.warmTerminal(() => toolset.tools, signal),
          mask: () => masks.forConversation(row),
          loss: custody.lossOf(row.sandboxId),
        },
      });
    };
  };
  const sessionEnds = new SessionEnds({ store, sandboxes, workspaces, hooks, models, masks });
  const runner = new Runner({
    store,
    runs,
    workspaces,
    sessionEnds,
    prepareRun,
    listener: {
      onTurn: (id) => announcements.announceCurrent(id, "agent_state"),
      onRest(id) {
        usage.writePending(id).catch(() => {});
        announcements.announceEnd(id);
        toolsets.rest(id);
        workspaces.rest(id);
        onRest(id);
      },
    },
  });

  const sideCalls = new SideCalls({
    store,
    scheduler,
    agents,
    models,
    usage,
    limits: { dailyBudget, custody },
  });
  const questions = new Questions({ histories, sideCalls, custody });
  const titles = new GeneratedTitles({ store, settings, sideCalls, callbacks, announcements, logger });
  return { runner, sessionEnds, histories, announcements, usage, sideCalls, questions, titles };
}
