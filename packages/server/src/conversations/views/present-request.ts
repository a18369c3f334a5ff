import type { AppConversationStartRequest } from "@sandpiper/wire";

/** What a start request means by the fields that it leaves out or sends as null. */
const defaults = {
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

/** The request of a start task as clients see it: every field of the reference is there (app-server.md sections 2.4 and 10). */
export function presentRequest(request: AppConversationStartRequest): object {
  const given = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== null));
  const message = request.initial_message && { role: "user", run: false, ...request.initial_message };
  return { ...defaults, ...given, ...(message && { initial_message: message }) };
}
