import { type ProbeOptions, probeMcpServer } from "@sandpiper/agent/mcp/probe";
import type { McpServer, McpTestAnswer } from "@sandpiper/wire";
import type { HttpServices } from "../../server/services.ts";

/** Tests a user's MCP server as agents use it, with the secrets that its configuration names. */
export async function testMcpServer(
  { secrets, outbound }: Pick<HttpServices, "secrets" | "outbound">,
  userId: string,
  { name, server }: { name: string; server: McpServer },
  options?: Pick<ProbeOptions, "timeoutMs" | "toolCall">,
): Promise<McpTestAnswer> {
  return probeMcpServer(
    { name, server, from: "user" },
    { outbound, secrets: await secrets.forSandbox(userId, ""), ...options },
  );
}
