import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { toAgentServerUrl } from "@sandpiper/sandbox/service/agent-server-url";
import type {
  AppConversation,
  AppConversationStartRequest,
  AppConversationStartTask,
  SandboxStatus,
} from "@sandpiper/wire";
import { hexId, isoTime } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import { createdBy } from "../../users/default-user.ts";
import { presentRequest } from "./present-request.ts";

/** A conversation as clients see it (app-server.md section 2.1). What only a running sandbox has is null without one. */
export function presentConversation(
  row: ConversationRow,
  facts: {
    sandbox: SandboxRow | undefined;
    children: readonly string[];
    model: string | undefined;
    publicUrl: string;
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
    session_api_key: running?.sessionKey ?? null,
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
