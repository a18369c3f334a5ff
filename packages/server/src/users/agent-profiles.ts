import { randomUUID } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import {
  AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileList,
  AgentSettings,
  defaultModelName,
  type SaveAgentProfileRequest,
} from "@sandpiper/wire";
import type { AgentProfiles } from "./api.ts";
import { idFor, isSeeded, listAgentProfiles } from "./default-agent-profile.ts";
import { activateProfile, checkProfileCount, findProfile } from "./profiles.ts";
import type { SettingsDocument } from "./settings/document.ts";
import { mergeFields, readFields } from "./settings/fields.ts";
import type { SettingsRepository } from "./settings/repository.ts";
import { viewV1 } from "./settings/v1.ts";

/** The profile that a request describes, with defaults for what it leaves out. */
function readRequest(request: SaveAgentProfileRequest): AgentProfile {
  const given = Object.fromEntries(
    Object.entries(request).filter(([, value]) => value !== undefined && value !== null),
  );
  return readFields(AgentProfile, mergeFields(AgentProfile, {}, given)) as AgentProfile;
}

type Stored = NonNullable<SettingsDocument["agent_profiles"]>;
type Listed = ReturnType<typeof listAgentProfiles>;

const noProfiles: Stored = { profiles: {}, active: null };

/** Fields of a profile that override those of `agent_settings`. */
const appliedFields = [
  "agent",
  "tools",
  "condenser",
  "verification",
  "enable_sub_agents",
  "enable_switch_llm_tool",
  "tool_concurrency_limit",
] as const;

/** Agent profiles in the settings documents. They contain names and no secrets. */
export class StoredAgentProfiles implements AgentProfiles {
  readonly #documents: SettingsRepository;

  constructor(documents: SettingsRepository) {
    this.#documents = documents;
  }

  async list(userId: string): Promise<AgentProfileList> {
    const { profiles, active } = await this.#listed(userId);
    return {
      profiles: Object.values(profiles).map(
        ({ id, name, agent_kind, revision, llm_profile_ref, mcp_server_refs }) => ({
          id,
          name,
          agent_kind,
          revision,
          llm_profile_ref,
          mcp_server_refs,
        }),
      ),
      active_agent_profile_id: active.id,
    };
  }

  async get(userId: string, name: string): Promise<AgentProfile> {
    return requireProfile(await this.#listed(userId), name);
  }

  async byId(userId: string, id: string): Promise<AgentProfile | undefined> {
    return findById(await this.#listed(userId), id);
  }

  async active(userId: string): Promise<AgentProfile | undefined> {
    const document = await this.#documents.get(userId);
    const listed = listAgentProfiles(document);
    const profile = findById(listed, listed.active.id);
    return profile && !isSeeded(document, profile) ? profile : undefined;
  }

  async isSeeded(userId: string, profile: AgentProfile): Promise<boolean> {
    return isSeeded(await this.#documents.get(userId), profile);
  }

  async save(userId: string, name: string, request: SaveAgentProfileRequest): Promise<void> {
    await this.#change(userId, (document, { profiles, active }) => {
      const before = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
      if (!before) checkProfileCount(profiles);
      const profile = {
        ...readRequest(request),
        id: before?.id ?? idFor(document, name) ?? randomUUID(),
        name,
        revision: before ? before.revision + 1 : 0,
      };
      return { ...document, agent_profiles: { profiles: { ...profiles, [name]: profile }, active } };
    });
  }

  async remove(userId: string, name: string): Promise<void> {
    await this.#change(userId, (document, { profiles, active }) => {
      if (!Object.hasOwn(profiles, name)) return document;
      const { [name]: removed, ...others } = profiles;
      return {
        ...document,
        agent_profiles: { profiles: others, active: active?.id === removed!.id ? null : active },
      };
    });
  }

  async rename(userId: string, name: string, newName: string): Promise<void> {
    await this.#change(userId, (document, stored) => {
      const { profiles } = listAgentProfiles(document);
      requireProfile({ profiles }, name);
      if (name === newName) return document;
      if (Object.hasOwn(profiles, newName)) throw new PlatformError("AgentProfileExists", { name: newName });
      // Only the renamed profile of a user is stored from now on, not a seeded one.
      const renamed = Object.values({ ...stored.profiles, [name]: profiles[name]! }).map(
        (profile): [string, AgentProfile] =>
          profile.name === name
            ? [newName, { ...profile, name: newName, revision: profile.revision + 1 }]
            : [profile.name, profile],
      );
      return {
        ...document,
        agent_profiles: { profiles: Object.fromEntries(renamed), active: stored.active },
      };
    });
  }

  async activate(userId: string, id: string): Promise<AgentProfile> {
    return this.#documents.change(userId, (document) => {
      const chosen = activateAgentProfile(document, id);
      if (!chosen) throw new PlatformError("AgentProfileIdUnknown", { id: id.slice(0, 64) });
      return { document: chosen.document, result: chosen.profile };
    });
  }

  async diagnose(
    userId: string,
    name: string,
    draft?: SaveAgentProfileRequest,
  ): Promise<AgentProfileDiagnostics> {
    const document = await this.#documents.get(userId);
    const profile = draft
      ? { ...readRequest(draft), id: randomUUID(), name, revision: 0 }
      : requireProfile(listAgentProfiles(document), name);
    const seeded = !draft && isSeeded(document, profile);
    const llm = seeded
      ? (document.agent_settings?.llm ?? {})
      : findProfile(document, profile.llm_profile_ref);
    const servers = Object.keys(document.agent_settings?.mcp_config ?? {});
    const refs = profile.mcp_server_refs ?? servers;
    const dangling = refs.filter((ref) => !servers.includes(ref));
    const errors = [
      ...(llm ? [] : [`LLM profile '${profile.llm_profile_ref}' not found`]),
      ...dangling.map((ref) => `MCP server '${ref}' not found`),
    ];
    const resolved = refs.filter((ref) => servers.includes(ref));
    return {
      agent_kind: profile.agent_kind,
      valid: errors.length === 0,
      errors,
      llm_profile_ref: profile.llm_profile_ref,
      llm_profile_resolved: llm !== undefined,
      llm_api_key_set: Boolean(llm?.api_key),
      mcp_server_refs: profile.mcp_server_refs,
      resolved_mcp_config_keys: resolved,
      resolved_mcp_servers: resolved,
      dangling_mcp_server_refs: dangling,
      disabled_skills: profile.disabled_skills,
      resolved_skills: [],
      secret_refs: profile.secret_refs,
      acp_api_key_secret_name: null,
      acp_base_url_secret_name: null,
      acp_file_secret_names: [],
      resolved_settings:
        errors.length === 0
          ? resolveSettings(seeded ? document : applyProfile(document, profile), resolved)
          : null,
    };
  }

  async #listed(userId: string): Promise<Listed> {
    return listAgentProfiles(await this.#documents.get(userId));
  }

  async #change(
    userId: string,
    change: (document: SettingsDocument, stored: Stored) => SettingsDocument,
  ): Promise<void> {
    await this.#documents.change(userId, (document) => ({
      document: change(document, document.agent_profiles ?? noProfiles),
      result: undefined,
    }));
  }
}

/**
 * The document with another active agent profile; undefined when the id is unknown. Throws
 * InvalidParameter when the LLM profile is missing.
 */
export function activateAgentProfile(
  document: SettingsDocument,
  id: string,
): { document: SettingsDocument; profile: AgentProfile } | undefined {
  const { profiles } = document.agent_profiles ?? noProfiles;
  const profile = findById(listAgentProfiles(document), id);
  if (!profile) return undefined;
  if (isSeeded(document, profile))
    return { document: { ...document, agent_profiles: { profiles, active: null } }, profile };
  if (!findProfile(document, profile.llm_profile_ref)) {
    throw new PlatformError("AgentProfileWithoutLlm", { name: profile.name, llm: profile.llm_profile_ref });
  }
  const active = { id: profile.id, revision: profile.revision };
  return { document: { ...document, agent_profiles: { profiles, active } }, profile };
}

/** The document with the fields of the profile applied, except the choice of MCP servers. */
function applyProfile(document: SettingsDocument, profile: AgentProfile): SettingsDocument {
  const { agent_settings: before = {}, ...rest } = activateProfile(document, profile.llm_profile_ref);
  const change = Object.fromEntries(appliedFields.map((field) => [field, profile[field]]));
  const agent = mergeFields(AgentSettings, before, {
    ...change,
    agent_context: {
      system_message_suffix: profile.system_message_suffix,
      disabled_skills: profile.disabled_skills,
    },
  });
  return { ...rest, agent_settings: agent };
}

/** The effective agent settings of a document with an applied profile, secrets masked. */
function resolveSettings(document: SettingsDocument, servers: string[]): Record<string, unknown> {
  const view = viewV1(document).agent_settings;
  const chosen = Object.entries(view.mcp_config).filter(([name]) => servers.includes(name));
  const llm = { ...view.llm, model: view.llm.model || defaultModelName };
  return { ...view, llm, mcp_config: Object.fromEntries(chosen) };
}

function requireProfile({ profiles }: Pick<Stored, "profiles">, name: string): AgentProfile {
  if (!Object.hasOwn(profiles, name)) throw new PlatformError("AgentProfileUnknown", { name });
  return profiles[name]!;
}

function findById({ profiles }: Pick<Stored, "profiles">, id: string): AgentProfile | undefined {
  return Object.values(profiles).find((profile) => sameId(profile.id, id));
}

/** Compares ids with and without dashes. */
function sameId(one: string, other: string): boolean {
  return one.replaceAll("-", "") === other.replaceAll("-", "").toLowerCase();
}
