import type { McpServer, McpTestAnswer } from "@sandpiper/wire";
import { remoteAddress } from "../agent/mcp/addresses.ts";
import { errorText } from "../errors.ts";
import { type ProbeOptions, probeMcpServer } from "../users/mcp-probe.ts";
import type { HttpServices } from "./services.ts";

/** Tests a user's MCP server as agents would use it: with the values of the secrets that its configuration names. */
export async function testMcpServer(
  { secrets, outbound }: Pick<HttpServices, "secrets" | "outbound">,
  userId: string,
  { name, server }: { name: string; server: McpServer },
  options?: ProbeOptions,
): Promise<McpTestAnswer> {
  if (!server.url) return probeMcpServer(server, outbound, options);
  try {
    const policy = { mode: "open" as const, allow: [], credentials: [] };
    const { url, headers, hidden } = remoteAddress(
      { name, server, from: "user" },
      { secrets: secrets.forSandbox(userId, ""), policy },
    );
    const filled: McpServer = { ...server, url: url.href, headers: {}, auth: { strategy: "header", headers } };
    return await probeMcpServer(filled, outbound, { ...options, hidden });
  } catch (error) {
    return { ok: false, error: errorText(error), error_kind: "unknown" };
  }
}
