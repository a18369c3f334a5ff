import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { until } from "@sandpiper/core/test/support/until";
import type { NetworkPolicy } from "@sandpiper/sandbox/driver";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type RemoteMcp, startRemoteMcp } from "../../test/support/remote-mcp.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import { type McpDeps, sessionOpener } from "./open-session.ts";
import { PolicedOutbounds } from "./policed-outbound.ts";
import type { ServerSpec } from "./server-spec.ts";
import { McpConnections } from "./servers.ts";

const policed = new PolicedOutbounds();
const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"] });
const value = "planted-value-of-a-secret";
const secret: SandboxSecret = { name: "API_KEY", variable: "API_KEY", description: null, hosts: null, value };
const never = new AbortController().signal;

let remote: RemoteMcp;
const open: McpConnections[] = [];
const listeners: Server[] = [];

beforeAll(async () => {
  remote = await startRemoteMcp();
});

afterEach(async () => {
  for (const servers of open.splice(0)) servers.close({ all: true });
  for (const listener of listeners.splice(0)) {
    listener.closeAllConnections();
    await new Promise((resolve) => listener.close(resolve));
  }
});

afterAll(async () => {
  await remote.close();
  await outbound.close();
  await policed.close();
});

function serversOf(around: Partial<McpDeps> = {}): McpConnections {
  const servers = new McpConnections(
    sessionOpener({
      outbound,
      policed,
      sandbox: () => Promise.reject(new Error("There is no sandbox here.")),
      workingDir: "/",
      secrets: async () => [secret],
      policy: async () => ({ mode: "allowlist", allow: [], credentials: [] }),
      ...around,
    }),
  );
  open.push(servers);
  return servers;
}

const spec = (server: ServerSpec["server"], more: Partial<ServerSpec> = {}): ServerSpec => ({
  name: "remote",
  server,
  from: "user",
  ...more,
});
const names = (servers: McpConnections) => servers.tools(new Set()).map(({ name }) => name);

async function call(
  servers: McpConnections,
  name: string,
  data: Record<string, unknown> = {},
  signal = never,
): Promise<string> {
  const tool = servers.tools(new Set()).find((one) => one.name === name);
  const { content } = await tool!.run({ kind: "MCPToolAction", data }, { signal } as ToolContext);
  return content.map((part) => (part.type === "text" ? part.text : part.image_urls.join())).join("\n");
}

async function listen(handler: RequestListener): Promise<string> {
  const listener = createServer(handler);
  listeners.push(listener);
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}/mcp`;
}

test.each(["current", "older", "unnamed"])(
  "tools work over the %s protocol, with a secret that is never shown",
  async (which) => {
    const servers = serversOf();
    const server = {
      ...(which === "older" ? { url: remote.sseUrl, transport: "sse" as const } : { url: remote.url }),
      ...(which === "current" && { transport: "http" as const }),
      headers: { Authorization: "Bearer ${API_KEY}" },
    };
    expect(await servers.prepare([spec(server)], never)).toEqual([]);
    expect(names(servers)).toEqual(expect.arrayContaining(["greet", "cut"]));
    expect(await call(servers, "greet", { who: "you" })).toBe(
      '[The tool greet was run.]\ngreet {"who":"you"} Bearer <secret-hidden>',
    );
    expect(remote.seen.at(-1)?.authorization).toBe(`Bearer ${value}`);
    expect(await call(servers, "refuse")).toMatch(
      /^The MCP server remote failed: no, says the owner of Bearer <secret-hidden>$/,
    );
  },
);

test.each([
  ["current", { transport: "http" as const }, /It sent nothing for 1 s\. What the call did is unknown\.$/],
  [
    "older",
    { transport: "sse" as const },
    /It sent nothing for 1 s\. What the call did is unknown; the next one connects again\.$/,
  ],
] as const)(
  "a stream that is silent beyond the configured time ends the call: the %s protocol",
  async (_name, kind, sentence) => {
    const servers = serversOf();
    const url = kind.transport === "sse" ? remote.sseUrl : remote.url;
    await servers.prepare([spec({ url, ...kind, sse_read_timeout: 0.5 })], never);
    expect(await call(servers, "hang")).toMatch(sentence);
    expect(await call(servers, "greet")).toContain("greet");
  },
);

test("released servers leave no open connections", async () => {
  const servers = serversOf();
  await until(() => remote.sockets() === 0 || true);
  await servers.prepare([spec({ url: remote.url, transport: "http" })], never);
  const sessions = remote.sessions();
  servers.close({ all: true });
  await until(() => remote.sessions() === sessions - 1);
  // Its tools are remembered, and a call connects again.
  expect(await call(servers, "greet")).toContain("greet");
});

test.each([
  ["an address that is not to be reached", { url: "http://10.1.2.3/mcp" }, {}, /10\.1\.2\.3/],
  ["one for the older protocol", { url: "http://[fd00::1]/sse" }, {}, /fd00/],
  ["what is no address", { url: "ftp://example.org" }, {}, /begins with https/],
  [
    "a sandbox without network",
    { url: "http://127.0.0.1:1/mcp" },
    { policy: async () => ({ mode: "none", allow: [], credentials: [] }) },
    /network of this sandbox is off/,
  ],
  [
    "an unknown name",
    { url: "https://example.org/?key=${NOBODY}" },
    {},
    /names \$\{NOBODY\}, and there is no secret of that name/,
  ],
  [
    "a secret that is for another host",
    { url: "https://example.org/mcp", headers: { "X-Key": "$API_KEY" } },
    { secrets: async () => [{ ...secret, hosts: ["api.example.com"] }] },
    /The secret API_KEY may not go to example\.org/,
  ],
] as [string, ServerSpec["server"], Partial<McpDeps>, RegExp][])(
  "%s is reported once in one sentence",
  async (_name, server, around, sentence) => {
    const servers = serversOf(around);
    const [note, ...others] = await servers.prepare([spec(server)], never);
    expect(others).toEqual([]);
    expect(note).toMatch(sentence);
    expect(note).not.toContain(value);
    expect(await servers.prepare([spec(server)], never)).toEqual([]);
  },
);

test("a plugin's server is reached and receives secrets only if the sandbox's policy allows it", async () => {
  const plugin = { from: "plugin" as const };
  const [refused] = await serversOf().prepare([spec({ url: remote.url }, plugin)], never);
  expect(refused).toMatch(
    /The network policy of this sandbox allows no connection to 127\.0\.0\.1:\d+: it would need a rule/,
  );
  const port = Number(new URL(remote.url).port);
  const policy = async () => ({
    mode: "allowlist" as const,
    allow: [{ host: "127.0.0.1", ports: [port], methods: null }],
    credentials: [],
    private: ["127.0.0.0/8"],
  });
  const servers = serversOf({ policy });
  expect(await servers.prepare([spec({ url: remote.url }, plugin)], never)).toEqual([]);
  const [kept] = await serversOf({ policy }).prepare(
    [spec({ url: remote.url, headers: { "X-Key": "$API_KEY" } }, plugin)],
    never,
  );
  expect(kept).toContain("The secret API_KEY may not go to 127.0.0.1");
});

test("a plugin's server reaches only what the proxy lets the sandbox reach, at every request", async () => {
  const plugin = { from: "plugin" as const };
  const { port } = new URL(remote.url);
  const refusalOf = async (policy: Partial<NetworkPolicy>, url = remote.url) => {
    const whole: NetworkPolicy = { mode: "open", allow: [], credentials: [], ...policy };
    return (await serversOf({ policy: async () => whole }).prepare([spec({ url }, plugin)], never)).join();
  };
  // The operator's own requests may go to loopback, those of the sandbox may not.
  expect(await serversOf().prepare([spec({ url: remote.url })], never)).toEqual([]);
  expect(await refusalOf({})).toContain("127.0.0.1 is a private or reserved address");
  expect(await refusalOf({}, `http://localhost:${port}/mcp`)).toContain("localhost is a private");
  expect(await refusalOf({}, `http://[::ffff:127.0.0.1]:${port}/mcp`)).toContain("is a private");
  expect(await refusalOf({ private: ["10.0.0.0/8"] })).toContain("is a private or reserved address");
  expect(await refusalOf({ private: ["127.0.0.0/8"] })).toBe("");
  expect(await refusalOf({ mode: "none" })).toContain("The network of this sandbox is off.");
  const rule = { host: "127.0.0.1", ports: [Number(port)], methods: ["POST"] };
  const [get] = await Promise.all([
    serversOf({
      policy: async () => ({ mode: "allowlist", allow: [rule], credentials: [], private: ["127.0.0.0/8"] }),
    }).prepare([spec({ url: remote.url, transport: "sse" }, plugin)], never),
  ]);
  expect(get.join()).toContain("does not allow GET to 127.0.0.1");
});

test("a trace goes along to the servers of the user's configuration, and to no plugin's", async () => {
  const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "a=b" };
  const policy = async (): Promise<NetworkPolicy> => ({
    ...{ mode: "open", allow: [], credentials: [] },
    private: ["127.0.0.0/8"],
  });
  const tracesOf = async (more: Partial<ServerSpec>) => {
    const mark = more.from ?? "user";
    const servers = serversOf({ trace, policy });
    const server = { url: remote.url, headers: { "x-mark": mark } };
    expect(await servers.prepare([spec(server, more)], never)).toEqual([]);
    return remote.seen
      .filter((headers) => headers["x-mark"] === mark)
      .map(({ traceparent, tracestate }) => ({ traceparent, tracestate }));
  };
  const own = await tracesOf({});
  expect(own.length).toBeGreaterThan(1);
  for (const one of own) expect(one).toEqual(trace);
  for (const one of await tracesOf({ from: "plugin" })) expect(one).toEqual({});
});

test("a configuration without permission gets no secret, in its address, headers or login", async () => {
  const withheld = "The repository was not accepted.";
  const policy = async (): Promise<NetworkPolicy> => ({
    mode: "open",
    allow: [],
    credentials: [],
    private: ["127.0.0.0/8"],
  });
  const given = { from: "plugin" as const, withheld };
  const refusalOf = async (server: ServerSpec["server"]) =>
    (await serversOf({ policy }).prepare([spec(server, given)], never)).join();
  for (const server of [
    { url: `${remote.url}?key=\${API_KEY}` },
    { url: remote.url, headers: { a: "$API_KEY" } },
    { url: remote.url, headers: { a: "${API_KEY:-none}" } },
    { url: remote.url, auth: { strategy: "bearer" as const, value: "${API_KEY}" } },
    { url: remote.url, auth: { strategy: "basic" as const, username: "$API_KEY", password: "x" } },
    { url: remote.url, auth: { strategy: "header" as const, headers: { a: "$API_KEY" } } },
  ])
    expect(await refusalOf(server), JSON.stringify(server)).toContain(withheld);
  expect(await refusalOf({ url: remote.url })).toBe("");
});

test.each([
  [
    "refuses",
    (_request: unknown, response: any) => response.writeHead(401).end(`no: ${value}`),
    /It refused the credentials \(401\): no: <secret-hidden>; check its headers/,
  ],
  [
    "is no MCP server",
    (_request: unknown, response: any) => response.end("<html>hello</html>"),
    /content type/,
  ],
  [
    "answers nonsense",
    (_request: unknown, response: any) =>
      response.setHeader("content-type", "application/json").end('{"jsonrpc":"2.0","id":0,"result":7}'),
    /protocol does not allow/,
  ],
  [
    "sends one message without end",
    (_request: unknown, response: any) => {
      response.setHeader("content-type", "text/event-stream");
      const write = () =>
        response.write(`data: ${"x".repeat(100_000)}`, () => !response.destroyed && setImmediate(write));
      write();
    },
    /It sent a message of more than 8 MB/,
  ],
  ["is a dead end", (request: any) => request.socket.destroy(), /could not be reached/],
] as [string, RequestListener, RegExp][])(
  "a server that %s is reported, without the request's content",
  async (_name, handler, sentence) => {
    const url = await listen(handler);
    const servers = serversOf();
    const [note] = await servers.prepare(
      [spec({ url, transport: "http", headers: { "X-Key": "${API_KEY}" } })],
      never,
    );
    expect(note).toMatch(sentence);
    expect(note).not.toContain(value);
    expect(note!.length).toBeLessThan(800);
  },
);

test("thousands of tools, or constantly changing ones, are limited to the size of a prompt", async () => {
  let lists = 0;
  const url = await listen(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (request.method !== "POST") return void response.writeHead(405).end();
    const { id, method } = JSON.parse(text);
    if (id === undefined) return void response.writeHead(202).end();
    response.setHeader("content-type", "text/event-stream");
    const send = (message: object) =>
      response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`);
    if (method === "initialize")
      send({
        id,
        result: {
          protocolVersion: "2025-06-18",
          capabilities: { tools: {} },
          serverInfo: { name: "many", version: "1" },
        },
      });
    else {
      lists += 1;
      for (let n = 0; n < 20; n++) send({ method: "notifications/tools/list_changed" });
      const tools = Array.from({ length: 3_000 }, (_, n) => ({
        name: `t${n}`,
        description: "d".repeat(1_000),
        inputSchema: { type: "object" },
      }));
      send({ id, result: { tools, nextCursor: `more${lists}` } });
    }
    response.end();
  });
  const servers = serversOf();
  const notes = await servers.prepare([spec({ url, transport: "http" })], never);
  expect(notes).toEqual([
    "The MCP server remote has too many tools: the first 200 are taken.",
    "The MCP servers have 200 tools together: 100 of them can be used, the others are left out.",
  ]);
  expect(names(servers)).toHaveLength(100);
  await until(() => lists >= 5);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(lists).toBeLessThan(10);
});

test("tool descriptions hide secrets of the configuration, however they are written or cut", async () => {
  const encoded = Buffer.from(`user:${value}`).toString("base64");
  const split = [...value].join("\u200b");
  const tools = [
    {
      name: "leak",
      description: `${"x".repeat(3_995)}${value}`,
      inputSchema: {
        type: "object",
        description: value,
        properties: {
          [value]: { type: "string" },
          key: { description: `${split} ${encoded}`, enum: [value, "other"] },
        },
      },
    },
    { name: value, inputSchema: { type: "object" } },
  ];
  const url = await listen(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { id, method, params } = JSON.parse(body || "{}");
    if (id === undefined) return void response.writeHead(202).end();
    const greeting = {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: value, version: "1" },
    };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify({ jsonrpc: "2.0", id, result: method === "initialize" ? greeting : { tools } }),
    );
  });
  const servers = serversOf();
  expect(
    await servers.prepare([spec({ url, headers: { Authorization: "Bearer ${API_KEY}" } })], never),
  ).toEqual([]);
  expect(names(servers)).toEqual(["leak"]);
  const [{ description, parameters, definition } = {} as Tool] = servers.tools(new Set());
  expect(parameters).toMatchObject({ properties: { key: { enum: ["<secret-hidden>", "other"] } } });
  const said = JSON.stringify([description, parameters, definition]);
  for (const part of [value, value.slice(0, 6), encoded.slice(8, 24)]) expect(said).not.toContain(part);
});
