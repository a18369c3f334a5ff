import type { SettingsView } from "@sandpiper/wire";
import { hexId } from "@sandpiper/wire";
import { policyFromSettings } from "../agent/confirmation.ts";
import type { Tool } from "../agent/tool.ts";
import type { EventLog } from "../store/event-log.ts";
import type { ConversationRow } from "../store/store.ts";
import type { ConversationState } from "./state.ts";

interface FullStateInput {
  row: ConversationRow;
  /** State of a run that goes on; a sleeping conversation is read from its row and the end of its log. */
  state: ConversationState | undefined;
  events: EventLog;
  tools: readonly Tool[];
  /** Names of the skills that messages brought along. */
  activatedSkills: readonly string[];
  model: string | undefined;
  settings: SettingsView;
}

/** Value of the `full_state` frame (agent-server.md section 6.1). Keys without a value are left out; it holds no secret. */
export function fullState({
  row,
  state,
  events,
  tools,
  activatedSkills,
  model,
  settings,
}: FullStateInput): Record<string, unknown> {
  const leaf = state ? state.leafEventId : newest(events, row.id);
  const lastUserMessage = state ? state.lastUserMessageId : newestUserMessage(events, row.id);
  const { metrics, executionStatus } = row.summary;
  return {
    id: row.id,
    agent: {
      kind: "Agent",
      llm: { model: model ?? "", usage_id: "agent" },
      tools: tools.filter(({ name }) => !["finish", "think"].includes(name)).map(({ name }) => ({ name, params: {} })),
      include_default_tools: ["FinishTool", "ThinkTool"],
    },
    workspace: { working_dir: row.config.workingDir, kind: "LocalWorkspace" },
    persistence_dir: `conversations/${hexId(row.id)}`,
    max_iterations: row.config.maxIterations,
    stuck_detection: true,
    execution_status: state?.status ?? executionStatus,
    confirmation_policy: policyFromSettings(settings.confirmation_mode, settings.security_analyzer),
    activated_knowledge_skills: activatedSkills,
    activated_path_rules: [],
    invoked_skills: [],
    blocked_actions: {},
    blocked_messages: {},
    ...(lastUserMessage ? { last_user_message_id: lastUserMessage } : {}),
    ...(leaf ? { leaf_event_id: leaf } : {}),
    head_is_empty: !leaf,
    stats: state?.stats ?? { usage_to_metrics: metrics ? { agent: metrics } : {} },
    secret_registry: { secret_sources: {} },
    tags: row.config.tags,
    agent_state: {},
  };
}

function newest(events: EventLog, id: string): string | undefined {
  const [json] = events.search(id, { descending: true, limit: 1 }).items;
  return json ? (JSON.parse(json) as { id: string }).id : undefined;
}

function newestUserMessage(events: EventLog, id: string): string | undefined {
  const messages = events.search(id, { kind: "MessageEvent", descending: true, limit: 10 }).items;
  return messages.map((json) => JSON.parse(json) as { id: string; source: string }).find(({ source }) => source === "user")?.id;
}
