import { Type } from "typebox";
import { Nullable } from "../common/schema.ts";

/** Answers of `/api/llm/*` (agent-server.md section 9). */
export const LlmProviderNames = Type.Object({ providers: Type.Array(Type.String()) });
export const LlmModelNames = Type.Object({
  models: Type.Array(Type.String({ description: "`provider/name`" })),
});
export const VerifiedModels = Type.Object({
  models: Type.Record(Type.String(), Type.Array(Type.String()), { description: "names by provider" }),
});

/** Logins to a vendor's subscription: always empty, because this platform calls models by keys. */
export const SubscriptionModels = Type.Object({
  vendor: Type.Literal("openai"),
  models: Type.Array(Type.String()),
});
export const SubscriptionStatus = Type.Object({
  vendor: Type.Literal("openai"),
  connected: Type.Boolean(),
  account_email: Nullable(Type.String()),
  expires_at: Nullable(Type.Integer()),
});

/** Answers of `GET /api/vscode/url` and `/api/desktop/url`: null where there is no such thing. */
export const ServiceUrl = Type.Object({ url: Nullable(Type.String()) });
export const VsCodeStatus = Type.Object({
  running: Type.Boolean(),
  enabled: Type.Boolean(),
  message: Type.String(),
});

/** Answer of `GET /api/meta-profiles`. */
export const MetaProfileList = Type.Object({
  meta_profiles: Type.Array(Type.Unknown(), { maxItems: 0 }),
  active_meta_profile: Type.Null(),
});
