import type { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { CondenserOptions } from "@sandpiper/agent/condenser/options";
import type { Hooks } from "@sandpiper/agent/hooks/hooks";
import type { RunHooksDeps } from "@sandpiper/agent/hooks/project-hooks";
import type { UsageMetrics } from "@sandpiper/agent/loop/records";
import { maskModel } from "@sandpiper/agent/masking/masked-model";
import type { OutputMask } from "@sandpiper/agent/masking/output-mask";
import type { Analyzer } from "@sandpiper/agent/risk/analyzer";
import type { Tool, ToolContext } from "@sandpiper/agent/tools/tool";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Model, OpenModel } from "@sandpiper/models/model";
import type { Action, ConfirmationPolicy, NewEvent, TextContent } from "@sandpiper/wire";
import type { ConversationRow, ConversationStore } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import { getOwnCost } from "../../store/summary.ts";
import type { Settings } from "../../users/api.ts";
import type { DailyBudget } from "../../users/daily-budget.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { ProjectKnowledge } from "../agent/project-knowledge.ts";
import type { Toolset, Toolsets } from "../agent/toolset.ts";
import type { Hub } from "../log/hub.ts";
import type { FoldedFacts } from "../log/state.ts";
import type { HookSessions } from "./hook-sessions.ts";

/** The collaborators of one run. */
export interface RunEnvironment {
  store: Store;
  scheduler: TurnScheduler;
  hub: Hub;
  toolset: Toolset;
  /** The first event of a conversation that begins without a message. */
  systemPrompt(tools: readonly Tool[]): NewEvent;
  /** Stores the facts that clients see while the conversation sleeps. */
  keepFacts(facts: FoldedFacts): Promise<void>;
  row: ConversationRow;
  /** The model of the next call; it may change during a run. Throws ModelNotConfigured. */
  openModel(): Model;
  /** The model that summarises. Throws ModelNotConfigured. */
  openCondenser(): Model;
  /** Undefined: the history is condensed only on request. */
  condenser(): CondenserOptions | undefined;
  contextLimits: ContextLimits;
  toolContext: Omit<ToolContext, "signal" | "actionId">;
  policy(): ConfirmationPolicy;
  analyzer(): Analyzer | undefined;
  /** Project rules for the files that an action touched, except the known ones. */
  rulesFor(action: Action, activeNames: ReadonlySet<string>): TextContent[];
  openHooks(run: RunHooksDeps): Hooks;
  /** Called for each batch of actions, because secrets may be added. */
  mask(): OutputMask;
  /** Maximum concurrent calls. */
  concurrency: number;
  budget: number | null;
  /** USD that sub-agents, or the parent, have spent of the same budget. */
  sumSiblingSpend(): number;
  /** Metrics of side calls by usage id, for the next stats record. */
  sideCallUsage: ReadonlyMap<string, UsageMetrics>;
  /** Why the user's daily budget is spent; undefined while it is not. */
  dailyBudgetExhausted(): string | undefined;
  /** Ids of the open actions that the user approved. */
  approved: ReadonlySet<string>;
}

export interface RunEnvironmentDeps {
  store: Store;
  scheduler: TurnScheduler;
  hub: Hub;
  settings: Pick<Settings, "agent">;
  agents: AgentConfigResolver;
  toolsets: Pick<Toolsets, "forConversation">;
  knowledge: Pick<ProjectKnowledge, "systemPrompt" | "contexts" | "rulesFor">;
  hooks: Pick<HookSessions, "forRun">;
  masks: Pick<OutputMasks, "forConversation">;
  openModel: OpenModel;
  limits: { dailyBudget: DailyBudget };
}

/** Values that the runner adds. */
type RunnerValues = Pick<RunEnvironment, "contextLimits" | "toolContext" | "sideCallUsage" | "approved">;

/** The environment of a run. Each call reads the current settings of the conversation. */
export function makeRunEnvironment(
  sources: RunEnvironmentDeps,
  row: ConversationRow,
  own: RunnerValues,
): RunEnvironment {
  const { store, scheduler, hub, settings, agents, toolsets, knowledge, hooks, masks, openModel, limits } =
    sources;
  const now = () => store.conversations.get(row.id) ?? row;
  return {
    ...own,
    store,
    scheduler,
    hub,
    toolset: toolsets.forConversation(row),
    systemPrompt: (tools) => knowledge.systemPrompt(row, tools),
    row,
    openModel: makeModelOpener(sources, row),
    openCondenser: () => {
      const { model, ...rest } = agents.condenserModel(now());
      return maskModel(openModel({ model: model ?? "", ...rest }), masks.forConversation(row));
    },
    condenser: () => agents.condenser(now()),
    policy: () => agents.policy(now()),
    analyzer: () => agents.analyzer(now()),
    keepFacts: (facts) => knowledge.contexts.saveFacts(row.id, facts),
    rulesFor: (action, known) => knowledge.rulesFor(row, action, known),
    openHooks: (parts) => hooks.forRun(row, parts),
    mask: () => masks.forConversation(row),
    concurrency: agents.concurrency(row),
    budget: settings.agent(row.userId).maxBudgetPerTask,
    sumSiblingSpend: () => sumSiblingSpend(store.conversations, now()),
    dailyBudgetExhausted: () => limits.dailyBudget.getExhaustedReason(row.userId),
  };
}

/**
 * Returns a function that opens the conversation's model, and opens it anew after a switch
 * (app-server.md section 2.9, agent-server.md section 3).
 */
export function makeModelOpener(
  { store, agents, masks, openModel }: Pick<RunEnvironmentDeps, "store" | "agents" | "masks" | "openModel">,
  first: ConversationRow,
): () => Model {
  let opened: { name: string; model: Model } | undefined;
  return () => {
    const row = store.conversations.get(first.id) ?? first;
    const { llmProfile, llmModel, llmRevision = 0 } = row.config;
    const name = JSON.stringify([llmProfile, llmModel, llmRevision]);
    if (opened?.name !== name) {
      const { model, ...rest } = agents.model(row);
      opened = {
        name,
        model: maskModel(openModel({ model: model ?? "", ...rest }), masks.forConversation(row)),
      };
    }
    return opened.model;
  };
}

/** USD that the parent and its other sub-agents have spent: one budget covers all of them. */
function sumSiblingSpend(
  conversations: Pick<ConversationStore, "get" | "listChildren">,
  row: ConversationRow,
): number {
  const root = row.config.task ? row.parentId : row.id;
  if (!root) return 0;
  const family = [root, ...(conversations.listChildren([root]).get(root) ?? [])];
  let sum = 0;
  for (const id of family) {
    const other = id === row.id ? undefined : conversations.get(id);
    if (!other || (id !== root && !other.config.task)) continue;
    const { stats, metrics } = other.summary;
    sum += stats ? getOwnCost(stats) : (metrics?.accumulated_cost ?? 0);
  }
  return sum;
}
