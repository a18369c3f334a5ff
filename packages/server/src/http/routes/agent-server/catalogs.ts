import { loadSkills } from "@sandpiper/agent/skills/load";
import type { Skill } from "@sandpiper/agent/skills/skill";
import { listToolCatalog } from "@sandpiper/agent/tools/catalog";
import { AcpModelDiscovery, AcpModelDiscoveryRequest, SkillCatalog, ToolCatalog } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import { toLoadedSkill } from "./project.ts";

/** Catalogues of tools, skills and ACP models (agent-server-1.58.md section 4.2). */
export function agentCatalogRoutes(
  app: App,
  { sandboxes, skills, settings }: Pick<HttpServices, "sandboxes" | "skills" | "settings">,
): void {
  const access = { access: "agent" } as const;

  app.get(
    "/api/tools/catalog",
    makeRoute(["health"], access)("List the tools that agents can have, with descriptions", {
      response: { 200: ToolCatalog },
    }),
    () => ({
      tools: listToolCatalog().map((tool) => ({ ...tool, user_selectable: true, usable: true })),
    }),
  );
  app.get(
    "/api/skills/catalog",
    makeRoute(["skills"], access)(
      "List the skills of this server, of the user's marketplaces and of the home folder in the sandbox",
      {
        querystring: Type.Object({
          sandbox_id: Type.Optional(
            Type.String({ description: "whose home folder is read; default: the session key's" }),
          ),
        }),
        response: { 200: SkillCatalog },
      },
      { failures: [404, 503] },
    ),
    async (request) => {
      const { userId } = request.principal;
      const own = await loadUserSkills(request, request.query.sandbox_id);
      await skills.list(userId);
      const names = new Set(own.map(({ name }) => name));
      const open = (await skills.getLoaded(userId)).filter(({ name }) => !names.has(name));
      return {
        skills: [
          ...own.map((skill) => ({ ...toLoadedSkill(skill), origin: "user" as const })),
          ...open.map((skill) => ({ ...toLoadedSkill(skill), origin: "public" as const })),
        ],
      };
    },
  );
  app.post(
    "/api/acp/models",
    makeRoute(["models"], access)("Discover models of an ACP agent: answers that there are none", {
      body: AcpModelDiscoveryRequest,
      response: { 200: AcpModelDiscovery },
    }),
    () => ({
      agent_name: null,
      agent_version: null,
      current_model_id: null,
      available_models: [],
      supports_runtime_model_switch: false,
      error: { code: "unsupported", detail: "This server has no ACP agents." },
    }),
  );

  /** A catalogue does not wake a sandbox. */
  async function loadUserSkills(request: FastifyRequest, named: string | undefined): Promise<Skill[]> {
    const { sandboxId, besideSandboxId, userId } = request.principal;
    if ((sandboxId ?? besideSandboxId ?? named) === undefined) return [];
    const row = await requireAgentSandbox(sandboxes, request, named);
    if (row.status !== "RUNNING") return [];
    const sandbox = endingWithClient(request, await sandboxes.running(row.id));
    const { model } = await settings.model(userId);
    const found = await loadSkills(sandbox, { workingDir: sandbox.spec.workingDir, model });
    return found.filter(({ source }) => source === "user");
  }
}
