import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { SettingsSchema, SettingsV1 } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
beforeEach(() => server.store.settings.change(defaultUser, () => ({})));
afterAll(() => server.close());

const base = "/api/v1/settings";
const get = (path = base, init = {}) => read(server.call("GET", path, init));
const post = (body: unknown, path = base, init = {}) => read(server.call("POST", path, { body, ...init }));

test("settings get 404 until something is stored, then every field has its default", async () => {
  const stranger = { key: strangerKey };
  expect(await get(base, stranger)).toEqual({
    status: 404,
    body: { error: "Settings not found", detail: "Settings not found" },
  });
  expect(await post({ language: "de" }, base, stranger)).toEqual({
    status: 200,
    body: { message: "Settings stored" },
  });
  const { status, body } = await get(base, stranger);
  expect(status).toBe(200);
  expect(Value.Check(SettingsV1, body)).toBe(true);
  expect(body).toMatchObject({
    language: "de",
    enable_sound_notifications: false,
    enable_proactive_conversation_starters: true,
    git_full_clone: false,
    sandbox_grouping_strategy: "NO_GROUPING",
    secrets_store: { provider_tokens: {} },
    conversation_settings: {
      schema_version: 1,
      max_iterations: 500,
      confirmation_mode: false,
      security_analyzer: "llm",
    },
    agent_settings: {
      schema_version: 5,
      agent_kind: "openhands",
      agent: "CodeActAgent",
      tools: null,
      mcp_config: {},
      condenser: {
        condenser_kind: "llm_summarizing",
        enabled: true,
        max_size: 240,
        max_tokens: null,
        keep_first: 2,
      },
      llm: {
        model: "",
        api_key: null,
        base_url: null,
        timeout: 300,
        num_retries: 5,
        reasoning_effort: "high",
      },
    },
    llm_profiles: { profiles: {}, active: null },
    provider_tokens_set: {},
    llm_api_key_set: false,
    search_api_key_set: false,
  });
  expect((await get()).body.language).toBeNull();
});

test("both versions read and write the same settings", async () => {
  const diff = {
    agent_settings_diff: { llm: { model: "openai/gpt-x", api_key: "sk-planted-1" } },
    conversation_settings_diff: { max_iterations: 9 },
  };
  expect((await post(diff)).status).toBe(200);
  expect((await get("/api/settings")).body).toMatchObject({
    llm_model: "openai/gpt-x",
    llm_api_key_set: true,
    max_iterations: 9,
  });
  await post({ llm_model: "openai/gpt-y" }, "/api/settings");
  const answer = await server.call("GET", base);
  const text = await answer.text();
  expect(JSON.parse(text)).toMatchObject({
    agent_settings: { llm: { model: "openai/gpt-y", api_key: null } },
    llm_api_key_set: true,
  });
  expect(text).not.toContain("sk-planted-1");
});

test("provider tokens show in both versions as soon as they are stored", async () => {
  await get("/api/settings");
  await server.secrets.setProviders(
    defaultUser,
    new Map([["github", { token: "ghp-planted", host: "git.example" }]]),
  );
  for (const path of [base, "/api/settings", "/api/v1/users/me"])
    expect((await get(path)).body.provider_tokens_set).toEqual({ github: "git.example" });
  await server.secrets.setProviders(defaultUser, new Map());
  expect((await get("/api/settings")).body.provider_tokens_set).toEqual({});
});

test("whole agent_settings and conversation_settings are refused and change nothing", async () => {
  const answer = await post({ language: "fr", agent_settings: { llm: {} }, conversation_settings: null });
  expect(answer.status).toBe(422);
  expect(answer.body).toMatchObject({
    keys: ["agent_settings", "conversation_settings"],
    error: expect.stringContaining("_diff"),
  });
  expect((await get()).body.language).toBeNull();
});

test("fields that only the server writes are ignored", async () => {
  const body = {
    secrets_store: { provider_tokens: { github: { token: "x" } } },
    llm_profiles: { profiles: { mine: {} }, active: "mine" },
    active_agent_profile_id: "x",
    active_agent_profile_revision: 3,
    llm_api_key_set: true,
    search_api_key_set: true,
    inherited_marketplaces: [{ name: "x", source: "y" }],
    provider_tokens_set: { github: null },
    agent_settings_diff: { schema_version: 99, llm: { is_subscription: true } },
  };
  const before = (await get()).body;
  expect((await post(body)).status).toBe(200);
  expect((await get()).body).toEqual(before);
});

test("values of wrong types and sizes are rejected with their location, not echoed, and change nothing", async () => {
  const before = (await get()).body;
  const wrong: [unknown, string][] = [
    [{ language: 5 }, "language"],
    [{ git_full_clone: "yes" }, "git_full_clone"],
    [{ user_version: 1.5 }, "user_version"],
    [{ max_budget_per_task: -1 }, "max_budget_per_task"],
    [{ disabled_skills: "se-cret" }, "disabled_skills"],
    [{ disabled_skills: [null] }, "disabled_skills"],
    [{ sandbox_grouping_strategy: "SOMEHOW" }, "sandbox_grouping_strategy"],
    [{ search_api_key: "x".repeat(20_000) }, "search_api_key"],
    [{ registered_marketplaces: [{ name: "x" }] }, "source"],
    [{ agent_settings_diff: [] }, "agent_settings_diff"],
    [{ agent_settings_diff: { llm: null } }, "llm"],
    [{ agent_settings_diff: { llm: { model: { "se-cret": 1 } } } }, "model"],
    [{ agent_settings_diff: { llm: { extra_headers: { a: 1 } } } }, "extra_headers"],
    [{ agent_settings_diff: { llm: { reasoning_effort: "se-cret" } } }, "reasoning_effort"],
    [{ agent_settings_diff: { agent_kind: "acp" } }, "agent_kind"],
    [{ agent_settings_diff: { condenser: { max_size: 19 } } }, "max_size"],
    [
      { agent_settings_diff: { mcp_config: { a: { url: "https://x", auth: { strategy: "se-cret" } } } } },
      "auth",
    ],
    [{ agent_settings_diff: { mcp_config: { a: { url: 5 } } } }, "url"],
    [{ agent_settings_diff: { mcp_config: { a: {} } } }, "needs either"],
    [{ conversation_settings_diff: { max_iterations: 0 } }, "max_iterations"],
    [{ conversation_settings_diff: { security_analyzer: "invariant" } }, "security_analyzer"],
    [[], "body"],
    ["text", "JSON"],
  ];
  for (const [body, place] of wrong) {
    const { status, body: answer } = await post(body);
    expect([JSON.stringify(body).slice(0, 80), status]).toEqual([JSON.stringify(body).slice(0, 80), 422]);
    expect(answer.error).toContain(place);
    expect(JSON.stringify(answer)).not.toContain("se-cret");
  }
  expect((await get()).body).toEqual(before);
});

test("a header or a variable that is posted as null is removed from its MCP server", async () => {
  const server = { url: "https://x.example/mcp", headers: { "X-Key": "planted-old", Accept: "text/plain" } };
  await post({ agent_settings_diff: { mcp_config: { a: server } } });
  const headers = { "X-Key": null, Authorization: "Bearer planted-new", Accept: "**********" };
  expect(
    (await post({ agent_settings_diff: { mcp_config: { a: { ...server, headers, env: { V: null } } } } }))
      .status,
  ).toBe(200);
  const shown = (await get()).body.agent_settings.mcp_config;
  expect(shown).toEqual({
    a: { url: server.url, headers: { Authorization: "**********", Accept: "**********" }, env: {} },
  });
});

test("MCP servers are replaced as a whole, and changed one by one where the released GUI does it", async () => {
  const servers = async () => (await get()).body.agent_settings.mcp_config;
  const change = async (mcp_config: object, headers: Record<string, string> = {}) => {
    expect((await post({ agent_settings_diff: { mcp_config } }, base, { headers })).status).toBe(200);
    return servers();
  };
  const gui = { "x-org-id": "default" };
  const a = { transport: "http", url: "https://a.example/mcp" };
  const b = { transport: "stdio", command: "npx", env: { TOKEN: "planted-token" } };
  await change({ old: { url: "https://old.example" } });
  expect(await change({ a })).toEqual({ a });
  expect(Object.keys(await change({ b }, gui))).toEqual(["a", "b"]);
  // An edit sends only the changes: secrets, other fields and other servers stay.
  expect(await change({ b: { transport: "stdio", command: "uvx", enabled: false } }, gui)).toEqual({
    a,
    b: { ...b, command: "uvx", enabled: false, env: { TOKEN: "**********" } },
  });
  expect(await change({ a: { transport: "stdio", command: "node" } }, gui)).toMatchObject({
    a: { command: "node" },
  });
  expect(await change({ a: null })).toEqual({ b: expect.objectContaining({ command: "uvx" }) });
  expect(await change({ b: null, c: a }, gui)).toEqual({ c: a });
  expect(await change({})).toEqual({});
});

test("the size of settings is limited", async () => {
  const chunk = Object.fromEntries(
    Array.from({ length: 900 }, (_, index) => [`key-${index}`, "x".repeat(1000)]),
  );
  const grow = (round: number) => {
    const body = Object.fromEntries(Object.entries(chunk).map(([key, value]) => [`${round}-${key}`, value]));
    return post({ agent_settings_diff: { llm: { litellm_extra_body: body } } });
  };
  const statuses = [(await grow(1)).status, (await grow(2)).status, (await grow(3)).status];
  expect(statuses).toEqual([200, 200, 422]);
});

test("fifty concurrent changes are all stored", async () => {
  const changes = Array.from({ length: 25 }, (_, index) => [
    post({ agent_settings_diff: { llm: { extra_headers: { [`h${index}`]: "value" } } } }),
    post({ mcp_config: null, [index % 2 ? "language" : "git_user_name"]: "Ann" }, "/api/settings"),
  ]).flat();
  expect(new Set((await Promise.all(changes)).map(({ status }) => status))).toEqual(new Set([200]));
  const { body } = await get();
  expect(Object.keys(body.agent_settings.llm.extra_headers)).toHaveLength(25);
  expect(body).toMatchObject({ language: "Ann", git_user_name: "Ann" });
});

test("the form schemas list every field with its type, default and section", async () => {
  const agent = (await get(`${base}/agent-schema`)).body;
  const conversation = (await get(`${base}/conversation-schema`)).body;
  for (const schema of [agent, conversation]) expect([...Value.Errors(SettingsSchema, schema)]).toEqual([]);
  expect(agent.model_name).toBe("AgentSettings");
  expect(agent.sections.map(({ key, variant }: Record<string, string>) => [key, variant])).toEqual([
    ["general", null],
    ["llm", "openhands"],
    ["agent_context", "openhands"],
    ["condenser", "openhands"],
    ["verification", "openhands"],
  ]);
  const fields = agent.sections.flatMap((section: { fields: { key: string }[] }) => section.fields);
  const field = (key: string) => fields.find((one: { key: string }) => one.key === key);
  expect(field("llm.api_key")).toMatchObject({
    label: "API Key",
    value_type: "string",
    secret: true,
    default: null,
    prominence: "critical",
  });
  expect(field("llm.reasoning_effort")).toMatchObject({
    default: "high",
    choices: expect.arrayContaining([{ value: "low", label: "low" }]),
  });
  expect(field("condenser.max_size")).toMatchObject({
    value_type: "integer",
    default: 240,
    depends_on: ["condenser.enabled"],
  });
  expect(field("agent")).toMatchObject({ section: "general", default: "CodeActAgent", variant: null });
  expect(
    conversation.sections.map(({ key, fields }: any) => [key, fields.map((one: any) => one.key)]),
  ).toEqual([
    ["general", ["max_iterations"]],
    ["verification", ["confirmation_mode", "security_analyzer"]],
  ]);
});

test("a stored MCP server is tested by name; its failure is a result, not an error", async () => {
  const mcp_config = { "a tool": { command: "npx" }, inside: { url: "http://127.0.0.1:1/mcp" } };
  await post({ agent_settings_diff: { mcp_config } });
  const missing = await post(undefined, `${base}/mcp/none/test`);
  expect(missing).toEqual({
    status: 404,
    body: { error: "MCP server not found", detail: "MCP server not found" },
  });
  expect(await post({}, `${base}/mcp/a%20tool/test`)).toMatchObject({
    status: 200,
    body: { ok: false, error_kind: "unknown" },
  });
  const inside = await post(undefined, `${base}/mcp/inside/test`);
  expect(inside).toMatchObject({
    status: 200,
    body: { ok: false, error: expect.stringContaining("127.0.0.1") },
  });
  expect((await post(undefined, `${base}/mcp/inside/test`, { key: strangerKey })).status).toBe(404);
  expect((await post(undefined, `${base}/mcp/constructor/test`)).status).toBe(404);
});

test("resetting settings responds 410", async () => {
  const text = "Reset settings functionality has been removed.";
  expect(await post({}, "/api/reset-settings")).toEqual({ status: 410, body: { error: text, detail: text } });
});

test("no plain secret is in the store or the log", async () => {
  await post({
    search_api_key: "planted-search",
    agent_settings_diff: {
      llm: { api_key: "planted-key" },
      mcp_config: { a: { command: "x", env: { T: "planted-env" } } },
    },
  });
  await post({ include_secrets: true }, `${base}/profiles/mine`);
  const files = ["sandpiper.db", "sandpiper.db-wal", "store.db", "store.db-wal"];
  let found = 0;
  for (const file of files) {
    const bytes = await readFile(join(server.config.dataDir, "store", file), "latin1").catch(() => undefined);
    if (bytes === undefined) continue;
    found++;
    expect(bytes).not.toContain("planted-");
  }
  expect(found).toBeGreaterThan(0);
  expect(server.logs.join("")).not.toContain("planted-");
});
