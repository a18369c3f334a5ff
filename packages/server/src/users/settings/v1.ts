import { maskServers, restoreServers } from "@sandpiper/agent/mcp/config";
import { isProviderUrl } from "@sandpiper/models/resolve";
import {
  AgentSettings,
  ConversationSettings,
  LlmConfig,
  type LlmDiff,
  PlainSettings,
  type PostedMcpServer,
  type PostedMcpServers,
  type SettingsV1,
  type SettingsV1Update,
} from "@sandpiper/wire";
import { listAgentProfiles } from "../default-agent-profile.ts";
import { patchServers } from "../mcp-patch.ts";
import type { SettingsDocument, StoredAgentSettings } from "./document.ts";
import { type Exposure, listSecrets, mergeFields, readFields } from "./fields.ts";

/**
 * Top-level fields that keep their value when a client sends null (app-server.md section 5, POST).
 */
const keptOnNull = ["search_api_key", "sandbox_api_key", "user_consents_to_analytics", "disabled_skills"];

export interface MergeV1Options {
  /**
   * Keep MCP servers that the change does not name, as the released GUI expects (app-server.md
   * section 5).
   */
  keepServers?: boolean;
}

/** The document after a V1 client's change (app-server.md section 5). Throws InvalidParameter. */
export function mergeV1(
  stored: SettingsDocument,
  change: SettingsV1Update,
  merging: MergeV1Options = {},
): SettingsDocument {
  const { agent_settings_diff: agent, conversation_settings_diff: conversation, ...plain } = change;
  const set = Object.entries(plain).filter(([name, value]) => value !== null || !keptOnNull.includes(name));
  const document = mergeFields(PlainSettings, stored, Object.fromEntries(set));
  return {
    ...document,
    ...(agent && { agent_settings: mergeAgent(document.agent_settings ?? {}, agent, merging) }),
    ...(conversation && {
      conversation_settings: mergeFields(
        ConversationSettings,
        document.conversation_settings ?? {},
        conversation,
      ),
    }),
  };
}

function mergeAgent(
  stored: StoredAgentSettings,
  change: NonNullable<SettingsV1Update["agent_settings_diff"]>,
  { keepServers = false }: MergeV1Options,
): StoredAgentSettings {
  const merged = mergeFields(AgentSettings, stored, change, { except: ["mcp_config"] });
  if (change.mcp_config === undefined) return merged;
  const { mcp_config: servers = {}, ...others } = merged;
  if (change.mcp_config === null) return others;
  const mcp_config =
    keepServers || !namesAllServers(change.mcp_config)
      ? patchServers(servers, change.mcp_config)
      : restoreServers(change.mcp_config, servers);
  return { ...others, mcp_config };
}

/** A change that removes a server with null does not list all servers. */
function namesAllServers(posted: PostedMcpServers): posted is Record<string, PostedMcpServer> {
  return Object.values(posted).every((server) => server !== null);
}

export interface ViewOptions {
  exposed?: Exposure;
}

/** The V1 view of a document, without `provider_tokens_set`, which is stored elsewhere. */
export function viewV1(
  document: SettingsDocument,
  { exposed = false }: ViewOptions = {},
): Omit<SettingsV1, "provider_tokens_set"> {
  const { llm_profiles: profiles, agent_settings: agent = {} } = document;
  const { active: activeAgent } = listAgentProfiles(document);
  const { security_analyzer: analyzer } = document.conversation_settings ?? {};
  const servers = agent.mcp_config ?? {};
  return {
    ...(readFields(PlainSettings, document, { exposed }) as PlainSettings),
    secrets_store: { provider_tokens: {} },
    agent_settings: {
      ...(readFields(AgentSettings, agent, { exposed }) as AgentSettings),
      llm: viewLlm(agent.llm ?? {}, { exposed }),
      mcp_config: exposed === true ? servers : maskServers(servers, exposed || undefined),
    },
    conversation_settings: {
      ...(readFields(ConversationSettings, document.conversation_settings ?? {}) as ConversationSettings),
      // V0 accepts any text; V1 knows only `llm` and `none`.
      ...(analyzer && { security_analyzer: analyzer === "llm" ? ("llm" as const) : ("none" as const) }),
    },
    llm_profiles: {
      profiles: Object.fromEntries(
        Object.entries(profiles?.profiles ?? {}).map(([name, llm]) => [name, viewLlm(llm, { exposed })]),
      ),
      active: profiles?.active ?? null,
    },
    active_agent_profile_id: activeAgent.id,
    active_agent_profile_revision: activeAgent.revision,
    inherited_marketplaces: [],
    llm_api_key_set: Boolean(agent.llm?.api_key),
    search_api_key_set: Boolean(document.search_api_key),
  };
}

/** The view of a model; `base_url` is null when it is the provider's own. */
export function viewLlm(llm: LlmDiff, { exposed = false }: ViewOptions = {}): LlmConfig {
  const view = readFields(LlmConfig, llm, { exposed }) as LlmConfig;
  return view.base_url && isProviderUrl(view.model, view.base_url) ? { ...view, base_url: null } : view;
}

/** The secrets of a document to mask. MCP secrets are not included: they may be ordinary words. */
export function listDocumentSecrets(document: SettingsDocument): string[] {
  return [
    ...listSecrets(PlainSettings, document),
    ...listSecrets(AgentSettings, document.agent_settings ?? {}),
    ...Object.values(document.llm_profiles?.profiles ?? {}).flatMap((llm) => listSecrets(LlmConfig, llm)),
  ];
}
