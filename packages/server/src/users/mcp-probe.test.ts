import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer as ProtocolServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { afterEach, expect, test } from "vitest";
import { makeOutbound } from "../outbound/outbound.ts";
import { probeMcpServer } from "./mcp-probe.ts";

const key = "planted-mcp-key";
const outbound = makeOutbound({ allowPrivate: ["127.0.0.0/8"] });
const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function listen(handler: RequestListener): Promise<string> {
  const server = createServer(handler);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

function tools(): ProtocolServer {
  const server = new ProtocolServer({ name: "test", version: "1" });
  server.registerTool("add", { description: "Adds" }, () => ({ content: [] }));
  server.registerTool("subtract", { description: "Subtracts" }, () => ({ content: [] }));
  return server;
}

/** A server of the current protocol that wants the key. */
async function streamable(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.headers.authorization !== `Bearer ${key}`)
    return void response.writeHead(401).end(`no: ${request.headers.authorization}`);
  if (request.method !== "POST") return void response.writeHead(405).end();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await tools().connect(transport);
  await transport.handleRequest(request, response);
}

test("a server of the current protocol is asked for its tools, with its key", async () => {
  const url = await listen(streamable);
  const auth = { strategy: "bearer" as const, value: key };
  expect(await probeMcpServer({ url, auth }, outbound)).toEqual({ ok: true, tools: ["add", "subtract"] });
  expect(await probeMcpServer({ url, headers: { Authorization: `Bearer ${key}` } }, outbound)).toMatchObject({ ok: true });
});

test("a server of the older protocol is, too", async () => {
  const transports = new Map<string, SSEServerTransport>();
  const url = await listen(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://x");
    if (request.headers["x-key"] !== key) return void response.writeHead(403).end();
    if (pathname === "/mcp") {
      const transport = new SSEServerTransport("/messages", response);
      transports.set(transport.sessionId, transport);
      await tools().connect(transport);
    } else await transports.get(searchParams.get("sessionId") ?? "")?.handlePostMessage(request, response);
  });
  const auth = { strategy: "api_key" as const, value: key, header_name: "X-Key" };
  expect(await probeMcpServer({ url, transport: "sse", auth }, outbound)).toEqual({ ok: true, tools: ["add", "subtract"] });
});

test("a refusal is told without the key that the server repeats", async () => {
  const url = await listen((request, response) => void response.writeHead(401).end(`no: ${request.headers.authorization}`));
  const result = await probeMcpServer({ url, auth: { strategy: "bearer", value: key } }, outbound);
  expect(result).toMatchObject({ ok: false, error_kind: "connection", error: expect.any(String) });
  expect(JSON.stringify(result)).not.toContain(key);
  const basic = await probeMcpServer({ url, auth: { strategy: "basic", username: "ann", password: key } }, outbound);
  expect(JSON.stringify(basic)).not.toContain(Buffer.from(`ann:${key}`).toString("base64"));
});

test("what is no MCP server, is not there, may not be reached or runs in sandboxes is told in a sentence", async () => {
  const failed = { ok: false, error: expect.stringMatching(/^.{10,500}$/) };
  const page = await listen((_request, response) => void response.end("<html>hello</html>"));
  expect(await probeMcpServer({ url: page }, outbound)).toMatchObject(failed);
  const garbage = await listen((_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end('{"jsonrpc":"2.0","id":0,"result":[');
  });
  expect(await probeMcpServer({ url: garbage }, outbound)).toMatchObject(failed);
  expect(await probeMcpServer({ url: "http://127.0.0.1:1/mcp" }, outbound)).toMatchObject(failed);
  expect(await probeMcpServer({ url: "no address" }, outbound)).toMatchObject(failed);
  expect(await probeMcpServer({ url: "file:///etc/passwd" }, outbound)).toMatchObject(failed);
  expect(await probeMcpServer({ command: "npx" }, outbound)).toMatchObject({
    ok: false,
    error: expect.stringContaining("sandboxes"),
  });
  let asked = 0;
  const inside = await listen((_request, response) => {
    asked++;
    response.end();
  });
  const guarded = makeOutbound({ allowPrivate: [] });
  expect(await probeMcpServer({ url: inside }, guarded)).toMatchObject(failed);
  await guarded.close();
  expect(asked).toBe(0);
});

test("a server that never answers, or never ends, ends the test in time", async () => {
  const silent = await listen(() => {});
  expect(await probeMcpServer({ url: silent }, outbound, { timeoutMs: 300 })).toMatchObject({ ok: false, error_kind: "timeout" });
  const endless = await listen((_request, response) => {
    response.setHeader("content-type", "text/event-stream");
    const timer = setInterval(() => response.write(`: ${randomUUID().repeat(100)}\n\n`), 5);
    response.on("close", () => clearInterval(timer));
  });
  for (const transport of ["sse", "http"] as const)
    expect(await probeMcpServer({ url: endless, transport }, outbound, { timeoutMs: 300 })).toMatchObject({
      ok: false,
      error_kind: "timeout",
    });
});
