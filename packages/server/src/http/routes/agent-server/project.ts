import { type AgentDefinition, loadAgentDefinitions } from "@sandpiper/agent/skills/agent-definitions";
import { loadSkills } from "@sandpiper/agent/skills/load";
import { mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import { builtInSubAgents } from "@sandpiper/agent/sub-agents/built-in";
import { readFile } from "@sandpiper/sandbox/files/files";
import { resolveInside } from "@sandpiper/sandbox/files/resolve-inside";
import {
  HooksRequest,
  HooksResponse,
  hookEvents,
  type LoadedSkill,
  LoadedSkills,
  SkillsRequest,
  SkillsSynced,
  SubAgents,
  SubAgentsRequest,
} from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { parseHooksFile } from "../../../conversations/project/parse-hooks-file.ts";
import { endingWithClient } from "../../server/ending-with-client.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";

const querystring = Type.Object({
  sandbox_id: Type.Optional(Type.String({ description: "required without a session key" })),
});

/** Hooks and skills of a project in the sandbox (agent-server.md section 9). */
export function agentProjectRoutes(
  app: App,
  { sandboxes, skills, settings }: Pick<HttpServices, "sandboxes" | "skills" | "settings">,
): void {
  const config = { access: "agent", failures: [400, 404, 503] } as const;

  const project = async (
    request: FastifyRequest,
    named: string | undefined,
    folder: string | null | undefined,
  ) => {
    const { id } = await requireAgentSandbox(sandboxes, request, named);
    const sandbox = endingWithClient(request, await sandboxes.running(id));
    return { sandbox, folder: resolveInside(sandbox.spec.workingDir, folder ?? ".") };
  };

  app.post(
    "/api/hooks",
    {
      config: { ...config, failures: [...config.failures, 422] },
      schema: {
        tags: ["hooks"],
        summary: "Read the hooks of a project's .openhands/hooks.json",
        querystring,
        body: HooksRequest,
        response: { 200: HooksResponse },
      },
    },
    async (request) => {
      const { sandbox, folder } = await project(request, request.query.sandbox_id, request.body.project_dir);
      const file = await readFile(sandbox, resolveInside(folder, ".openhands/hooks.json"), {
        maxBytes: 2 ** 20,
      });
      if (file.kind !== "file") return { hook_config: null };
      const hooks = parseHooksFile(file.content.toString());
      const none = hookEvents.map((event) => [event, []]);
      return {
        hook_config: Object.fromEntries([
          ...none,
          ...hooks.map(({ event_type, matchers }) => [event_type, matchers]),
        ]),
      };
    },
  );
  app.post(
    "/api/skills",
    {
      config,
      schema: {
        tags: ["skills"],
        summary:
          "Load skills of the project, the sandbox's home folder, this server and the user's marketplaces",
        querystring,
        body: SkillsRequest,
        response: { 200: LoadedSkills },
      },
    },
    async (request) => {
      const { load_public = true, load_user = true, load_project = true, project_dir } = request.body;
      const { userId } = request.principal;
      let inside: Skill[] = [];
      if (load_user || load_project) {
        const { sandbox, folder } = await project(request, request.query.sandbox_id, project_dir);
        inside = await loadSkills(sandbox, {
          workingDir: folder,
          model: (await settings.model(userId)).model,
        });
      }
      // Reads missing marketplaces, which `known` then includes.
      if (load_public) await skills.list(userId);
      const lists = {
        project: load_project ? inside.filter(({ source }) => source === "project") : [],
        user: load_user ? inside.filter(({ source }) => source === "user") : [],
        public: load_public ? await skills.getLoaded(userId) : [],
      };
      const sources = Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, list.length]));
      return { skills: mergeSkills(lists.project, lists.user, lists.public).map(toLoadedSkill), sources };
    },
  );
  app.post(
    "/api/sub-agents",
    {
      config,
      schema: {
        tags: ["sub-agents"],
        summary: "List the sub-agents that a conversation of the project has",
        querystring,
        body: SubAgentsRequest,
        response: { 200: SubAgents },
      },
    },
    async (request) => {
      const { load_builtin = true, load_user = true, load_project = true, project_dir } = request.body;
      let inside: AgentDefinition[] = [];
      if (load_user || load_project) {
        const { sandbox, folder } = await project(request, request.query.sandbox_id, project_dir);
        inside = await loadAgentDefinitions(sandbox, { workingDir: folder });
      }
      const own = inside.filter(({ isUsers }) => (isUsers ? load_user : load_project));
      const others = builtInSubAgents.filter(({ name }) => own.every((one) => one.name !== name));
      return { agents: [...own, ...(load_builtin ? others : [])].map(toListedSubAgent) };
    },
  );
  app.post(
    "/api/skills/sync",
    {
      config: { access: "agent" },
      schema: { tags: ["skills"], summary: "Read the user's marketplaces", response: { 200: SkillsSynced } },
    },
    async ({ principal }) => {
      const found = await skills.list(principal.userId);
      return {
        status: "success" as const,
        message: `${found.length} skills are available from this server and marketplaces.`,
      };
    },
  );
}

/** A sub-agent in the agent server's shape. */
function toListedSubAgent(definition: AgentDefinition): Static<typeof SubAgents>["agents"][number] {
  const { path, isUsers = false } = definition;
  const ofFile = isUsers ? "user" : "project";
  return {
    name: definition.name,
    description: definition.description,
    model: definition.model ?? "inherit",
    color: definition.color ?? null,
    tools: definition.tools ?? [],
    skills: definition.skills ?? [],
    system_prompt: definition.systemPrompt,
    permission_mode: definition.permissionMode ?? null,
    max_iteration_per_run: definition.maxIterations ?? null,
    level: path === undefined ? "builtin" : ofFile,
    source: path ?? null,
    is_builtin: path === undefined,
  };
}

/** A skill in the agent server's shape. */
export function toLoadedSkill({
  name,
  type,
  content,
  triggers,
  source,
  description,
  location,
  hidden = false,
}: Skill): LoadedSkill {
  return {
    name,
    type,
    content,
    triggers,
    source: location ?? source,
    description,
    is_agentskills_format: type === "agentskills",
    disable_model_invocation: hidden,
  };
}
