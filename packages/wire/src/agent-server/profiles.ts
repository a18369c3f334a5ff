import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ProfileInfo } from "../settings/profiles.ts";
import { PostedLlm } from "./settings.ts";

/**
 * The list of LLM profiles (agent-server.md section 9). There are no provider connections: each
 * profile has its own key.
 */
export const AgentServerProfileList = Type.Object({
  profiles: Type.Array(
    Type.Object({
      ...ProfileInfo.properties,
      provider_connection_id: Nullable(Type.String()),
      provider_connection_broken: Type.Boolean({ default: false }),
    }),
  ),
  active_profile: Nullable(Type.String()),
});

export const AgentServerSaveProfile = Type.Object({
  llm: PostedLlm,
  include_secrets: Type.Optional(Type.Boolean({ default: true })),
});

export const AgentServerActivatedProfile = Type.Object({
  name: Type.String(),
  message: Type.String(),
  llm_applied: Type.Boolean({ default: true }),
});

export const ValidateProfileRequest = Type.Object({ llm: PostedLlm });

/** Whether a model answers. A temporary failure such as a rate limit does not make it invalid. */
export const ValidateProfileResponse = Type.Object({
  valid: Type.Boolean(),
  error: Nullable(Type.Object({ type: StringEnum(["configuration", "model"]), message: Type.String() })),
});

export type ValidateProfileResponse = Static<typeof ValidateProfileResponse>;
