import { randomUUID } from "node:crypto";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer as ProtocolServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport } from "@modelcontextprotocol/sdk/server/sse.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import type { McpServer } from "@sandpiper/wire";
import { afterEach, expect, test } from "vitest";
import { type ProbeOptions, probeMcpServer } from "./probe.ts";

const key = "planted-mcp-key";
const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"] });
const secrets = [
  { name: "NAMED", variable: "NAMED", description: null, hosts: null, value: "planted-named-secret" },
];
const probe = (server: McpServer, options: Partial<ProbeOptions> = {}) =>
  probeMcpServer({ name: "tested", server, from: "user" }, { outbound, secrets, ...options });
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

test("a server of the current protocol lists its tools with its key", async () => {
  const url = await listen(streamable);
  const auth = { strategy: "bearer" as const, value: key };
  expect(await probe({ url, auth })).toEqual({ ok: true, tools: ["add", "subtract"] });
  expect(await probe({ url, headers: { Authorization: `Bearer ${key}` } })).toMatchObject({ ok: true });
});

/**
 * A server of the older protocol. It requires the key and refuses others with status `refuses`.
 */
async function older(refuses = 403): Promise<string> {
  const transports = new Map<string, SSEServerTransport>();
  return listen(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://x");
    if (pathname === "/mcp" && request.method !== "GET") return void response.writeHead(405).end();
    if (request.headers["x-key"] !== key)
      return void response.writeHead(refuses).end(`no: ${request.headers["x-key"]}`);
    if (pathname === "/mcp") {
      const transport = new SSEServerTransport("/messages", response);
      transports.set(transport.sessionId, transport);
      await tools().connect(transport);
    } else await transports.get(searchParams.get("sessionId") ?? "")?.handlePostMessage(request, response);
  });
}

test("a server of the older protocol lists its tools, with and without a configured transport", async () => {
  const url = await older();
  const auth = { strategy: "api_key" as const, value: key, header_name: "X-Key" };
  expect(await probe({ url, transport: "sse", auth })).toEqual({ ok: true, tools: ["add", "subtract"] });
  expect(await probe({ url, auth })).toEqual({ ok: true, tools: ["add", "subtract"] });
  expect(await probe({ url, transport: "http", auth })).toMatchObject({
    ok: false,
    error: expect.stringContaining("405"),
  });
});

test("a refusal is reported without the key that the server repeats", async () => {
  const url = await listen(
    (request, response) => void response.writeHead(401).end(`no: ${request.headers.authorization}`),
  );
  const result = await probe({ url, auth: { strategy: "bearer", value: key } });
  expect(result).toMatchObject({ ok: false, error_kind: "connection", error: expect.any(String) });
  expect(JSON.stringify(result)).not.toContain(key);
  const basic = await probe({ url, auth: { strategy: "basic", username: "ann", password: key } });
  expect(JSON.stringify(basic)).not.toContain(Buffer.from(`ann:${key}`).toString("base64"));
});

test.each([401, 403])(
  "credentials that are refused with %i are reported as such over both protocols",
  async (status) => {
    const reported = {
      ok: false,
      error_kind: "connection",
      error: expect.stringMatching(
        new RegExp(
          `^It refused the credentials \\(${status}\\)(: .*)?; check its headers, auth or api_key\\.$`,
        ),
      ),
    };
    const now = await listen(
      (request, response) => void response.writeHead(status).end(`no: ${request.headers["x-key"]}`),
    );
    const before = await older(status);
    const headers = { "X-Key": "${NAMED}", "X-Plain": "abcd" };
    for (const server of [{ url: now }, { url: before }, { url: before, transport: "sse" as const }]) {
      const result = await probe({ ...server, headers });
      expect(result).toEqual(reported);
      expect(JSON.stringify(result)).not.toContain("planted");
      expect(await probe(server)).toEqual(reported);
    }
  },
);

test("the answer of a called tool is masked, short secrets included", async () => {
  const url = await listen(async (request, response) => {
    const server = new ProtocolServer({ name: "echo", version: "1" });
    const text = `${request.headers["x-key"]} ${request.headers["x-plain"]} ok`;
    server.registerTool("echo", { description: text }, () => ({ content: [{ type: "text", text }] }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport);
    if (request.method !== "POST") return void response.writeHead(405).end();
    await transport.handleRequest(request, response);
  });
  const headers = { "X-Key": "${NAMED}", "X-Plain": "abcd" };
  const result = await probe({ url, headers }, { toolCall: { name: "echo" } });
  expect(result).toMatchObject({
    ok: true,
    tools: ["echo"],
    tool_result: { is_error: false, text: expect.stringMatching(/ ok$/) },
  });
  expect(JSON.stringify(result)).not.toMatch(/planted|abcd/);
});

test("servers that are invalid, missing, forbidden or commands give one error sentence", async () => {
  const failed = { ok: false, error: expect.stringMatching(/^.{10,500}$/) };
  const page = await listen((_request, response) => void response.end("<html>hello</html>"));
  expect(await probe({ url: page })).toMatchObject(failed);
  const garbage = await listen((_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end('{"jsonrpc":"2.0","id":0,"result":[');
  });
  expect(await probe({ url: garbage })).toMatchObject(failed);
  expect(await probe({ url: "http://127.0.0.1:1/mcp" })).toMatchObject(failed);
  expect(await probe({ url: "no address" })).toMatchObject(failed);
  expect(await probe({ url: "file:///etc/passwd" })).toMatchObject(failed);
  expect(await probe({ command: "npx" })).toMatchObject({
    ok: false,
    error: expect.stringContaining("sandboxes"),
  });
  let asked = 0;
  const inside = await listen((_request, response) => {
    asked++;
    response.end();
  });
  const guarded = createOutbound({ allowPrivate: [] });
  expect(await probe({ url: inside }, { outbound: guarded })).toMatchObject(failed);
  await guarded.close();
  expect(asked).toBe(0);
});

test("a test of a server that never answers or never ends stops in time", async () => {
  const silent = await listen(() => {});
  expect(await probe({ url: silent }, { timeoutMs: 300 })).toMatchObject({
    ok: false,
    error_kind: "timeout",
  });
  const endless = await listen((_request, response) => {
    response.setHeader("content-type", "text/event-stream");
    const timer = setInterval(() => response.write(`: ${randomUUID().repeat(100)}\n\n`), 5);
    response.on("close", () => clearInterval(timer));
  });
  for (const transport of ["sse", "http"] as const)
    expect(await probe({ url: endless, transport }, { timeoutMs: 300 })).toMatchObject({
      ok: false,
      error_kind: "timeout",
    });
});
