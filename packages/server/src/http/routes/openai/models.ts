import { PlatformError } from "@sandpiper/core/errors";
import type { Settings } from "../../../users/api.ts";

/** The default model of the user's new conversations. */
const defaultModel = "default";

/** Prefix of profile names, as in the reference's gateway. */
const prefix = "openhands_";

/**
 * Ids of the models that a user can choose: the settings' default, if any, and the LLM profiles.
 */
export async function listModelIds(settings: Settings, userId: string): Promise<string[]> {
  const [{ profiles }, { model }] = await Promise.all([
    settings.profiles.list(userId),
    settings.model(userId),
  ]);
  return [...(model ? [defaultModel] : []), ...profiles.map(({ name }) => prefix + name).sort()];
}

/**
 * The LLM profile of a model id, with or without prefix; undefined for the default model. Throws
 * ModelNotFound.
 */
export async function resolveProfile(
  settings: Settings,
  userId: string,
  model: string,
): Promise<string | undefined> {
  for (const name of [model.startsWith(prefix) ? model.slice(prefix.length) : "", model])
    if (name !== "" && (await settings.profileModel(userId, name))?.model) return name;
  if (model === defaultModel && (await settings.model(userId)).model) return undefined;
  if (model === defaultModel) throw new PlatformError("DefaultModelMissing");
  throw new PlatformError("ChatModelUnknown", { model });
}
