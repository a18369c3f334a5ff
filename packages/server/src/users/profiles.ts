import { PlatformError } from "@sandpiper/core/errors";
import { parseAwsAccess } from "@sandpiper/models/aws";
import { parseCallOptions } from "@sandpiper/models/call-options";
import type { ModelConfig } from "@sandpiper/models/model";
import type { LlmDiff, ProfileDetail, ProfileList, SaveProfileRequest } from "@sandpiper/wire";
import { LlmConfig } from "@sandpiper/wire";
import type { LlmProfileService } from "./api.ts";
import { defaultUser } from "./default-user.ts";
import type { SettingsDocument } from "./settings/document.ts";
import { isSecret, isSecretMap, mergeFields } from "./settings/fields.ts";
import type { SettingsRepository } from "./settings/repository.ts";
import { type ViewOptions, viewLlm } from "./settings/v1.ts";

/** Maximum number of LLM profiles, and of agent profiles, of a user (app-server.md section 5). */
export const maxProfiles = 50;

const noProfiles = { profiles: {}, active: null };

/** LLM profiles in the settings documents. */
export class StoredLlmProfiles implements LlmProfileService {
  readonly #documents: SettingsRepository;

  constructor(documents: SettingsRepository) {
    this.#documents = documents;
  }

  async list(userId: string): Promise<ProfileList> {
    const { profiles, active } = (await this.#documents.get(userId)).llm_profiles ?? noProfiles;
    return {
      profiles: Object.entries(profiles).map(([name, llm]) => {
        const { model, base_url } = viewLlm(llm);
        return { name, model: model || null, base_url, api_key_set: Boolean(llm.api_key) };
      }),
      active_profile: active,
    };
  }

  async get(userId: string, name: string, reading?: ViewOptions): Promise<ProfileDetail> {
    const llm = requireProfile(await this.#documents.get(userId), name);
    return { name, config: viewLlm(llm, reading), api_key_set: Boolean(llm.api_key) };
  }

  async model(userId: string, name: string): Promise<Partial<ModelConfig> | undefined> {
    const llm = findProfile(await this.#documents.get(userId), name);
    return llm && toModelConfig(llm, userId);
  }

  async restoreSecrets(userId: string, name: string, llm: LlmDiff): Promise<LlmDiff> {
    const document = await this.#documents.get(userId);
    return toStoredProfile(document, { llm }, findProfile(document, name));
  }

  async save(userId: string, name: string, request: SaveProfileRequest): Promise<void> {
    await this.#change(userId, (document, { profiles, active }) => {
      const before = Object.hasOwn(profiles, name) ? profiles[name]! : undefined;
      if (!before) checkProfileCount(profiles);
      return {
        ...document,
        llm_profiles: {
          profiles: { ...profiles, [name]: toStoredProfile(document, request, before) },
          active,
        },
      };
    });
  }

  async remove(userId: string, name: string): Promise<void> {
    await this.#change(userId, (document, { profiles, active }) => {
      if (!Object.hasOwn(profiles, name)) return document;
      checkUnused(document, name);
      const { [name]: _, ...others } = profiles;
      const rest = {
        ...document,
        llm_profiles: { profiles: others, active: active === name ? null : active },
      };
      const [next] = Object.keys(others);
      return active === name && next !== undefined ? activateProfile(rest, next) : rest;
    });
  }

  async activate(userId: string, name: string): Promise<string | null> {
    return this.#documents.change(userId, (document) => {
      const { model } = requireProfile(document, name);
      return { document: activateProfile(document, name), result: model ?? null };
    });
  }

  async rename(userId: string, name: string, newName: string): Promise<void> {
    await this.#change(userId, (document, { profiles, active }) => {
      requireProfile(document, name);
      if (name === newName) return document;
      if (Object.hasOwn(profiles, newName)) throw new PlatformError("LlmProfileExists", { name: newName });
      const renamed = Object.entries(profiles).map(([key, llm]) => [key === name ? newName : key, llm]);
      return {
        ...renameReferences(document, name, newName),
        llm_profiles: { profiles: Object.fromEntries(renamed), active: active === name ? newName : active },
      };
    });
  }

  async #change(
    userId: string,
    change: (
      document: SettingsDocument,
      profiles: NonNullable<SettingsDocument["llm_profiles"]>,
    ) => SettingsDocument,
  ): Promise<void> {
    await this.#documents.change(userId, (document) => ({
      document: change(document, document.llm_profiles ?? noProfiles),
      result: undefined,
    }));
  }
}

/** The model settings of a stored profile, secrets included. */
export function findProfile({ llm_profiles: stored }: SettingsDocument, name: string): LlmDiff | undefined {
  return stored && Object.hasOwn(stored.profiles, name) ? stored.profiles[name] : undefined;
}

/** The document with an active profile, whose model is copied to the agent settings. */
export function activateProfile(document: SettingsDocument, name: string): SettingsDocument {
  const llm = requireProfile(document, name);
  const { profiles } = document.llm_profiles!;
  return {
    ...document,
    agent_settings: { ...document.agent_settings, llm },
    llm_profiles: { profiles, active: name },
  };
}

/**
 * Model settings for the model layer. Only the default user, the operator, may use private hosts.
 */
export function toModelConfig(llm: LlmDiff, userId: string): Partial<ModelConfig> {
  const { model, api_key, base_url } = llm;
  const options = parseCallOptions(llm);
  const aws = parseAwsAccess(llm);
  return {
    ...(model && { model }),
    ...(api_key && { apiKey: api_key }),
    ...(aws && { aws }),
    ...(base_url && { baseUrl: base_url }),
    ...((base_url || aws?.endpoint) && userId !== defaultUser && { guarded: true }),
    ...(options && { options }),
  };
}

/** Throws TooManyProfiles. */
export function checkProfileCount(profiles: object): void {
  if (Object.keys(profiles).length >= maxProfiles)
    throw new PlatformError("ProfileLimitReached", { max: maxProfiles });
}

/** Throws ProfileInUse (agent-server-1.58.md 5.3). */
function checkUnused({ agent_profiles: stored }: SettingsDocument, name: string): void {
  const users = Object.values(stored?.profiles ?? {}).filter((profile) => profile.llm_profile_ref === name);
  if (users.length === 0) return;
  const names = users.map((profile) => profile.name).join(", ");
  throw new PlatformError("LlmProfileReferenced", { count: users.length, names });
}

/** The document whose agent profiles name the renamed LLM profile. */
function renameReferences(document: SettingsDocument, name: string, newName: string): SettingsDocument {
  const { agent_profiles: stored } = document;
  if (!stored) return document;
  const profiles = Object.entries(stored.profiles).map(([key, profile]) => [
    key,
    profile.llm_profile_ref === name ? { ...profile, llm_profile_ref: newName } : profile,
  ]);
  return { ...document, agent_profiles: { ...stored, profiles: Object.fromEntries(profiles) } };
}

function requireProfile(document: SettingsDocument, name: string): LlmDiff {
  const llm = findProfile(document, name);
  if (!llm) throw new PlatformError("LlmProfileMissing", { name });
  return llm;
}

/**
 * The profile to store: the model of the request or of the settings, with masked secrets restored.
 */
function toStoredProfile(
  document: SettingsDocument,
  request: SaveProfileRequest,
  before: LlmDiff = {},
): LlmDiff {
  const whole = Object.entries(request.llm ?? document.agent_settings?.llm ?? {});
  const given = (request.include_secrets ?? true) ? whole : whole.filter(([field]) => !holdsSecret(field));
  const keepsKey =
    request.preserve_existing_api_key === true &&
    !given.some(([field, value]) => field === "api_key" && value);
  const source = Object.fromEntries(keepsKey ? given.filter(([field]) => field !== "api_key") : given);
  const merged = Object.entries(mergeFields(LlmConfig, before, source, { replaceMaps: true }));
  return Object.fromEntries(
    merged.filter(([field]) => Object.hasOwn(source, field) || (keepsKey && field === "api_key")),
  ) as LlmDiff;
}

function holdsSecret(field: string): boolean {
  const schema = LlmConfig.properties[field as keyof LlmConfig];
  return isSecret(schema) || isSecretMap(schema);
}
