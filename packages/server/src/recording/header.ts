import { mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import type { RecordingHeader } from "@sandpiper/wire";
import { isoTime, recordingVersion } from "@sandpiper/wire";
import { maskSecrets } from "../conversations/agent/mask-secrets.ts";
import type { Conversations } from "../conversations/api.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";
import type { Secrets, Settings } from "../users/api.ts";

export interface RecordingHeaderDeps {
  store: Pick<Store, "agents" | "contexts" | "conversations" | "sandboxes">;
  settings: Pick<Settings, "agent">;
  secrets: Pick<Secrets, "forSandbox">;
  conversations: Pick<Conversations, "reads">;
  /** Skills of the server for every conversation of a user. */
  globalSkills: (userId: string) => Promise<readonly Skill[]>;
  /** Version of this program. */
  version: string;
}

/** The header of a recording: all inputs of the agent that are not in the log, without secrets. */
export async function createRecordingHeader(
  deps: RecordingHeaderDeps,
  row: ConversationRow,
): Promise<RecordingHeader> {
  const { store, secrets, conversations } = deps;
  const { confirmation_policy, security_analyzer } = await conversations.reads.info(row);
  const own = row.config.ownAgent ? await store.agents.get(row.id) : undefined;
  const sandbox = await store.sandboxes.get(row.sandboxId);
  const known = await secrets.forSandbox(row.userId, row.sandboxId);
  return {
    line: "recording",
    version: recordingVersion,
    platform: deps.version,
    conversation: {
      id: row.id,
      ...(row.title !== null && { title: row.title }),
      created_at: isoTime(row.createdAt),
      sandbox_id: row.sandboxId,
      ...(sandbox && { spec_id: sandbox.specId }),
      config: { ...row.config, confirmationPolicy: confirmation_policy, securityAnalyzer: security_analyzer },
      ...(own && { agent: maskSecrets(own) as Record<string, unknown> }),
      context: await getContext(deps, row),
      settings: await getSettings(deps, row.userId),
      secrets: known.map(({ name, description, hosts, plain }) => ({
        name,
        ...(description !== null && { description }),
        ...(hosts && { hosts: [...hosts] }),
        ...(plain && { plain }),
      })),
    },
    needs: await listNeeds(store, row, sandbox?.snapshotId ?? null),
  };
}

async function getContext(
  { store, globalSkills }: RecordingHeaderDeps,
  row: ConversationRow,
): Promise<Record<string, unknown>> {
  const document = ((await store.contexts.get(row.id))?.document ?? {}) as { skills?: Skill[] };
  const skills = mergeSkills(document.skills ?? [], await globalSkills(row.userId));
  return { notes: [], ...document, skills };
}

/** The settings as a V1 change, which the replay applies. */
async function getSettings(
  { settings }: RecordingHeaderDeps,
  userId: string,
): Promise<Record<string, unknown>> {
  const agent = await settings.agent(userId);
  return {
    max_budget_per_task: agent.maxBudgetPerTask,
    disabled_skills: [...agent.disabledSkills],
    agent_settings_diff: {
      ...(agent.tools && { tools: agent.tools.map(({ name }) => ({ name })) }),
      tool_concurrency_limit: agent.toolConcurrencyLimit,
      enable_sub_agents: agent.enableSubAgents,
      enable_switch_llm_tool: agent.enableSwitchLlmTool,
      condenser: agent.condenser,
    },
  };
}

async function listNeeds(
  store: RecordingHeaderDeps["store"],
  { id, config, sandboxId, updatedAt }: ConversationRow,
  snapshotId: string | null,
): Promise<string[]> {
  // The tool results include the work of sub-agents; later conversations had no influence.
  const neighbours = await store.conversations.listBySandbox(sandboxId);
  const others = neighbours.filter(
    (other) => other.id !== id && other.parentId !== id && other.createdAt < updatedAt,
  ).length;
  const { selectedRepository, selectedBranch, worktree, forkedFrom } = config;
  return [
    ...(selectedRepository
      ? [`a clone of ${selectedRepository}${selectedBranch ? `, branch ${selectedBranch}` : ""}`]
      : []),
    ...(worktree ? [`a worktree of ${worktree.repository}`] : []),
    ...(snapshotId ? ["the files of the snapshot that its sandbox was made from"] : []),
    ...(forkedFrom ? [`what conversation ${forkedFrom.conversationId} did before it was forked`] : []),
    ...(others > 0
      ? [
          `what ${others === 1 ? "another conversation" : `${others} other conversations`} did in the same sandbox`,
        ]
      : []),
  ];
}
