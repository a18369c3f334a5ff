import type { ConversationInfo } from "@sandpiper/wire";
import { isoTime } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";

interface InfoFacts {
  row: ConversationRow;
  /** Value of the conversation's `full_state` frame. */
  state: Record<string, unknown>;
  children: readonly string[];
  agents: AgentConfigResolver;
  /** Shows the skills that the client gave with the agent: they may be long. */
  skills: boolean;
}

/** A conversation as the agent server shows it (agent-server.md section 3.2): its state, with what the record adds, and null for what has no value. */
export function presentInfo({ row, state, children, agents, skills }: InfoFacts): ConversationInfo {
  const { config, summary } = row;
  const { forkedFrom, launchedProfile } = config;
  return {
    security_analyzer: null,
    last_user_message_id: null,
    leaf_event_id: null,
    hook_config: null,
    ...state,
    ...(skills && { agent: agents.present(row, { skills: true }) }),
    id: row.id,
    title: row.title,
    metrics: summary.metrics,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
    forked_from_conversation_id: forkedFrom?.conversationId ?? null,
    forked_from_event_id: forkedFrom?.eventId ?? null,
    parent_conversation_id: row.parentId,
    sub_conversation_ids: children,
    current_model_id: agents.model(row).model ?? null,
    // Switching goes by LLM profiles and by descriptions of models here, not by a list of an agent's own.
    available_models: [],
    supports_runtime_model_switch: false,
    launched_agent_profile: launchedProfile
      ? { agent_profile_id: launchedProfile.id, revision: launchedProfile.revision }
      : null,
    client_tools: agents.clientAgent(row)?.clientTools ?? [],
  } as unknown as ConversationInfo;
}
