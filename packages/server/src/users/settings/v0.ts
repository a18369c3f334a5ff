import { maskServers, toLists } from "@sandpiper/agent/mcp/config";
import { isMasked, SettingsUpdate, SettingsView } from "@sandpiper/wire";
import { mergeServerLists } from "../mcp-lists.ts";
import {
  flatFieldPaths,
  getValueAt,
  normaliseAnalyzer,
  type SettingsDocument,
  setValueAt,
} from "./document.ts";

type Field = keyof SettingsUpdate;

const secretFields = ["llm_api_key", "search_api_key", "sandbox_api_key"] as const satisfies Field[];

/** Fields that null keeps (app-server.md section 5, V0 POST); null clears all others. */
const keptOnNull: ReadonlySet<Field> = new Set<Field>([
  ...secretFields,
  "llm_model",
  "llm_base_url",
  "user_consents_to_analytics",
]);

const clearedByEmpty: ReadonlySet<Field> = new Set<Field>([...secretFields, "llm_model", "llm_base_url"]);

const fields = Object.keys(SettingsUpdate.properties) as Field[];

/** The document after a V0 change; absent and read-only fields change nothing. */
export function mergeV0(stored: SettingsDocument, change: SettingsUpdate): SettingsDocument {
  let document = stored;
  for (const field of fields) {
    const value = Object.hasOwn(change, field) ? change[field] : undefined;
    if (value === undefined || keepsStored(field, value)) continue;
    const cleared = value === null || (value === "" && clearedByEmpty.has(field));
    document = setValueAt(
      document,
      getFieldPath(field),
      cleared ? undefined : toStoredValue(field, value, stored),
    );
  }
  // The analyzer matters only together with confirmation; other changes leave V1's settings alone.
  return change.confirmation_mode !== undefined || change.security_analyzer !== undefined
    ? normaliseAnalyzer(document)
    : document;
}

const viewFields = Object.entries(SettingsView.properties).map(([field, schema]) => ({
  field,
  place: getFieldPath(field),
  fallback: (schema as { default?: boolean }).default ?? null,
}));

/** The V0 view (platform.md section 2.1) with defaults, null secrets and `*_set` flags. */
export function viewV0(
  document: SettingsDocument,
  providerHosts: Readonly<Record<string, string | null>>,
): SettingsView {
  const { llm, mcp_config: servers } = document.agent_settings ?? {};
  const { confirmation_mode, security_analyzer } = document.conversation_settings ?? {};
  const derived: Partial<SettingsView> = {
    ...{ llm_api_key: null, search_api_key: null, sandbox_api_key: null },
    // With confirmation on, an unset analyzer has V1's default.
    security_analyzer:
      security_analyzer === undefined && confirmation_mode ? "llm" : (security_analyzer ?? null),
    secrets_store: { provider_tokens: {}, custom_secrets: {} },
    mcp_config: servers ? toLists(maskServers(servers)) : null,
    provider_tokens_set: { ...providerHosts },
    llm_api_key_set: Boolean(llm?.api_key),
    search_api_key_set: Boolean(document.search_api_key),
  };
  const view: Record<string, unknown> = {};
  for (const { field, place, fallback } of viewFields) view[field] = getValueAt(document, place) ?? fallback;
  return Object.assign(view, derived) as SettingsView;
}

function getFieldPath(field: string): readonly string[] {
  return Object.hasOwn(flatFieldPaths, field)
    ? flatFieldPaths[field as keyof typeof flatFieldPaths]
    : [field];
}

function toStoredValue(field: Field, value: unknown, stored: SettingsDocument): unknown {
  if (field !== "mcp_config") return value;
  return mergeServerLists(
    value as NonNullable<SettingsUpdate["mcp_config"]>,
    stored.agent_settings?.mcp_config ?? {},
  );
}

/** A masked secret keeps the stored value. */
function keepsStored(field: Field, value: unknown): boolean {
  if (value === null) return keptOnNull.has(field);
  return isMasked(value) && (secretFields as readonly Field[]).includes(field);
}
