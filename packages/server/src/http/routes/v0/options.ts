import { knownModels } from "@sandpiper/models/known-models";
import { type LegacyConfig, LegacyConfig as LegacyConfigSchema } from "@sandpiper/wire";
import { Type } from "typebox";
import { supportedProviders } from "../../../git/services.ts";
import type { App } from "../../server/services.ts";

/** Choices of the settings page, and what the released GUI reads first of all (legacy-gui.md sections 3 and 8). */
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
  // Public like its successor, `GET /api/v1/web-client/config`: nothing of a user is in it, and a login page needs it.
  app.get(
    "/api/options/config",
    {
      config: { access: "public" },
      schema: {
        tags,
        summary: "What the released GUI shows",
        security: [],
        response: { 200: LegacyConfigSchema },
      },
    },
    () => config,
  );
}
