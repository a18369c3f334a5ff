import { PlatformError } from "@sandpiper/core/errors";
import type { Settings } from "../../../users/api.ts";

/** The default model of the user's new conversations. */
const defaultModel = "default";

/** Prefix of profile names, as in the reference's gateway. */
const prefix = "openhands_";

/**
 * Ids of the models that a user can choose: the settings' default, if any, and the LLM profiles.
 */
export function listModelIds(settings: Settings, userId: string): string[] {
  const profiles = settings.profiles.list(userId).profiles.map(({ name }) => prefix + name);
  return [...(settings.model(userId).model ? [defaultModel] : []), ...profiles.sort()];
}

/**
 * The LLM profile of a model id, with or without prefix; undefined for the default model. Throws
 * ModelNotFound.
 */
export function resolveProfile(settings: Settings, userId: string, model: string): string | undefined {
  const names = [model.startsWith(prefix) ? model.slice(prefix.length) : "", model];
  const name = names.find((one) => one !== "" && settings.profileModel(userId, one)?.model);
  if (name !== undefined) return name;
  if (model === defaultModel && settings.model(userId).model) return undefined;
  if (model === defaultModel) throw new PlatformError("DefaultModelMissing");
  throw new PlatformError("ChatModelUnknown", { model });
}
