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

/** Sparse `agent_settings`. Null means "none" when the default is something else. */
export type StoredAgentSettings = Omit<Diff<AgentSettings>, "mcp_config" | "llm"> & {
  llm?: LlmDiff;
  mcp_config?: McpServers;
};

/** Keeps V0's security analyzers that V1 does not know. */
export type StoredConversationSettings = Omit<Diff<ConversationSettings>, "security_analyzer"> & {
  security_analyzer?: string | null;
};

/**
 * The stored settings of a user, secrets included: sparse, and nested like V1 (app-server.md
 * section 5). V0 and V1 are views of this document.
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
  /** Free-form settings of agent-server clients. */
  misc_settings?: Record<string, unknown>;
  /** Saved folders. */
  workspaces?: SavedWorkspaces;
}

/** Paths of V0's flat fields in the document. */
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

export function getValueAt(document: object, place: readonly string[]): unknown {
  let value: unknown = document;
  for (const step of place) value = (value as Record<string, unknown> | null | undefined)?.[step];
  return value;
}

/** A copy with a value at a path; undefined removes it. */
export function setValueAt<T extends object>(
  document: T,
  [step, ...rest]: readonly string[],
  value: unknown,
): T {
  const { [step!]: old, ...others } = document as Record<string, unknown>;
  const next = rest.length === 0 ? value : setValueAt((old ?? {}) as object, rest, value);
  return (next === undefined ? others : { ...others, [step!]: next }) as T;
}

/** Upgrades a stored document: early ones are flat, like V0. */
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
 * Without an analyzer V0 confirms every action, whereas V1 uses the model's risk (`llm`). So a V0
 * document with confirmation and without an analyzer stores "none".
 */
export function normaliseAnalyzer(document: SettingsDocument): SettingsDocument {
  const { confirmation_mode: on, security_analyzer: analyzer } = document.conversation_settings ?? {};
  if (analyzer === "") return setValueAt(document, flatFieldPaths.security_analyzer, null);
  return on && analyzer === undefined
    ? setValueAt(document, flatFieldPaths.security_analyzer, null)
    : document;
}
