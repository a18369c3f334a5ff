import { isoTime, type WebClientConfig, WebClientConfig as WebClientConfigSchema } from "@sandpiper/wire";
import { supportedProviders } from "../../../git/services.ts";
import { getPublicHost } from "../../../users/provider-hosts.ts";
import type { App } from "../../server/services.ts";

/**
 * `GET /api/v1/web-client/config`: the configuration of a web client without a key (app-server.md
 * section 7).
 */
export function webClientRoutes(app: App): void {
  const config: WebClientConfig = {
    app_mode: "oss",
    posthog_client_key: null,
    feature_flags: {
      enable_billing: false,
      hide_llm_settings: false,
      enable_jira: false,
      enable_jira_dc: false,
      enable_linear: false,
      hide_users_page: true,
      hide_billing_page: true,
      hide_integrations_page: false,
      hide_personal_workspaces: true,
      allow_user_llm_configuration: true,
      // This server has neither ACP agents nor automations.
      enable_acp: false,
      deployment_mode: "self_hosted",
      enable_onboarding: false,
      enable_automations: false,
      enable_agent_canvas_banner: false,
    },
    providers_configured: [...supportedProviders],
    maintenance_start_time: null,
    auth_url: null,
    recaptcha_site_key: null,
    faulty_models: [],
    error_message: null,
    updated_at: isoTime(Date.now()),
    github_app_slug: null,
    gitlab_enabled: true,
    provider_default_hosts: Object.fromEntries(
      supportedProviders.map((provider) => [provider, getPublicHost(provider) ?? ""]),
    ),
    slack_enabled: false,
    email_enabled: false,
    email_change_enabled: false,
    acp_providers: [],
    jira_dc_oauth_host: null,
    jira_dc_service_account_managed: false,
    jira_dc_service_account_email: null,
    jira_dc_service_account_config_error: null,
    kind: "WebClientConfig",
  };
  app.get(
    "/api/v1/web-client/config",
    {
      config: { access: "public" },
      schema: {
        tags: ["config"],
        summary: "Configuration of a web client",
        security: [],
        response: { 200: WebClientConfigSchema },
      },
    },
    () => config,
  );
}
