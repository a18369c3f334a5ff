import {
  InstalledPlugins,
  InstalledSkills,
  MarketplacePlugins,
  MarketplaceSkills,
  MetaProfileList,
  SubAgents,
} from "@sandpiper/wire";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";

/**
 * Extensions of agents (agent-server.md section 9). Skills and plugins come from the sandbox and
 * the user's marketplaces, so lists of installed ones are empty.
 */
export function agentExtensionRoutes(
  app: App,
  { skills, settings }: Pick<HttpServices, "skills" | "settings">,
): void {
  const config = { access: "agent" } as const;

  app.get(
    "/api/skills/installed",
    {
      config,
      schema: {
        tags: ["skills"],
        summary: "List installed skills: always empty",
        response: { 200: InstalledSkills },
      },
    },
    () => ({ skills: [] }),
  );
  app.get(
    "/api/skills/marketplace",
    {
      config,
      schema: {
        tags: ["skills"],
        summary: "List the skills of the user's marketplaces",
        response: { 200: MarketplaceSkills },
      },
    },
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
  for (const path of ["/api/plugins", "/api/plugins/installed"] as const) {
    const schema = {
      tags: ["plugins"],
      summary: "List plugins of the sandbox: always empty; conversations name their plugins at the start",
      response: { 200: InstalledPlugins },
    };
    if (path === "/api/plugins") app.post(path, { config, schema }, () => ({ plugins: [] }));
    else app.get(path, { config, schema }, () => ({ plugins: [] }));
  }
  app.get(
    "/api/plugins/marketplace",
    {
      config,
      schema: {
        tags: ["plugins"],
        summary: "List the plugins of the user's marketplaces",
        response: { 200: MarketplacePlugins },
      },
    },
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
    "/api/sub-agents",
    {
      config,
      schema: {
        tags: ["sub-agents"],
        summary: "List sub-agents of the sandbox: always empty",
        response: { 200: SubAgents },
      },
    },
    () => ({ agents: [] }),
  );
  app.get(
    "/api/meta-profiles",
    {
      config,
      schema: {
        tags: ["profiles"],
        summary: "List meta-profiles: always empty",
        response: { 200: MetaProfileList },
      },
    },
    () => ({ meta_profiles: [], active_meta_profile: null }),
  );
  app.get(
    "/api/llm/provider-connections",
    {
      config,
      schema: {
        tags: ["profiles"],
        summary: "Keys shared by LLM profiles: always empty, each profile has its own key",
        response: { 200: Type.Array(Type.Unknown()) },
      },
    },
    () => [],
  );

  async function marketplaces(userId: string) {
    const registrations = settings.agent(userId).marketplaces;
    return { registrations, found: await skills.preview(registrations) };
  }
}
