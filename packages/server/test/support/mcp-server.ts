import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Server as ProtocolServer } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

export interface McpServer {
  url: string;
  close(): void;
}

/** A remote MCP server with the tool `add` of two numbers; it requires a bearer token. */
export async function startMcpServer(key: string): Promise<McpServer> {
  const server = createServer(async (request, response) => {
    if (request.headers.authorization !== `Bearer ${key}`) return void response.writeHead(401).end();
    if (request.method !== "POST") return void response.writeHead(405).end();
    const tools = new ProtocolServer({ name: "test", version: "1" }, { capabilities: { tools: {} } });
    tools.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [{ name: "add", inputSchema: { type: "object" } }],
    }));
    tools.setRequestHandler(CallToolRequestSchema, ({ params: { arguments: { a, b } = {} } }) => ({
      content: [{ type: "text", text: String(Number(a) + Number(b)) }],
    }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await tools.connect(transport);
    await transport.handleRequest(request, response);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
