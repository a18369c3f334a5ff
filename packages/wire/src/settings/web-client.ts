import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ProviderType } from "../sandboxes/git.ts";

const flag = (value: boolean) => Type.Boolean({ default: value });

export const WebClientFeatureFlags = Type.Object({
  enable_billing: flag(false),
  hide_llm_settings: flag(false),
  enable_jira: flag(false),
  enable_jira_dc: flag(false),
  enable_linear: flag(false),
  hide_users_page: flag(false),
  hide_billing_page: flag(false),
  hide_integrations_page: flag(false),
  hide_personal_workspaces: flag(false),
  allow_user_llm_configuration: flag(true),
  enable_acp: flag(true),
  deployment_mode: Nullable(StringEnum(["cloud", "self_hosted"])),
  enable_onboarding: flag(false),
  enable_automations: flag(true),
  enable_agent_canvas_banner: flag(false),
});

/** Answer of `GET /api/v1/web-client/config` (app-server.md section 7). */
export const WebClientConfig = Type.Object({
  app_mode: StringEnum(["oss", "saas"]),
  posthog_client_key: Nullable(Type.String()),
  feature_flags: WebClientFeatureFlags,
  providers_configured: Type.Array(ProviderType),
  maintenance_start_time: Nullable(Type.String({ format: "date-time" })),
  auth_url: Nullable(Type.String()),
  recaptcha_site_key: Nullable(Type.String()),
  faulty_models: Type.Array(Type.String()),
  error_message: Nullable(Type.String()),
  updated_at: Type.String({ format: "date-time" }),
  github_app_slug: Nullable(Type.String()),
  gitlab_enabled: flag(false),
  provider_default_hosts: Type.Record(Type.String(), Type.String()),
  slack_enabled: flag(false),
  email_enabled: flag(false),
  email_change_enabled: flag(true),
  acp_providers: Type.Array(
    Type.Object({
      key: Type.String(),
      display_name: Type.String(),
      default_command: Type.Array(Type.String()),
      default_model: Type.Optional(Nullable(Type.String())),
      available_models: Type.Optional(Type.Array(Type.Object({ id: Type.String(), label: Type.String() }))),
      api_key_env_var: Type.Optional(Nullable(Type.String())),
      base_url_env_var: Type.Optional(Nullable(Type.String())),
    }),
  ),
  jira_dc_oauth_host: Nullable(Type.String()),
  jira_dc_service_account_managed: flag(false),
  jira_dc_service_account_email: Nullable(Type.String()),
  jira_dc_service_account_config_error: Nullable(Type.String()),
  kind: Type.Literal("WebClientConfig"),
});

/**
 * Response of `GET /api/options/config`, limited to what the released GUI reads (legacy-gui.md
 * section 3).
 */
export const LegacyConfig = Type.Object({
  APP_MODE: StringEnum(["oss", "saas"]),
  APP_SLUG: Nullable(Type.String()),
  GITHUB_CLIENT_ID: Type.String(),
  POSTHOG_CLIENT_KEY: Type.String(),
  PROVIDERS_CONFIGURED: Type.Array(ProviderType),
  FEATURE_FLAGS: Type.Object({
    ENABLE_BILLING: Type.Boolean(),
    HIDE_LLM_SETTINGS: Type.Boolean(),
    ENABLE_JIRA: Type.Boolean(),
    ENABLE_JIRA_DC: Type.Boolean(),
    ENABLE_LINEAR: Type.Boolean(),
  }),
});

export type WebClientConfig = Static<typeof WebClientConfig>;
export type LegacyConfig = Static<typeof LegacyConfig>;
