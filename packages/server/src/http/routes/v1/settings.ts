import { PlatformError } from "@sandpiper/core/errors";
import { McpTestResult, SettingsSchema, SettingsV1, SettingsV1Update } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { agentSchema, conversationSchema } from "../../../users/settings/schema.ts";
import { sendJson } from "../../server/json-text.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { refuseUnknownSettings } from "../../server/unknown-settings.ts";
import { testMcpServer } from "../account/test-mcp-server.ts";

const base = "/api/v1/settings";

/** Keys that only their `*_diff` changes. */
const diffOnlyKeys = ["agent_settings", "conversation_settings"];

/** V1 settings (app-server.md section 5). */
export function settingsV1Routes(
  app: App,
  services: Pick<HttpServices, "settings" | "secrets" | "outbound">,
): void {
  const { settings } = services;
  const route = makeRoute(["settings"], { errors: "error" });
  const Message = Type.Object({ message: Type.String() });

  app.get(
    base,
    route(
      "Load settings; 404 until something is stored",
      { response: { 200: SettingsV1 } },
      { failures: [404] },
    ),
    async (request, reply) => {
      const view = await settings.viewV1(request.principal.userId);
      if (view === undefined) throw new PlatformError("SettingsMissing");
      return sendJson(reply, JSON.stringify(view));
    },
  );
  app.post(
    base,
    {
      preValidation: [rejectWholeSettings, refuseUnknownSettings(SettingsV1Update)],
      ...route(
        "Store settings: top-level fields are replaced, `agent_settings_diff` and `conversation_settings_diff` are merged",
        { body: SettingsV1Update, response: { 200: Message } },
      ),
    },
    async (request) => {
      // Released clients send an organization only when they change single MCP servers.
      const keepServers = request.headers["x-org-id"] !== undefined;
      await settings.updateV1(request.principal.userId, request.body, { keepServers });
      return { message: "Settings stored" };
    },
  );
  app.get(
    `${base}/agent-schema`,
    route("Form schema of agent_settings", { response: { 200: SettingsSchema } }),
    () => agentSchema,
  );
  app.get(
    `${base}/conversation-schema`,
    route("Form schema of conversation_settings", { response: { 200: SettingsSchema } }),
    () => conversationSchema,
  );
  app.post(
    `${base}/mcp/:key/test`,
    route("Connect to a stored remote MCP server and list its tools", {
      params: Type.Object({
        key: Type.String({ description: "name of the server in agent_settings.mcp_config" }),
      }),
      response: { 200: McpTestResult },
    }),
    async ({ principal, params }) => {
      const server = await settings.mcpServer(principal.userId, params.key);
      if (!server) throw new PlatformError("McpServerUnknown");
      return testMcpServer(services, principal.userId, { name: params.key, server });
    },
  );
}

/** Rejects whole `agent_settings`, which would reset fields that a client does not know. */
async function rejectWholeSettings({ body }: FastifyRequest, reply: FastifyReply): Promise<void> {
  const keys = diffOnlyKeys.filter(
    (key) => body !== null && typeof body === "object" && Object.hasOwn(body, key),
  );
  if (keys.length === 0) return;
  const error = `Not settable: ${keys.join(", ")}. Send ${keys.map((key) => `${key}_diff`).join(", ")} instead.`;
  await reply.code(422).send({
    error,
    detail: keys.map((key) => ({
      loc: ["body", key],
      msg: `Send ${key}_diff instead`,
      type: "extra_forbidden",
    })),
    keys,
  });
}
