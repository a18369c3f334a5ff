import type { Server } from "node:http";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { openGate } from "@sandpiper/core/test/support/gate";
import { until } from "@sandpiper/core/test/support/until";
import type { SandboxSecret } from "@sandpiper/sandbox/network/sandbox-secret";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type RemoteMcp, startRemoteMcp } from "../../test/support/remote-mcp.ts";
import type { ToolContext } from "../tools/tool.ts";
import { type McpDeps, sessionOpener } from "./open-session.ts";
import { PolicedOutbounds } from "./policed-outbound.ts";
import { callTimeout, getMaxSilence, openTimeout, type ServerSpec } from "./server-spec.ts";
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

test.each(["url", "sseUrl"] as const)("a list that changes is read again: %s", async (which) => {
  const servers = serversOf();
  await servers.prepare([spec({ url: remote[which] })], never);
  const name = `late_${which}`;
  // The stream for server messages is opened concurrently with the greeting.
  await until(() => remote.seen.length > 0);
  for (;;) {
    await remote.addTool(name);
    if (names(servers).includes(name)) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
    if (names(servers).includes(name)) break;
  }
  expect(await call(servers, name)).toContain(name);
});

test("a restarted server gets a new session, and the call is made once", async () => {
  const servers = serversOf();
  await servers.prepare([spec({ url: remote.url, transport: "http" })], never);
  remote.forget();
  const before = remote.calls.length;
  expect(await call(servers, "greet")).toContain("greet");
  expect(remote.calls.slice(before)).toEqual(["greet"]);
});

test("an interrupted response ends the call at once, and the next call works", async () => {
  const servers = serversOf();
  await servers.prepare([spec({ url: remote.url, transport: "http" })], never);
  expect(await call(servers, "cut")).toMatch(
    /The MCP server remote failed: The server ended its answer before the result\. What the call did is unknown\.$/,
  );
  expect(await call(servers, "greet")).toContain("greet");
  const older = serversOf();
  await older.prepare([spec({ url: remote.sseUrl, transport: "sse" })], never);
  const pending = call(older, "cut").catch(String);
  await until(() => remote.calls.at(-1) === "cut");
  remote.dropStreams();
  expect(await pending).toMatch(
    /The server ended the connection\. What the call did is unknown; the next one connects again\./,
  );
  expect(await call(older, "greet")).toContain("greet");
});

test("configured times are limited", () => {
  const read = (server: ServerSpec["server"]) => [
    openTimeout(server),
    callTimeout(server),
    getMaxSilence(server),
  ];
  expect(read({ url: "x" })).toEqual([30_000, 300_000, undefined]);
  expect(read({ url: "x", timeout: 60, sse_read_timeout: 5 })).toEqual([60_000, 60_000, 5_000]);
  expect(read({ url: "x", timeout: null, sse_read_timeout: 900 })).toEqual([30_000, 900_000, 900_000]);
  expect(read({ url: "x", timeout: 1e9, sse_read_timeout: 1e9 })).toEqual([180_000, 3_600_000, 3_600_000]);
  expect(read({ command: "x", timeout: 1e-9 })).toEqual([180_000, 1, undefined]);
});

test("a server that sends messages endlessly is cut off", async () => {
  const servers = serversOf();
  await servers.prepare([spec({ url: remote.url, transport: "http" })], never);
  expect(await call(servers, "flood")).toMatch(
    /It sent messages without end, so the connection was cut\. What the call did is unknown/,
  );
  expect(await call(servers, "greet")).toContain("greet");
});

test("a server that fails at the start of a run is retried during the run, but not afterwards", async () => {
  const gate = await openGate(remote.url);
  await gate.close();
  const servers = serversOf();
  const url = `${gate.url}${new URL(remote.url).pathname}`;
  expect(await servers.prepare([spec({ url, transport: "http" })], never)).toEqual([
    expect.stringContaining("cannot be reached"),
  ]);
  servers.close({ all: true });
  await gate.open();
  for (let count = 0; count < 20; count++) expect(names(servers)).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(names(servers)).toEqual([]);
  await gate.close();
  await servers.prepare([spec({ url, transport: "http" })], never);
  await gate.open();
  await until(() => names(servers).includes("greet"));
  await gate.close();
});

test("an interrupt ends a call", async () => {
  const servers = serversOf();
  await servers.prepare([spec({ url: remote.url, transport: "http" })], never);
  const abort = new AbortController();
  const pending = call(servers, "cut", {}, abort.signal).catch((error) => error);
  abort.abort("interrupt");
  expect(await pending).toBe("interrupt");
});
