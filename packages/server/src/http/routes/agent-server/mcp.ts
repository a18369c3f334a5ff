import { restore } from "@sandpiper/agent/mcp/config";
import { McpOAuthStart, type McpServer, McpTestAnswer, McpTestRequest } from "@sandpiper/wire";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { testMcpServer } from "../account/test-mcp-server.ts";

/** Tests MCP servers before they are stored (agent-server.md section 9). */
export function agentMcpRoutes(
  app: App,
  services: Pick<HttpServices, "settings" | "encryptedValues" | "secrets" | "outbound">,
): void {
  const { settings, encryptedValues } = services;
  const route = makeRoute(["mcp"], { access: "agent" });
  app.post(
    "/api/mcp/test",
    route("Connect to a remote MCP server, list its tools, and optionally call one", {
      body: McpTestRequest,
      response: { 200: McpTestAnswer },
    }),
    async ({ principal: { userId }, body }) => {
      const { name = "", timeout = 15, tool_call } = body;
      const server = restore(
        encryptedValues.decryptAll(userId, toMcpServer(body.server)),
        await settings.mcpServer(userId, name),
      );
      const options = { timeoutMs: Math.ceil(timeout * 1000), toolCall: tool_call ?? undefined };
      return testMcpServer(services, userId, { name, server }, options);
    },
  );
  app.post(
    "/api/mcp/oauth/start",
    route("Refused: this server does not log in to MCP servers", {
      body: McpTestRequest,
      response: { 200: McpOAuthStart },
    }),
    () => ({
      ok: false,
      job_id: null,
      authorization_url: null,
      error: "This server does not support OAuth logins: give the MCP server a token or a header instead.",
      error_kind: "unknown" as const,
    }),
  );
}

/** Converts a server to its stored form. */
function toMcpServer({
  type: given,
  transport: stored,
  url,
  headers,
  auth,
  command,
}: McpTestRequest["server"]): McpServer {
  const type = given ?? stored ?? undefined;
  if (type === "stdio" || url === undefined) return { ...(command !== undefined && { command }) };
  const transport = type === "shttp" ? "streamable-http" : type;
  return { url, ...(transport && { transport }), ...(headers && { headers }), ...(auth && { auth }) };
}
