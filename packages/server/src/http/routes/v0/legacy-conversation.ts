import type { AppConversation, LegacyConversation, LegacyStatus } from "@sandpiper/wire";

const statuses: Record<AppConversation["sandbox_status"], LegacyStatus> = {
  STARTING: "STARTING",
  RUNNING: "RUNNING",
  PAUSED: "STOPPED",
  ERROR: "ERROR",
  MISSING: "ARCHIVED",
};

/** Converts a conversation to its V0 shape (legacy-gui.md section 4.3). */
export function toLegacyConversation(
  shown: AppConversation,
  { connections }: { connections: number },
): LegacyConversation {
  const failed = shown.execution_status === "error" || shown.execution_status === "stuck";
  return {
    conversation_id: shown.id,
    title: shown.title,
    created_at: shown.created_at,
    last_updated_at: shown.updated_at,
    status: statuses[shown.sandbox_status],
    runtime_status: shown.sandbox_status !== "RUNNING" ? null : failed ? "STATUS$ERROR" : "STATUS$READY",
    url: shown.conversation_url,
    session_api_key: shown.session_api_key,
    selected_repository: shown.selected_repository,
    selected_branch: shown.selected_branch,
    git_provider: shown.git_provider,
    trigger: shown.trigger,
    num_connections: connections,
    pr_number: shown.pr_number,
    conversation_version: "V1",
    sub_conversation_ids: shown.sub_conversation_ids,
  };
}

/** The V0 shape of a conversation whose start has not created it yet. */
export function toLegacyStart(id: string, createdAt: string, updatedAt: string): LegacyConversation {
  return {
    conversation_id: id,
    title: null,
    created_at: createdAt,
    last_updated_at: updatedAt,
    status: "STARTING",
    runtime_status: null,
    url: null,
    session_api_key: null,
    selected_repository: null,
    selected_branch: null,
    git_provider: null,
    trigger: null,
    num_connections: 0,
    pr_number: [],
    conversation_version: "V1",
    sub_conversation_ids: [],
  };
}
