import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { toAgentServerUrl } from "@sandpiper/sandbox/service/agent-server-url";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  ConversationInfo,
  SandboxStatus,
} from "@sandpiper/wire";
import { hexId, isoTime } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import { createdBy } from "../../users/default-user.ts";
import { makeSessionKey } from "../../users/sandbox-grants.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import { presentRuntime } from "./present-runtime.ts";

/** A conversation as V1 clients see it (app-server.md section 2.1). */
export function presentConversation(
  row: ConversationRow,
  facts: {
    sandbox: SandboxRow | undefined;
    children: readonly string[];
    model: string | undefined;
    publicUrl: string;
    /** The key or login that the caller used. */
    source: string;
  },
): AppConversation {
  const { config, summary } = row;
  const launched = config.launchedProfile;
  const status: SandboxStatus = facts.sandbox?.status ?? "MISSING";
  const running = status === "RUNNING" ? facts.sandbox : undefined;
  return {
    id: hexId(row.id),
    created_by_user_id: createdBy(row.userId),
    sandbox_id: row.sandboxId,
    selected_repository: config.selectedRepository,
    selected_branch: config.selectedBranch,
    git_provider: config.gitProvider as AppConversation["git_provider"],
    title: row.title,
    trigger: config.trigger as AppConversation["trigger"],
    pr_number: config.prNumber,
    llm_model: facts.model ?? null,
    agent_kind: "openhands",
    metrics: summary.metrics,
    parent_conversation_id: row.parentId ? hexId(row.parentId) : null,
    sub_conversation_ids: facts.children.map(hexId),
    public: config.public,
    tags: config.tags,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    sandbox_status: status,
    execution_status: running ? summary.executionStatus : null,
    conversation_url: running
      ? `${toAgentServerUrl(facts.publicUrl, row.sandboxId)}/api/conversations/${hexId(row.id)}`
      : null,
    session_api_key: running ? makeSessionKey({ row: running, source: facts.source }) : null,
    acp_server: null,
    launched_agent_profile: launched ? { agent_profile_id: launched.id, revision: launched.revision } : null,
  };
}

const withAgentUrl = new Set(["STARTING_CONVERSATION", "READY"]);

/** A start task as clients see it (app-server.md section 2.4). */
export function presentStartTask(row: StartTaskRow, publicUrl: string): AppConversationStartTask {
  return {
    id: hexId(row.id),
    created_by_user_id: createdBy(row.userId),
    status: row.status,
    detail: row.detail,
    app_conversation_id: row.status === "READY" ? hexId(row.conversationId) : null,
    sandbox_id: row.status === "WORKING" ? null : row.sandboxId,
    agent_server_url:
      withAgentUrl.has(row.status) && row.sandboxId ? toAgentServerUrl(publicUrl, row.sandboxId) : null,
    request: presentRequest(row.request as AppConversationStartRequest),
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

/** Values of the start request fields that are left out or null. */
const requestDefaults = {
  sandbox_id: null,
  conversation_id: null,
  initial_message: null,
  system_message_suffix: null,
  processors: [],
  llm_model: null,
  agent_profile_id: null,
  selected_repository: null,
  selected_branch: null,
  git_provider: null,
  suggested_task: null,
  title: null,
  trigger: null,
  pr_number: [],
  parent_conversation_id: null,
  agent_type: "default",
  public: null,
  plugins: null,
  secrets: null,
} as const;

/** A start task's request with every field of the reference (app-server.md sections 2.4 and 10). */
function presentRequest(request: AppConversationStartRequest): object {
  const values = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== null));
  const message = request.initial_message && { role: "user", run: false, ...request.initial_message };
  return { ...requestDefaults, ...values, ...(message && { initial_message: message }) };
}

/** Tools of the Python SDK whose module has another name than the tool. */
const moduleNames: Record<string, string> = {
  browser_tool_set: "browser_use",
  task_tool_set: "task",
  read_file: "gemini.read_file",
  write_file: "gemini.write_file",
  edit: "gemini.edit",
  list_directory: "gemini.list_directory",
};

/** Tools of the Python SDK whose module has the name of the tool. */
const ownModules = [
  "terminal",
  "file_editor",
  "task_tracker",
  "glob",
  "grep",
  "planning_file_editor",
  "apply_patch",
];

/** The SDK's modules of an agent's tools (agent-server-1.58.md section 3.2). */
function toModules(agent: unknown): Record<string, string> {
  const { tools } = agent as { tools?: { name: string }[] | null };
  const modules = (tools ?? []).flatMap(({ name }) => {
    const own = ownModules.includes(name) ? name : undefined;
    const module = Object.hasOwn(moduleNames, name) ? moduleNames[name] : own;
    return module ? [[name, `openhands.tools.${module}.definition`]] : [];
  });
  return Object.fromEntries(modules);
}

interface InfoFacts {
  row: ConversationRow;
  /** Value of the conversation's `full_state` frame. */
  state: Record<string, unknown>;
  children: readonly string[];
  sandbox: SandboxRow | undefined;
  agents: AgentConfigResolver;
  /** Includes the skills of a client's own agent, which may be long. */
  skills: boolean;
}

/** A conversation as the agent server shows it (agent-server.md section 3.2). */
export async function presentInfo({
  row,
  state,
  children,
  sandbox,
  agents,
  skills,
}: InfoFacts): Promise<ConversationInfo> {
  const { config, summary } = row;
  const [agent, { model }, own] = await Promise.all([
    skills ? agents.present(row, { skills: true }) : undefined,
    agents.model(row),
    agents.clientAgent(row),
  ]);
  const { forkedFrom, launchedProfile } = config;
  return {
    security_analyzer: null,
    last_user_message_id: null,
    leaf_event_id: null,
    hook_config: null,
    ...state,
    ...(skills && { agent }),
    id: row.id,
    title: row.title,
    metrics: summary.metrics,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    forked_from_conversation_id: forkedFrom?.conversationId ?? null,
    forked_from_event_id: forkedFrom?.eventId ?? null,
    parent_conversation_id: row.parentId,
    sub_conversation_ids: children,
    current_model_id: model ?? null,
    // Models are switched by LLM profile or description; an agent has no list of its own.
    available_models: [],
    supports_runtime_model_switch: false,
    launched_agent_profile: launchedProfile
      ? { agent_profile_id: launchedProfile.id, revision: launchedProfile.revision }
      : null,
    client_tools: own?.clientTools ?? [],
    tool_module_qualnames: toModules(state.agent),
    runtime_info: presentRuntime(sandbox),
    // `state` has the remaining fields.
  } as unknown as ConversationInfo;
}
