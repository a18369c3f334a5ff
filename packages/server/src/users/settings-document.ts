import { type McpConfig, SettingsUpdate, type SettingsView } from "@sandpiper/wire";
import { masked, maskMcpConfig, mergeMcpConfig } from "./mcp-config.ts";

/** What is stored of a user's settings, secrets included: only fields that have a value. */
export type SettingsDocument = {
  [Field in keyof SettingsUpdate]?: Field extends "mcp_config" ? McpConfig : Exclude<SettingsUpdate[Field], null | undefined>;
};

type Field = keyof SettingsUpdate;

const secretFields = ["llm_api_key", "search_api_key", "sandbox_api_key"] as const satisfies Field[];

/** Fields for which null means "as it is" (app-server.md section 5, V0 POST); for all others it means "no value". */
const keptOnNull: ReadonlySet<Field> = new Set<Field>([
  ...secretFields,
  "llm_model",
  "llm_base_url",
  "user_consents_to_analytics",
]);

/** Fields that an empty text clears. */
const clearedByEmpty: ReadonlySet<Field> = new Set<Field>([...secretFields, "llm_model", "llm_base_url"]);

const fields = Object.keys(SettingsUpdate.properties) as Field[];

/** The document after a client's change. Fields that are absent, and fields that are not settable, change nothing. */
export function mergeSettings(stored: SettingsDocument, change: SettingsUpdate): SettingsDocument {
  const values = new Map<Field, unknown>(Object.entries(stored) as [Field, unknown][]);
  for (const field of fields) {
    const value = Object.hasOwn(change, field) ? change[field] : undefined;
    if (value === undefined || keeps(field, value)) continue;
    if (value === null || (value === "" && clearedByEmpty.has(field))) values.delete(field);
    else if (field === "mcp_config") values.set(field, mergeMcpConfig(change.mcp_config!, stored.mcp_config ?? null));
    else values.set(field, value);
  }
  return Object.fromEntries(values) as SettingsDocument;
}

/** The resource as read (platform.md section 2.1): defaults filled in, secrets null, `*_set` flags. */
export function viewSettings(document: SettingsDocument): SettingsView {
  return {
    language: document.language ?? null,
    agent: document.agent ?? null,
    max_iterations: document.max_iterations ?? null,
    security_analyzer: document.security_analyzer ?? null,
    confirmation_mode: document.confirmation_mode ?? null,
    llm_model: document.llm_model ?? null,
    llm_api_key: null,
    llm_base_url: document.llm_base_url ?? null,
    remote_runtime_resource_factor: document.remote_runtime_resource_factor ?? null,
    secrets_store: { provider_tokens: {}, custom_secrets: {} },
    enable_default_condenser: document.enable_default_condenser ?? true,
    enable_sound_notifications: document.enable_sound_notifications ?? false,
    enable_proactive_conversation_starters: document.enable_proactive_conversation_starters ?? true,
    enable_solvability_analysis: document.enable_solvability_analysis ?? true,
    user_consents_to_analytics: document.user_consents_to_analytics ?? null,
    sandbox_base_container_image: document.sandbox_base_container_image ?? null,
    sandbox_runtime_container_image: document.sandbox_runtime_container_image ?? null,
    sandbox_grouping_strategy: document.sandbox_grouping_strategy ?? null,
    default_sandbox_spec_id: document.default_sandbox_spec_id ?? null,
    mcp_config: document.mcp_config ? maskMcpConfig(document.mcp_config) : null,
    search_api_key: null,
    sandbox_api_key: null,
    max_budget_per_task: document.max_budget_per_task ?? null,
    condenser_max_size: document.condenser_max_size ?? null,
    email: document.email ?? null,
    email_verified: document.email_verified ?? null,
    git_user_name: document.git_user_name ?? null,
    git_user_email: document.git_user_email ?? null,
    provider_tokens_set: {},
    llm_api_key_set: document.llm_api_key !== undefined,
    search_api_key_set: document.search_api_key !== undefined,
    v1_enabled: document.v1_enabled ?? true,
  };
}

/** A masked secret that a client sends back stands for the stored one. */
function keeps(field: Field, value: unknown): boolean {
  if (value === null) return keptOnNull.has(field);
  return value === masked && (secretFields as readonly Field[]).includes(field);
}
