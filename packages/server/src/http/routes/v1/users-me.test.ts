import { UserInfo } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const me = (query = "", headers: Record<string, string> = {}) =>
  read(
    server.call("GET", `/api/v1/users/me${query}`, {
      key: null,
      headers: { authorization: `Bearer ${key}`, ...headers },
    }),
  );
const exposed = (sessionKey?: string) =>
  me("?expose_secrets=true", sessionKey === undefined ? {} : { "x-session-api-key": sessionKey });

test("a user without settings reads defaults, the implicit user has no id", async () => {
  const { status, body } = await me();
  expect(status).toBe(200);
  expect([...Value.Errors(UserInfo, body)]).toEqual([]);
  expect(body).toMatchObject({
    id: null,
    llm_model: null,
    llm_api_key: null,
    mcp_config: { sse_servers: [], stdio_servers: [], shttp_servers: [] },
  });
  const other = await read(server.call("GET", "/api/v1/users/me", { key: strangerKey }));
  expect(other.body.id).toBe("stranger");
});

test("the response has flat and nested settings, and secrets only for the user's sandboxes", async () => {
  const servers = {
    search: { url: "https://s.example/mcp", auth: { strategy: "bearer", value: "planted-mcp" } },
    off: { url: "https://off.example", enabled: false },
    tool: { command: "npx", args: ["-y"], env: { TOKEN: "planted-env" } },
  };
  const diff = {
    agent_settings_diff: {
      llm: { model: "openai/gpt-x", api_key: "planted-key", base_url: "https://p.example/v1" },
      mcp_config: servers,
    },
  };
  await server.call("POST", "/api/v1/settings", { body: { ...diff, search_api_key: "planted-search" } });
  await server.call("POST", "/api/v1/settings/profiles/fast", {
    body: { llm: { model: "m", api_key: "planted-profile" } },
  });

  const plain = await me();
  expect(JSON.stringify(plain.body)).not.toContain("planted");
  expect(plain.body).toMatchObject({
    llm_model: "openai/gpt-x",
    llm_api_key: null,
    llm_base_url: "https://p.example/v1",
    llm_api_key_set: true,
    mcp_config: {
      sse_servers: [],
      shttp_servers: [{ url: "https://s.example/mcp", api_key: "**********" }],
      stdio_servers: [{ name: "tool", command: "npx", args: ["-y"], env: { TOKEN: "**********" } }],
    },
  });

  const own = server.addSandbox();
  const { status, body } = await exposed(own.sessionKey);
  expect(status).toBe(200);
  expect([...Value.Errors(UserInfo, body)]).toEqual([]);
  expect(body).toMatchObject({
    llm_api_key: "planted-key",
    search_api_key: "planted-search",
    agent_settings: { llm: { api_key: "planted-key" }, mcp_config: servers },
    llm_profiles: { profiles: { fast: { model: "m", api_key: "planted-profile" } } },
    mcp_config: { shttp_servers: [{ url: "https://s.example/mcp", api_key: "planted-mcp" }] },
  });
});

test("secrets are not shown to other callers", async () => {
  const refused = async (answer: ReturnType<typeof exposed>, status: number) => {
    const { status: given, body } = await answer;
    expect(given).toBe(status);
    expect(JSON.stringify(body)).not.toContain("planted");
  };
  const own = server.addSandbox();
  const paused = server.addSandbox({ status: "PAUSED" });
  const foreign = server.addSandbox({ userId: "stranger" });
  await refused(exposed(), 401);
  await refused(exposed("unknown-session-key"), 401);
  await refused(exposed(key), 401);
  await refused(exposed(paused.sessionKey), 401);
  await refused(exposed(foreign.sessionKey), 403);
  // A sandbox's key alone does not stand for a user.
  const alone = { key: own.sessionKey };
  await refused(read(server.call("GET", "/api/v1/users/me?expose_secrets=true", alone)), 401);
  await refused(read(server.call("GET", "/api/v1/users/me", alone)), 401);
  await refused(me("?expose_secrets=maybe"), 422);
});
