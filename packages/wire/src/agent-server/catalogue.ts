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

/** Answer of `GET /api/tools/catalog` (agent-server-1.58.md section 4.2). */
export const ToolCatalog = Type.Object({
  tools: Type.Array(
    Type.Object({
      name: Type.String(),
      user_selectable: Type.Boolean({ default: true }),
      usable: Type.Boolean({ default: true }),
      description: Type.String({ default: "" }),
      in_default_set: Type.Boolean({ default: false }),
    }),
  ),
});

/** Body and answer of `POST /api/acp/models`. */
export const AcpModelDiscoveryRequest = Type.Object({
  agent_settings: Type.Object({}, { additionalProperties: true }),
  secrets: Type.Optional(Type.Object({}, { additionalProperties: true, writeOnly: true })),
  refresh: Type.Optional(Type.Boolean({ default: false })),
});
export const AcpModelDiscovery = Type.Object({
  agent_name: Nullable(Type.String()),
  agent_version: Nullable(Type.String()),
  current_model_id: Nullable(Type.String()),
  available_models: Type.Array(Type.Object({ model_id: Type.String() })),
  supports_runtime_model_switch: Type.Boolean({ default: false }),
  error: Nullable(Type.Object({ code: Type.String(), detail: Type.String() })),
});
