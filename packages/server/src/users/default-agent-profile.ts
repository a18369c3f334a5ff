import { AgentProfile } from "@sandpiper/wire";
import type { SettingsDocument } from "./settings/document.ts";
import { mergeFields, readFields } from "./settings/fields.ts";

type Profiles = Record<string, AgentProfile>;

/** The profile that every user has (agent-server-1.58.md 5.2). */
const name = "default";
const id = "9d6f4f5e-6c1b-4f0e-8a55-64656661756c";

/**
 * The agent profiles of a document, and the active one, as there always is one: that of the pointer
 * if it exists, else `default`. A user who has not saved a `default` has a seeded one, which is not
 * stored and stands for the settings as they are.
 */
export function listAgentProfiles(document: SettingsDocument): {
  profiles: Profiles;
  active: { id: string; revision: number };
} {
  const { profiles: stored = {}, active = null } = document.agent_profiles ?? {};
  const saved = Object.values(stored);
  const own = (Object.hasOwn(stored, name) && stored[name]) || saved.find((one) => one.id === id);
  const fallback = own || seed(document);
  const profiles = own ? stored : { [name]: fallback, ...stored };
  const pointed = active && saved.some((one) => one.id === active.id) ? active : undefined;
  return { profiles, active: pointed ?? { id: fallback.id, revision: fallback.revision } };
}

/** Whether the profile is the seeded one: its model and tools are those of the settings. */
export function isSeeded({ agent_profiles: stored }: SettingsDocument, profile: AgentProfile): boolean {
  return profile.id === id && !Object.values(stored?.profiles ?? {}).some((one) => one.id === id);
}

/** The id of a profile that is saved under a name for the first time. */
export function idFor(document: SettingsDocument, profileName: string): string | undefined {
  const { profiles } = listAgentProfiles(document);
  return profileName === name && Object.hasOwn(profiles, name) ? profiles[name]!.id : undefined;
}

function seed({ agent_settings: agent, llm_profiles: llms }: SettingsDocument): AgentProfile {
  const given = {
    llm_profile_ref: llms?.active ?? Object.keys(llms?.profiles ?? {})[0] ?? name,
    ...(agent?.tools !== undefined && { tools: agent.tools }),
    ...(agent?.enable_sub_agents != null && { enable_sub_agents: agent.enable_sub_agents }),
    ...(agent?.enable_switch_llm_tool != null && { enable_switch_llm_tool: agent.enable_switch_llm_tool }),
    ...(agent?.tool_concurrency_limit != null && { tool_concurrency_limit: agent.tool_concurrency_limit }),
  };
  const filled = readFields(AgentProfile, mergeFields(AgentProfile, {}, given)) as AgentProfile;
  return { ...filled, id, name, revision: 0 };
}
