import { maskServers, toLists } from "@sandpiper/agent/mcp/config";
import type { UserInfo } from "@sandpiper/wire";
import type { ProviderHosts } from "./api.ts";
import { defaultUser } from "./default-user.ts";
import type { SettingsDocument } from "./settings/document.ts";
import { viewV1 } from "./settings/v1.ts";

/**
 * `GET /api/v1/users/me` (app-server.md section 7): the settings, plus the flat fields that
 * released clients read (remote-clients.md section 9). Disabled MCP servers are not listed.
 */
export function toUserInfo(
  userId: string,
  document: SettingsDocument,
  providerHosts: ProviderHosts,
  { exposeSecrets: exposed }: { exposeSecrets: boolean },
): UserInfo {
  const { llm = {}, agent, mcp_config: servers = {}, condenser } = document.agent_settings ?? {};
  const listed = Object.fromEntries(Object.entries(servers).filter(([, { enabled }]) => enabled ?? true));
  const view = viewV1(document, { exposed });
  const { max_iterations, confirmation_mode, security_analyzer } = view.conversation_settings;
  return {
    ...view,
    provider_tokens_set: { ...providerHosts },
    id: userId === defaultUser ? null : userId,
    agent: agent ?? view.agent_settings.agent,
    llm_model: llm.model ?? null,
    llm_api_key: exposed ? (llm.api_key ?? null) : null,
    llm_base_url: llm.base_url ?? null,
    max_iterations,
    confirmation_mode,
    security_analyzer,
    enable_default_condenser: condenser?.enabled ?? true,
    condenser_max_size: condenser?.max_size ?? null,
    mcp_config: toLists(exposed ? listed : maskServers(listed)),
  };
}
