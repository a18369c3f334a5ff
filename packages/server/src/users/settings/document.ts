import type {
  AgentProfile,
  AgentSettings,
  ConversationSettings,
  Diff,
  LlmDiff,
  McpServers,
  PlainSettings,
  SavedWorkspaces,
  SettingsUpdate,
} from "@sandpiper/wire";
import { mergeServerLists } from "../mcp-lists.ts";

/** What is stored of `agent_settings`: only what has a value. A null stands for "none" where the default is something else. */
export type StoredAgentSettings = Omit<Diff<AgentSettings>, "mcp_config" | "llm"> & {
  llm?: LlmDiff;
  mcp_config?: McpServers;
};

/** A security analyzer that V1 has no name for is kept as V0 gave it. */
export type StoredConversationSettings = Omit<Diff<ConversationSettings>, "security_analyzer"> & {
  security_analyzer?: string | null;
};

/**
 * A user's settings as they are stored, secrets included: nested as V1 has them (app-server.md section 5), and only what has a value. Both
 * versions of the API are views of it and merges into it.
 */
export interface SettingsDocument extends Diff<PlainSettings> {
  /** V0 only. */
  enable_solvability_analysis?: boolean;
  agent_settings?: StoredAgentSettings;
  conversation_settings?: StoredConversationSettings;
  llm_profiles?: { profiles: Record<string, LlmDiff>; active: string | null };
  agent_profiles?: {
    profiles: Record<string, AgentProfile>;
    active: { id: string; revision: number } | null;
  };
  /** What clients of the agent server keep here for themselves. */
  misc_settings?: Record<string, unknown>;
  /** Folders that clients remember. */
  workspaces?: SavedWorkspaces;
}

/** Where V0's flat fields are in the document. */
export const flatFieldPaths = {
  agent: ["agent_settings", "agent"],
  llm_model: ["agent_settings", "llm", "model"],
  llm_api_key: ["agent_settings", "llm", "api_key"],
  llm_base_url: ["agent_settings", "llm", "base_url"],
  enable_default_condenser: ["agent_settings", "condenser", "enabled"],
  condenser_max_size: ["agent_settings", "condenser", "max_size"],
  mcp_config: ["agent_settings", "mcp_config"],
  max_iterations: ["conversation_settings", "max_iterations"],
  confirmation_mode: ["conversation_settings", "confirmation_mode"],
  security_analyzer: ["conversation_settings", "security_analyzer"],
} as const satisfies Partial<Record<keyof SettingsUpdate, readonly string[]>>;

/** The value at a place; undefined when there is none. */
export function getValueAt(document: object, place: readonly string[]): unknown {
  let value: unknown = document;
  for (const step of place) value = (value as Record<string, unknown> | null | undefined)?.[step];
  return value;
}

/** A copy with another value at a place; undefined takes it out. */
export function setValueAt<T extends object>(
  document: T,
  [step, ...rest]: readonly string[],
  value: unknown,
): T {
  const { [step!]: old, ...others } = document as Record<string, unknown>;
  const next = rest.length === 0 ? value : setValueAt((old ?? {}) as object, rest, value);
  return (next === undefined ? others : { ...others, [step!]: next }) as T;
}

/** A stored document in the form of now: earlier ones are flat, as V0 is. */
export function upgradeDocument(stored: Record<string, unknown>): SettingsDocument {
  let document = stored;
  for (const [field, place] of Object.entries(flatFieldPaths)) {
    if (!Object.hasOwn(document, field)) continue;
    const { [field]: value, ...others } = document;
    document = setValueAt(
      others,
      place,
      field === "mcp_config" ? mergeServerLists(value as SettingsUpdate["mcp_config"] & {}, {}) : value,
    );
  }
  return document === stored ? (stored as SettingsDocument) : normaliseAnalyzer(document as SettingsDocument);
}

/**
 * In V0 no analyzer means that every action is confirmed, in V1 that the model's own judgement counts (the default `llm`). So where a V0
 * document turns confirmation on without an analyzer, "none" is written down.
 */
export function normaliseAnalyzer(document: SettingsDocument): SettingsDocument {
  const { confirmation_mode: on, security_analyzer: analyzer } = document.conversation_settings ?? {};
  if (analyzer === "") return setValueAt(document, flatFieldPaths.security_analyzer, null);
  return on && analyzer === undefined
    ? setValueAt(document, flatFieldPaths.security_analyzer, null)
    : document;
}
