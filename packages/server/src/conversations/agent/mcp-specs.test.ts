import { invalid, stub } from "@sandpiper/core/test/support/stub";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { expect, test } from "vitest";
import { loadPluginServers } from "../project/plugin-servers.ts";
import { type McpSpecsDeps, parseServers, resolveServerSpecs } from "./mcp-specs.ts";

const row = stub<Parameters<typeof resolveServerSpecs>[1]>({ id: "one", userId: "ann", config: {} });
const stored = {
  kept: { url: "https://kept.example/mcp", headers: { "X-Key": "planted" } },
  off: { url: "https://off.example", enabled: false },
};

function sources(
  own: unknown,
  plugins: Record<string, unknown> = {},
  refs: string[] | null = null,
  { inside = [], withheld }: { inside?: string[]; withheld?: string } = {},
): McpSpecsDeps {
  return invalid<McpSpecsDeps>({
    agents: { clientAgent: async () => (own === undefined ? undefined : { agent: { mcp_config: own } }) },
    settings: {
      mcpServers: async () => stored,
      agentProfiles: { byId: async () => ({ mcp_server_refs: refs }) },
    },
    foundServers: async () => ({ servers: plugins, inside: new Set(inside) }),
    withheld: async () => withheld,
  });
}

test("enabled servers of the settings are joined by servers of plugins under unused names", async () => {
  const plugins = {
    kept: { command: "evil" },
    more: { command: "x", args: ["y"] },
    none: { args: ["no command"] },
  };
  expect(await resolveServerSpecs(sources(undefined, plugins), row)).toEqual([
    { name: "kept", server: stored.kept, from: "user" },
    { name: "more", server: { command: "x", args: ["y"] }, from: "plugin" },
  ]);
  const launched = stub<typeof row>({ ...row, config: { launchedProfile: { id: "p", revision: 1 } } });
  expect(await resolveServerSpecs(sources(undefined, {}, []), launched)).toEqual([]);
  expect(await resolveServerSpecs(sources(undefined, {}, ["kept"]), launched)).toHaveLength(1);
});

test("only servers from the sandbox lose their secrets before the user accepts them", async () => {
  const plugins = { ours: { command: "x" }, theirs: { command: "y" } };
  const more = { inside: ["kept", "theirs"], withheld: "Not accepted." };
  expect(
    (await resolveServerSpecs(sources(undefined, plugins, null, more), row)).map(({ name, withheld }) => [
      name,
      withheld,
    ]),
  ).toEqual([
    ["kept", undefined],
    ["ours", undefined],
    ["theirs", "Not accepted."],
  ]);
});

test("a client's agent has only its own servers; masked values come from the stored server of that name", async () => {
  expect(await resolveServerSpecs(sources({}), row)).toEqual([]);
  const own = { kept: { url: "https://kept.example/mcp", headers: { "X-Key": "**********" } } };
  expect(await resolveServerSpecs(sources(own), row)).toEqual([
    { name: "kept", server: stored.kept, from: "user" },
  ]);
});

test("configurations of other programs are accepted, and invalid servers omitted", () => {
  const given = {
    mcpServers: {
      remote: { type: "shttp", url: "https://a.example", auth: "a-token", disabled: "unknown field" },
      old: { type: "sse", url: "https://b.example", auth: "oauth" },
      bad: { command: 7 },
      worse: null,
    },
  };
  expect(parseServers(given, {})).toEqual({
    remote: {
      transport: "streamable-http",
      url: "https://a.example",
      auth: { strategy: "bearer", value: "a-token" },
    },
    old: { transport: "sse", url: "https://b.example" },
  });
});

test("plugin files are read in the sandbox with their folder filled in; invalid and endless files are reported", async () => {
  const { sandbox, remove } = await testSandbox();
  try {
    const script = `mkdir -p /tmp/a "/tmp/b c" /tmp/d /tmp/e
      echo '{"mcpServers":{"one":{"command":"\${CLAUDE_PLUGIN_ROOT}/run","env":{"A":"\${KEEP}"}}}}' > /tmp/a/.mcp.json
      echo '{"one":{"command":"second"},"two":{"url":"https://two.example"}}' > "/tmp/b c/.mcp.json"
      echo '{"three":' > /tmp/d/.mcp.json
      ln -s /dev/zero /tmp/e/.mcp.json`;
    await runToEnd(sandbox, { argv: ["sh", "-c", script], cwd: "/" });
    const folders = ["/tmp/a", "/tmp/b c", "/tmp/d", "/tmp/e", "/tmp/none"];
    const problems: string[] = [];
    expect(await loadPluginServers(sandbox, folders, (problem) => problems.push(problem))).toEqual({
      one: { command: "/tmp/a/run", env: { A: "${KEEP}" } },
      two: { url: "https://two.example" },
    });
    expect(problems).toEqual([
      expect.stringMatching(/^The MCP servers in \/tmp\/d\/\.mcp\.json are not used: .*\(line 2, column 1/),
      "The MCP servers in /tmp/e/.mcp.json are not used: the file is longer than 256 KiB.",
    ]);
  } finally {
    await remove();
  }
});
