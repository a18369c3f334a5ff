import { addressOptions } from "@sandpiper/models/call-options";
import type { ModelConfig } from "@sandpiper/models/model";
import type { ConversationConfig } from "../../store/conversation-store.ts";
import type { Settings } from "../../users/api.ts";

const providerOf = (model: string) => (model.includes("/") ? model.slice(0, model.indexOf("/")) : "");

/**
 * The model of a conversation: that of the profile to which it was switched, as long as the settings have it; else its own name where it has one, else
 * the user's. The user's key and address go along only when
 * both names mean the same provider, so that one provider's key never reaches another.
 */
export function conversationModel(
  row: { userId: string; config: Pick<ConversationConfig, "llmModel" | "llmProfile"> },
  settings: Settings,
): Partial<ModelConfig> {
  const profile = row.config.llmProfile
    ? settings.profileModel(row.userId, row.config.llmProfile)
    : undefined;
  if (profile?.model) return profile;
  const stored = settings.model(row.userId);
  const own = row.config.llmModel;
  if (!own || own === stored.model) return stored;
  const { options, ...address } = stored;
  const sameProvider = providerOf(own) === providerOf(stored.model ?? "");
  const keepAddress = stored.baseUrl !== undefined && !own.startsWith("demo");
  return sameProvider || keepAddress
    ? { ...address, model: own, ...addressOptions(options) }
    : { model: own };
}
