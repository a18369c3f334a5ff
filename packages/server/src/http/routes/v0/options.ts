import { knownModels } from "@sandpiper/models/known-models";
import { type LegacyConfig, LegacyConfig as LegacyConfigSchema } from "@sandpiper/wire";
import { Type } from "typebox";
import { supportedProviders } from "../../../git/services.ts";
import type { App } from "../../server/services.ts";

/**
 * Choices of the settings page, and the first request of the released GUI (legacy-gui.md sections 3
 * and 8).
 */
export function optionRoutes(app: App): void {
  const tags = ["options"];
  const models = knownModels
    .filter(({ hidden }) => !hidden)
    .map(({ provider, name }) => (provider ? `${provider}/${name}` : name));
  const lists = [
    ["models", "List the names of models", models],
    ["agents", "List the names of agents", ["CodeActAgent"]],
    ["security-analyzers", "List the names of security analyzers", ["llm", "none"]],
  ] as const;
  for (const [name, summary, list] of lists) {
    const schema = { tags, summary, response: { 200: Type.Array(Type.String()) } };
    app.get(`/api/options/${name}`, { config: { errors: "error" }, schema }, () => [...list]);
  }

  const config: LegacyConfig = {
    APP_MODE: "oss",
    APP_SLUG: null,
    GITHUB_CLIENT_ID: "",
    POSTHOG_CLIENT_KEY: "",
    PROVIDERS_CONFIGURED: [...supportedProviders],
    FEATURE_FLAGS: {
      ENABLE_BILLING: false,
      HIDE_LLM_SETTINGS: false,
      ENABLE_JIRA: false,
      ENABLE_JIRA_DC: false,
      ENABLE_LINEAR: false,
    },
  };
  // Public like its successor, `GET /api/v1/web-client/config`: a login page needs it, and it
  // contains no user data.
  app.get(
    "/api/options/config",
    {
      config: { access: "public" },
      schema: {
        tags,
        summary: "Configuration of the released GUI",
        security: [],
        response: { 200: LegacyConfigSchema },
      },
    },
    () => config,
  );
}
