import { hexId, maskText, type Stats } from "@sandpiper/wire";
import type { ConversationRow, Goal } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { getLeafId } from "../log/branch.ts";
import type { LogFollower } from "../log/follower.ts";
import { type FoldedFacts, pickFacts } from "../log/state.ts";
import type { RunProgress } from "./run-progress.ts";

interface FullStateInput {
  row: ConversationRow;
  /** The current run; undefined for a sleeping conversation, whose state is in its row and log. */
  run: { follower: LogFollower; progress: RunProgress | undefined } | undefined;
  events: EventLog;
  agents: AgentConfigResolver;
  /** Names of the skills that messages activated. */
  activatedSkills: readonly string[];
  /** Facts of a sleeping conversation. */
  facts: FoldedFacts;
  secretNames: readonly string[];
  /** Its place among the conversations that wait for their turn, from 1. */
  queuePosition(): number | undefined;
}

/**
 * Value of the `full_state` frame (agent-server.md section 6.1), without secrets. Keys without a
 * value are omitted.
 */
export async function fullState({
  row,
  run,
  events,
  agents,
  activatedSkills,
  secretNames,
  ...rest
}: FullStateInput): Promise<Record<string, unknown>> {
  const state = run?.follower.isReady ? run.follower.state : undefined;
  const [own, agent, policy, analyzer, storedLeaf, storedMessage] = await Promise.all([
    agents.clientAgent(row),
    agents.present(row, { skills: false }),
    agents.policy(row),
    agents.analyzerConfig(row),
    state && row.head === null ? undefined : getLeafId(events, row),
    state ? undefined : newestUserMessage(events, row.id),
  ]);
  // The state of the run is read last, because it changes during the other reads.
  const facts = state ? pickFacts(state) : rest.facts;
  const leaf = state && row.head === null ? state.leafEventId : storedLeaf;
  const lastUserMessage = state ? state.lastUserMessageId : storedMessage;
  const progress = run?.progress;
  const queuePosition = rest.queuePosition();
  const hookConfig = own?.hookConfig;
  return {
    id: row.id,
    ...(row.title !== null && { title: row.title }),
    agent,
    workspace: { working_dir: row.config.workingDir, kind: "LocalWorkspace" },
    persistence_dir: `conversations/${hexId(row.id)}`,
    max_iterations: row.config.maxIterations,
    stuck_detection: row.config.stuckDetection ?? true,
    execution_status: state?.status ?? row.summary.executionStatus,
    confirmation_policy: policy,
    ...(analyzer ? { security_analyzer: analyzer } : {}),
    activated_knowledge_skills: activatedSkills,
    activated_path_rules: facts.pathRules,
    invoked_skills: facts.invokedSkills,
    blocked_actions: facts.blockedActions,
    blocked_messages: facts.blockedMessages,
    ...(lastUserMessage ? { last_user_message_id: lastUserMessage } : {}),
    ...(leaf ? { leaf_event_id: leaf } : {}),
    head_is_empty: !leaf,
    stats: state?.stats ?? storedStats(row),
    secret_registry: { secret_sources: Object.fromEntries(secretNames.map((name) => [name, maskedSource])) },
    tags: row.config.tags,
    agent_state: {
      ...presentAgentState(row.config.goal),
      ...(progress && { tool_progress: progress }),
      ...(queuePosition && { run_queue: { position: queuePosition } }),
    },
    ...(hookConfig ? { hook_config: hookConfig } : {}),
  };
}

const maskedSource = { kind: "StaticSecret", value: maskText };

/** The metrics of a sleeping conversation by usage id. */
export function storedStats({ summary: { stats, metrics } }: Pick<ConversationRow, "summary">): Stats {
  return stats ?? { usage_to_metrics: metrics ? { agent: metrics } : {} };
}

async function newestUserMessage(events: EventLog, id: string): Promise<string | undefined> {
  for (const span of (await events.branch(id)).spans.toReversed()) {
    const query = { kind: "MessageEvent", descending: true, limit: 10, span };
    const { items } = await events.search(id, query);
    const found = items
      .map((json) => JSON.parse(json) as { id: string; source: string })
      .find(({ source }) => source === "user");
    if (found) return found.id;
  }
  return undefined;
}

/** Statuses of a goal in the reference that have another name here. */
const goalStatuses = { exhausted: "capped", failed: "interrupted" } as const;

/** Value of the `goal` frame (agent-server-1.58.md section 6.3). */
export function presentGoal(goal: Goal): Record<string, unknown> {
  const { objective, maxIterations, iteration, status, detail, score } = goal;
  const complete = status === "complete";
  const isJudged = complete || status === "exhausted";
  return {
    active: status === "running",
    status: goalStatuses[status as keyof typeof goalStatuses] ?? status,
    // The rounds that were judged.
    iteration: isJudged ? iteration : iteration - 1,
    max_iterations: maxIterations,
    objective,
    verdict: score === undefined ? null : { score, complete, missing: complete ? "" : (detail ?? "") },
  };
}

/** `agent_state` of a conversation for clients: its goal. */
export function presentAgentState(goal: Goal | undefined): Record<string, unknown> {
  if (!goal) return {};
  const { objective, maxIterations, iteration, status, detail } = goal;
  return { goal: { objective, max_iterations: maxIterations, iteration, status, detail } };
}
