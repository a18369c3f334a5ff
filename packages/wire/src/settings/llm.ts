import { type Static, Type } from "typebox";
import { StringEnum } from "../common/schema.ts";
import { type Diff, diffOf, nullable, optionalText, secretText, shown } from "./setting-field.ts";

const count = (options: Record<string, unknown>) =>
  Type.Integer({ minimum: 0, maximum: 1_000_000_000, ...shown(), ...options });
const amount = (options: Record<string, unknown>) => Type.Number({ minimum: 0, ...shown(), ...options });
const flag = (value: boolean) => Type.Boolean({ default: value, ...shown() });
const maybe = shown();

/**
 * The model that agent-server clients read when a user has configured none: their own default, as
 * they refuse an empty name (agent-server.md section 3.1).
 */
export const defaultModelName = "gpt-5.5";

/**
 * A language model in settings and profiles (app-server.md section 5, openapi StrictLLM).
 * docs/everyday/models.md says which fields affect model calls; the others are kept for clients.
 * `model` is empty when none is configured.
 */
export const LlmConfig = Type.Object({
  model: Type.String({ maxLength: 1024, default: "", ...shown({ prominence: "critical" }) }),
  api_key: secretText({ label: "API Key", prominence: "critical" }),
  base_url: optionalText({ label: "Base URL", prominence: "major" }),
  auth_type: StringEnum(["api_key", "subscription"], {
    default: "api_key",
    ...shown({ label: "Authentication", prominence: "critical" }),
  }),
  subscription_vendor: nullable(
    StringEnum(["openai"]),
    shown({ label: "Subscription provider", depends_on: ["auth_type"] }),
  ),
  api_version: optionalText({}),
  aws_access_key_id: secretText({}),
  aws_secret_access_key: secretText({}),
  aws_session_token: secretText({}),
  aws_region_name: optionalText({}),
  aws_profile_name: optionalText({}),
  aws_role_name: optionalText({}),
  aws_session_name: optionalText({}),
  aws_bedrock_runtime_endpoint: optionalText({}),
  openrouter_site_url: Type.String({ maxLength: 8192, default: "https://docs.all-hands.dev/", ...maybe }),
  openrouter_app_name: Type.String({ maxLength: 1024, default: "OpenHands", ...maybe }),
  num_retries: count({ default: 5 }),
  retry_multiplier: amount({ default: 8 }),
  retry_min_wait: count({ default: 8, description: "Seconds." }),
  retry_max_wait: count({ default: 64, description: "Seconds." }),
  timeout: nullable(count({}), { default: 300, ...maybe }),
  max_message_chars: count({ minimum: 1, default: 30_000 }),
  temperature: nullable(amount({}), maybe),
  top_p: nullable(amount({ maximum: 1 }), maybe),
  top_k: nullable(amount({}), maybe),
  max_input_tokens: nullable(count({ minimum: 1 }), maybe),
  max_output_tokens: nullable(count({ minimum: 1 }), maybe),
  model_canonical_name: optionalText({}),
  api_mode: StringEnum(["auto", "chat", "responses"], { default: "auto", ...maybe }),
  capability_overrides: Type.Record(Type.String(), Type.Union([Type.Boolean(), Type.String()]), {
    default: {},
    ...maybe,
  }),
  extra_headers: nullable(
    Type.Record(Type.String(), Type.String({ format: "password" }), { maxProperties: 100 }),
    maybe,
  ),
  input_cost_per_token: nullable(amount({}), maybe),
  output_cost_per_token: nullable(amount({}), maybe),
  ollama_base_url: optionalText({}),
  stream: flag(false),
  drop_params: flag(true),
  modify_params: flag(true),
  disable_vision: nullable(Type.Boolean(), maybe),
  disable_stop_word: nullable(Type.Boolean(), { default: false, ...maybe }),
  caching_prompt: flag(true),
  log_completions: flag(false),
  log_completions_folder: Type.String({ maxLength: 4096, default: "logs/completions", ...maybe }),
  custom_tokenizer: optionalText({}),
  native_tool_calling: flag(true),
  force_string_serializer: nullable(Type.Boolean(), maybe),
  inline_image_urls: nullable(Type.Boolean(), maybe),
  reasoning_effort: nullable(StringEnum(["low", "medium", "high", "xhigh", "none"]), {
    default: "high",
    ...maybe,
  }),
  reasoning_summary: nullable(StringEnum(["auto", "concise", "detailed"]), maybe),
  enable_encrypted_reasoning: flag(true),
  prompt_cache_retention: nullable(Type.String({ maxLength: 64 }), { default: "24h", ...maybe }),
  extended_thinking_budget: nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000 }), {
    default: 200_000,
    ...maybe,
  }),
  // Larger numbers lose digits in JSON.
  seed: nullable(Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }), maybe),
  usage_id: Type.String({ maxLength: 256, default: "default", ...maybe }),
  litellm_extra_body: Type.Record(Type.String(), Type.Unknown(), { default: {}, ...maybe }),
  fallback_strategy: nullable(
    Type.Object({ fallback_llms: Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 50 }) }),
    maybe,
  ),
});

/**
 * A model that a client stores; every field is optional. `StrictLlm` refuses unknown fields
 * (app-server.md section 5, profiles).
 */
export const StrictLlm = Type.Unsafe<LlmDiff>(
  Type.Object(
    {
      ...diffOf(LlmConfig).properties,
      provider_connection_id: Type.Optional(
        Type.Null({ description: "newer clients send it; there are no provider connections" }),
      ),
    },
    { additionalProperties: false },
  ),
);

export type LlmConfig = Static<typeof LlmConfig>;
export type LlmDiff = Diff<LlmConfig>;
