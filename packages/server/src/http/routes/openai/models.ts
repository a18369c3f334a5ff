import { PlatformError } from "@sandpiper/core/errors";
import type { Settings } from "../../../users/api.ts";

/** The model that a new conversation of the user has anyway. */
const defaultModel = "default";

/** What stands before the names of profiles, as with the reference's gateway. */
const prefix = "openhands_";

/** Ids of the models that a user can ask: that of the settings where there is one, and one for each LLM profile. */
export function modelIds(settings: Settings, userId: string): string[] {
  const profiles = settings.profiles.list(userId).profiles.map(({ name }) => prefix + name);
  return [...(settings.model(userId).model ? [defaultModel] : []), ...profiles.sort()];
}

/**
 * The LLM profile of a model's id, also without the prefix; undefined for the default model. Throws ModelNotFound.
 */
export function profileOf(settings: Settings, userId: string, model: string): string | undefined {
  const names = [model.startsWith(prefix) ? model.slice(prefix.length) : "", model];
  const name = names.find((one) => one !== "" && settings.profileModel(userId, one)?.model);
  if (name !== undefined) return name;
  if (model === defaultModel && settings.model(userId).model) return undefined;
  const why =
    model === defaultModel
      ? "The settings name no model: store one by POST /api/settings, or ask for an LLM profile that GET /v1/models lists."
      : `The model '${model}' does not exist: GET /v1/models lists those that do.`;
  throw new PlatformError("ModelNotFound", why);
}
