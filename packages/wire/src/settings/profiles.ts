import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";
import { StrictLlm } from "./llm.ts";

/** Name of an LLM profile (app-server.md section 5). */
export const ProfileName = Type.String({ minLength: 1, maxLength: 64, pattern: "^[A-Za-z0-9._-]{1,64}$" });

export const ProfileInfo = Type.Object({
  name: Type.String(),
  model: Nullable(Type.String()),
  base_url: Nullable(Type.String()),
  api_key_set: Type.Boolean({ default: false }),
});

export const ProfileList = Type.Object({
  profiles: Type.Array(ProfileInfo),
  active_profile: Nullable(Type.String()),
});

/** One profile; secrets in `config` are null. */
export const ProfileDetail = Type.Object({
  name: Type.String(),
  config: Type.Record(Type.String(), Type.Unknown()),
  api_key_set: Type.Boolean({ default: false }),
});

/** A model to keep; without `llm` the one of the settings. */
export const SaveProfileRequest = Type.Object({
  include_secrets: Type.Optional(Type.Boolean({ default: true })),
  llm: Type.Optional(Nullable(StrictLlm)),
  preserve_existing_api_key: Type.Optional(Type.Boolean({ default: false })),
});

/** Body of `POST …/profiles/{name}`: optional or null. */
export const SaveProfileBody = Type.Union([SaveProfileRequest, Type.Null()], { default: {} });

export const RenameProfileRequest = Type.Object({ new_name: ProfileName });
export const ProfileMutation = Type.Object({ name: Type.String(), message: Type.String() });
export const ActivatedProfile = Type.Object({
  name: Type.String(),
  message: Type.String(),
  model: Nullable(Type.String()),
});

export type ProfileInfo = Static<typeof ProfileInfo>;
export type ProfileList = Static<typeof ProfileList>;
export type ProfileDetail = Static<typeof ProfileDetail>;
export type SaveProfileRequest = Static<typeof SaveProfileRequest>;
