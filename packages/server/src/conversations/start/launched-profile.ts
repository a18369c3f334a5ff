import { PlatformError } from "@sandpiper/core/errors";
import type { AgentProfile } from "@sandpiper/wire";
import type { ConversationConfig, LaunchedProfile } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";

/**
 * The part of a conversation's configuration that comes from its agent profile. It is a copy: later
 * changes of the profile do not change the conversation, and after its deletion the
 * conversation still gets only the secrets that the profile named.
 */
export async function launchProfile(
  settings: Pick<Settings, "agentProfiles">,
  userId: string,
  profile: AgentProfile,
): Promise<Pick<ConversationConfig, "disabledSkills" | "llmProfile"> & { launchedProfile: LaunchedProfile }> {
  const { id, revision } = profile;
  if (await settings.agentProfiles.isSeeded(userId, profile)) return { launchedProfile: { id, revision } };
  return {
    launchedProfile: {
      id,
      revision,
      secretRefs: profile.secret_refs,
      mcpServerRefs: profile.mcp_server_refs,
      tools: profile.tools?.map(({ name }) => ({ name })) ?? null,
      enableSubAgents: profile.enable_sub_agents,
      enableSwitchLlmTool: profile.enable_switch_llm_tool,
      toolConcurrencyLimit: profile.tool_concurrency_limit,
    },
    disabledSkills: profile.disabled_skills,
    llmProfile: profile.llm_profile_ref,
  };
}

/** The suffix of the system prompt; the persona of a profile comes first. */
export function profileSuffix(profile: AgentProfile | undefined): string | null {
  return [profile?.persona, profile?.system_message_suffix].filter(Boolean).join("\n\n") || null;
}

/**
 * Throws AgentProfileUnresolved when a profile names an LLM profile or MCP servers that do not
 * exist (agent-server-1.58.md 3.1).
 */
export async function checkReferences(
  settings: Pick<Settings, "agentProfiles" | "mcpServers" | "profileModel">,
  userId: string,
  profile: AgentProfile,
): Promise<void> {
  const { name, llm_profile_ref: llm, mcp_server_refs: refs } = profile;
  const servers = await settings.mcpServers(userId);
  const hasModel =
    (await settings.agentProfiles.isSeeded(userId, profile)) ||
    (await settings.profileModel(userId, llm)) !== undefined;
  const missing = [
    ...(hasModel ? [] : [`the LLM profile '${llm}'`]),
    ...(refs ?? [])
      .filter((ref) => !Object.hasOwn(servers, ref))
      .map((ref) => `the MCP server '${ref.slice(0, 64)}'`),
  ];
  if (missing.length > 0)
    throw new PlatformError("AgentProfileUnresolved", { name, missing: missing.slice(0, 10).join(", ") });
}
