import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Server as ProtocolServer } from "@modelcontextprotocol/sdk/server/index.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

export interface RemoteMcp {
  /** The URLs for the current protocol and for the older one. */
  url: string;
  sseUrl: string;
  /** Headers of each request so far. */
  seen: IncomingHttpHeaders[];
  /** Tools that are called, in order. */
  calls: string[];
  /** Number of open sessions. */
  sessions(): number;
  /** Open sockets. */
  sockets(): number;
  /** Forgets all sessions, as a server does that was started anew. */
  forget(): void;
  /** Cuts the streams of the older protocol. */
  dropStreams(): void;
  /** Adds a tool and notifies all clients. */
  addTool(name: string): Promise<void>;
  close(): Promise<void>;
}

/** A remote MCP server over both of the protocol's ways, built with the library's server side. */
export async function startRemoteMcp(): Promise<RemoteMcp> {
  const seen: IncomingHttpHeaders[] = [];
  const calls: string[] = [];
  const tools = ["greet", "cut", "flood", "refuse", "hang"];
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const streams = new Map<string, SSEServerTransport>();
  const streamResponses = new Set<ServerResponse>();
  const servers = new Set<ProtocolServer>();
  let latest: ServerResponse | undefined;

  const connect = () => {
    const server = new ProtocolServer(
      { name: "remote", version: "1" },
      { capabilities: { tools: { listChanged: true }, logging: {} } },
    );
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: tools.map((name) => ({ name, inputSchema: { type: "object" as const } })),
    }));
    server.setRequestHandler(
      CallToolRequestSchema,
      async ({ params: { name, arguments: args } }, { sendNotification }) => {
        calls.push(name);
        if (name === "cut") {
          const answer = latest;
          // Once it has begun.
          await sendNotification({ method: "notifications/message", params: { level: "info", data: "now" } });
          setTimeout(() => answer?.socket?.destroy(), 50);
        }
        if (name === "flood")
          for (let n = 0; n < 5_000; n++)
            void server
              .notification({ method: "notifications/message", params: { level: "info", data: n } })
              .catch(() => {});
        if (name === "refuse") throw new Error(`no, says the owner of ${seen.at(-1)?.authorization}`);
        if (name === "cut" || name === "flood" || name === "hang") await new Promise(() => {});
        return {
          content: [
            {
              type: "text",
              text: `${name} ${JSON.stringify(args ?? {})} ${seen.at(-1)?.authorization ?? ""}`,
            },
          ],
        };
      },
    );
    server.onclose = () => servers.delete(server);
    servers.add(server);
    return server;
  };

  const streamable = async (request: IncomingMessage, response: ServerResponse) => {
    const id = request.headers["mcp-session-id"] as string | undefined;
    const known = id === undefined ? undefined : sessions.get(id);
    if (id !== undefined && !known) return void response.writeHead(404).end("Session not found");
    if (known) return known.handleRequest(request, response);
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (session) => void sessions.set(session, transport),
      onsessionclosed: (session) => void sessions.delete(session),
    });
    await connect().connect(transport);
    await transport.handleRequest(request, response);
  };

  const server = createServer((request, response) => {
    seen.push(request.headers);
    if (request.method === "POST") latest = response;
    const { pathname, searchParams } = new URL(request.url ?? "", "http://x");
    if (pathname === "/mcp") void streamable(request, response);
    else if (pathname === "/sse") {
      const transport = new SSEServerTransport("/messages", response);
      streams.set(transport.sessionId, transport);
      streamResponses.add(response);
      void connect().connect(transport);
    } else if (pathname === "/messages")
      void streams.get(searchParams.get("sessionId") ?? "")?.handlePostMessage(request, response);
    else response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const open = new Set<unknown>();
  server.on("connection", (socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return {
    url: `${origin}/mcp`,
    sseUrl: `${origin}/sse`,
    seen,
    calls,
    sessions: () => sessions.size,
    sockets: () => open.size,
    forget: () => sessions.clear(),
    dropStreams() {
      for (const response of streamResponses) response.destroy();
      streamResponses.clear();
    },
    async addTool(name) {
      tools.push(name);
      for (const one of servers) await one.sendToolListChanged().catch(() => {});
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
