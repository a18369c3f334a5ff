import { restoreServers } from "@sandpiper/agent/mcp/config";
import { PlatformError } from "@sandpiper/core/errors";
import {
  type AgentServerSettings,
  type AgentServerSettingsUpdate,
  AgentSettings,
  ConversationSettings,
  defaultModelName,
  type McpServerPatch,
  type McpServers,
  type PostedMcpServer,
} from "@sandpiper/wire";
import { activateAgentProfile } from "../agent-profiles.ts";
import type { AgentServerSettingsAccess } from "../api.ts";
import { checkServerCount, mergePatch, patchServers } from "../mcp-patch.ts";
import { activateProfile, findProfile } from "../profiles.ts";
import type { SettingsDocument, StoredAgentSettings } from "./document.ts";
import { mergeFields, type ShowSecret } from "./fields.ts";
import type { SettingsRepository } from "./repository.ts";
import { viewV1 } from "./v1.ts";

/** The agent-server view of the settings documents (agent-server.md section 9). */
export class AgentServerSettingsView implements AgentServerSettingsAccess {
  readonly #documents: SettingsRepository;

  constructor(documents: SettingsRepository) {
    this.#documents = documents;
  }

  async view(userId: string, show: ShowSecret): Promise<AgentServerSettings> {
    const document = await this.#documents.get(userId);
    const { agent_settings, conversation_settings, llm_api_key_set, llm_profiles, active_agent_profile_id } =
      viewV1(document, {
        exposed: show,
      });
    const { llm } = agent_settings;
    return {
      agent_settings: { ...agent_settings, llm: { ...llm, model: llm.model || defaultModelName } },
      conversation_settings,
      llm_api_key_is_set: llm_api_key_set,
      active_profile: llm_profiles.active,
      active_agent_profile_id,
      misc_settings: document.misc_settings ?? {},
    };
  }

  async update(userId: string, change: AgentServerSettingsUpdate): Promise<void> {
    await this.#documents.change(userId, (document) => ({
      document: merge(document, change),
      result: undefined,
    }));
  }

  async createMcpServer(userId: string, name: string, server: PostedMcpServer): Promise<void> {
    await this.#changeServers(userId, (stored) => {
      if (Object.hasOwn(stored, name)) throw new PlatformError("McpServerNameTaken");
      return restoreServers({ ...stored, [name]: server }, stored);
    });
  }

  async patchMcpServer(userId: string, name: string, patch: McpServerPatch): Promise<void> {
    await this.#changeServers(userId, (stored) => {
      requireServer(stored, name);
      return patchServers(stored, { [name]: patch });
    });
  }

  async removeMcpServer(userId: string, name: string): Promise<void> {
    await this.#changeServers(userId, (stored) => {
      requireServer(stored, name);
      return patchServers(stored, { [name]: null });
    });
  }

  async #changeServers(userId: string, change: (stored: McpServers) => McpServers): Promise<void> {
    await this.#documents.change(userId, (document) => {
      const { agent_settings: agent = {} } = document;
      const servers = checkServerCount(change(agent.mcp_config ?? {}));
      return {
        document: { ...document, agent_settings: { ...agent, mcp_config: servers } },
        result: undefined,
      };
    });
  }
}

function merge(stored: SettingsDocument, change: AgentServerSettingsUpdate): SettingsDocument {
  const {
    agent_settings_diff: agent,
    conversation_settings_diff: conversation,
    misc_settings_diff: misc,
  } = change;
  const document = activateProfiles(stored, change);
  return {
    ...document,
    ...(agent && { agent_settings: mergeAgent(document.agent_settings ?? {}, agent) }),
    ...(conversation && {
      conversation_settings: mergeFields(
        ConversationSettings,
        document.conversation_settings ?? {},
        conversation,
      ),
    }),
    ...(misc && { misc_settings: mergePatch(document.misc_settings, misc) }),
  };
}

function activateProfiles(
  stored: SettingsDocument,
  { active_profile: llm, active_agent_profile_id: agent }: AgentServerSettingsUpdate,
): SettingsDocument {
  let document = stored;
  if (llm === null && document.llm_profiles) {
    document = { ...document, llm_profiles: { ...document.llm_profiles, active: null } };
  } else if (llm != null) {
    if (!findProfile(document, llm)) throw new PlatformError("ActiveProfileUnknown");
    document = activateProfile(document, llm);
  }
  if (agent === null && document.agent_profiles) {
    document = { ...document, agent_profiles: { ...document.agent_profiles, active: null } };
  } else if (agent != null) {
    const chosen = activateAgentProfile(document, agent);
    if (!chosen) throw new PlatformError("ActiveAgentProfileUnknown");
    document = chosen.document;
  }
  return document;
}

function mergeAgent(
  stored: StoredAgentSettings,
  change: NonNullable<AgentServerSettingsUpdate["agent_settings_diff"]>,
): StoredAgentSettings {
  const merged = mergeFields(AgentSettings, stored, change, { except: ["mcp_config"] });
  if (change.mcp_config === undefined) return merged;
  const servers = change.mcp_config === null ? {} : patchServers(stored.mcp_config ?? {}, change.mcp_config);
  return { ...merged, mcp_config: servers };
}

function requireServer(stored: McpServers, name: string): void {
  if (!Object.hasOwn(stored, name)) throw new PlatformError("McpServerUnknown");
}
