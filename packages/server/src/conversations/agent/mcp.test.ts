import { type RemoteMcp, startRemoteMcp } from "@sandpiper/agent/test/support/remote-mcp";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { stub } from "@sandpiper/core/test/support/stub";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../../../test/support/platform.ts";
import { emptyConfig } from "../../store/empty-config.ts";
import { McpTools } from "./mcp.ts";
import { McpSessions } from "./mcp-sessions.ts";

const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"] });
const row = { id: "c", userId: "u", sandboxId: "s", config: emptyConfig("/w") };
const never = new AbortController().signal;

let remote: RemoteMcp;

beforeAll(async () => {
  remote = await startRemoteMcp();
});

afterAll(async () => {
  await remote.close();
  await outbound.close();
});

test("servers that were prepared for a message stay connected for a while, and for a following run", async () => {
  const mcp = new McpTools({
    agents: { clientAgent: async () => undefined, tools: async () => [] },
    findServers: async () => [{ name: "remote", server: { url: remote.url }, from: "user" }],
    sessions: new McpSessions({
      sandboxes: {
        get: async () => stub({}),
        getSpec: () => stub({ network: { mode: "allowlist", allow: [], credentials: [] } }),
      },
      secrets: { forSandbox: async () => [] },
      outbound,
      sandbox: () => Promise.reject(new Error("There is no sandbox here.")),
    }),
    lingerMs: 50,
  });
  try {
    await mcp.prepare(row, never);
    mcp.linger(row.id);
    await mcp.prepare(row, never);
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect([remote.sessions(), (await mcp.tools(row)).length > 0]).toEqual([1, true]);
    mcp.linger(row.id);
    await until(() => remote.sessions() === 0);
    expect(await mcp.tools(row)).toEqual([]);
  } finally {
    mcp.close();
  }
});
