import {
  FetchPluginRequest,
  FetchPluginResponse,
  InstalledPlugins,
  InstalledSkills,
  MarketplacePlugins,
  MarketplaceSkills,
  MetaProfileList,
} from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { withoutSocketTimeout } from "../../server/without-socket-timeout.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import { SandboxQuery } from "./file-paths.ts";

/**
 * Extensions of agents (agent-server.md section 9). Skills and plugins come from the sandbox and
 * the user's marketplaces, so lists of installed ones are empty.
 */
export function agentExtensionRoutes(
  app: App,
  {
    skills,
    settings,
    sandboxes,
    conversations,
    encryptedValues,
  }: Pick<HttpServices, "skills" | "settings" | "sandboxes" | "conversations" | "encryptedValues">,
): void {
  const access = { access: "agent" } as const;
  const route = makeRoute(["skills"], access);
  const plugins = makeRoute(["plugins"], access);
  const profiles = makeRoute(["profiles"], access);

  app.get(
    "/api/skills/installed",
    route("List installed skills: always empty", { response: { 200: InstalledSkills } }),
    () => ({ skills: [] }),
  );
  app.get(
    "/api/skills/marketplace",
    route("List the skills of the user's marketplaces", { response: { 200: MarketplaceSkills } }),
    async ({ principal }) => {
      const { registrations, found } = await marketplaces(principal.userId);
      return {
        skills: registrations.flatMap(({ name, source, auto_load = false }) =>
          (found.marketplace_skills[name] ?? []).map((skill) => ({
            name: skill,
            description: null,
            source,
            installed: auto_load,
          })),
        ),
      };
    },
  );
  const installed = plugins(
    "List plugins of the sandbox: always empty; conversations name their plugins at the start",
    { response: { 200: InstalledPlugins } },
  );
  app.post("/api/plugins", installed, () => ({ plugins: [] }));
  app.get("/api/plugins/installed", installed, () => ({ plugins: [] }));
  app.get(
    "/api/plugins/marketplace",
    plugins("List the plugins of the user's marketplaces", { response: { 200: MarketplacePlugins } }),
    async ({ principal }) => {
      const { found, registrations } = await marketplaces(principal.userId);
      return {
        plugins: found.plugins.map(({ name, description, source, marketplace }) => {
          const { ref = null, repo_path = null } =
            registrations.find((one) => one.name === marketplace) ?? {};
          return { name, description, source, installed: false, ref, repo_path };
        }),
      };
    },
  );
  app.post(
    "/api/plugins/fetch",
    plugins(
      "Fetch a plugin into the sandbox and describe it; nothing of it runs",
      { querystring: SandboxQuery, body: FetchPluginRequest, response: { 200: FetchPluginResponse } },
      { errors: "coded", failures: [400, 404, 409, 502, 503, 504] },
    ),
    async (request) => {
      const { id, userId } = await requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      const secrets = encryptedValues.decryptAll(userId, request.body.secrets ?? {});
      return withoutSocketTimeout(app, request, () =>
        conversations.fetchPlugin({ userId, sandboxId: id }, { ...request.body, secrets }),
      );
    },
  );
  app.get(
    "/api/meta-profiles",
    profiles("List meta-profiles: always empty", { response: { 200: MetaProfileList } }),
    () => ({ meta_profiles: [], active_meta_profile: null }),
  );
  app.get(
    "/api/llm/provider-connections",
    profiles("Keys shared by LLM profiles: always empty, each profile has its own key", {
      response: { 200: Type.Array(Type.Unknown()) },
    }),
    () => [],
  );

  async function marketplaces(userId: string) {
    const registrations = (await settings.agent(userId)).marketplaces;
    return { registrations, found: await skills.preview(registrations) };
  }
}
