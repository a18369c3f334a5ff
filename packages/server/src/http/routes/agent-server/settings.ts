import { PlatformError } from "@sandpiper/core/errors";
import {
  AgentServerSettings,
  AgentServerSettingsUpdate,
  ExposeSecrets,
  McpServerPatch,
  NewMcpServer,
  SettingsSchema,
} from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { agentSchema, conversationSchema } from "../../../users/settings/schema.ts";
import { toJsonSchema } from "../../openapi/schema.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { refuseUnknownSettings } from "../../server/unknown-settings.ts";
import { parseExposure } from "./exposure.ts";

const { properties = {} } = toJsonSchema(AgentServerSettingsUpdate);
const fields = Object.keys(properties) as (keyof AgentServerSettingsUpdate)[];

/**
 * The user's settings in the agent server's shape (agent-server.md section 9). They can show
 * secrets, so these routes need a session key or the prefix `/agent/<sandbox id>`.
 */
export function agentSettingsRoutes(
  app: App,
  { settings, encryptedValues }: Pick<HttpServices, "settings" | "encryptedValues">,
): void {
  const readRoute = makeRoute(["settings"], { access: "agent" }, { view: "agent" });
  const route = makeRoute(["settings"], { access: "agent", failures: [400, 404, 409] }, { view: "agent" });
  const ServerPath = Type.Object({
    settings_key: Type.String({
      minLength: 1,
      maxLength: 256,
      description: "name of the server in agent_settings.mcp_config",
    }),
  });
  const own = settings.agentServer;

  const show = (request: FastifyRequest) =>
    own.view(request.principal.userId, parseExposure(request, encryptedValues));

  app.get(
    "/api/settings",
    readRoute("Load settings", { headers: ExposeSecrets, response: { 200: AgentServerSettings } }),
    (request) => show(request),
  );
  app.patch(
    "/api/settings",
    {
      preValidation: refuseUnknownSettings(AgentServerSettingsUpdate),
      ...route("Change settings: the diffs are merged, null resets, a masked secret keeps the stored one", {
        body: AgentServerSettingsUpdate,
        response: { 200: AgentServerSettings },
      }),
    },
    async (request) => {
      const { userId } = request.principal;
      if (!fields.some((field) => request.body[field] !== undefined))
        throw new PlatformError("NothingToChange", { fields: fields.join(", ") });
      await own.update(userId, encryptedValues.decryptAll(userId, request.body));
      return show(request);
    },
  );
  app.post(
    "/api/settings/mcp/:settings_key",
    route("Add an MCP server", {
      params: ServerPath,
      body: NewMcpServer,
      response: { 201: AgentServerSettings },
    }),
    async (request, reply) => {
      const { userId } = request.principal;
      await own.createMcpServer(
        userId,
        request.params.settings_key,
        encryptedValues.decryptAll(userId, request.body),
      );
      return reply.code(201).send(await show(request));
    },
  );
  app.patch(
    "/api/settings/mcp/:settings_key",
    route("Change fields of an MCP server", {
      params: ServerPath,
      body: McpServerPatch,
      response: { 200: AgentServerSettings },
    }),
    async (request) => {
      const { userId } = request.principal;
      await own.patchMcpServer(
        userId,
        request.params.settings_key,
        encryptedValues.decryptAll(userId, request.body),
      );
      return show(request);
    },
  );
  app.delete(
    "/api/settings/mcp/:settings_key",
    route("Remove an MCP server", { params: ServerPath, response: { 200: AgentServerSettings } }),
    async (request) => {
      await own.removeMcpServer(request.principal.userId, request.params.settings_key);
      return show(request);
    },
  );
  for (const [name, schema] of [
    ["agent", agentSchema],
    ["conversation", conversationSchema],
  ] as const) {
    app.get(
      `/api/settings/${name}-schema`,
      readRoute(`Form schema of ${name}_settings`, { response: { 200: SettingsSchema } }),
      () => schema,
    );
  }
}
