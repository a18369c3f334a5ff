import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";

let server: TestServer;
let own: { id: string; sessionKey: string };
let strangers: { id: string; sessionKey: string };

beforeAll(async () => {
  server = await startServer();
  own = server.addSandbox();
  strangers = server.addSandbox({ userId: "stranger" });
});
afterAll(() => server.close());

const call = async (
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  caller = own.sessionKey,
) => read(server.call(method, path, { body, key: caller, headers }));
const expose = (how: string) => ({ "x-expose-secrets": how });
const get = (headers?: Record<string, string>) => call("GET", "/api/settings", undefined, headers);

test("without a configured model, clients read the name of their default", async () => {
  expect((await get()).body).toMatchObject({
    agent_settings: { llm: { model: "gpt-5.5", api_key: null } },
    llm_api_key_is_set: false,
  });
  await call("PATCH", "/api/settings", { agent_settings_diff: { llm: { model: "", api_key: "" } } });
  expect((await get()).body.agent_settings.llm.model).toBe("gpt-5.5");
  const { resolved_settings } = (await call("POST", "/api/agent-profiles/default/materialize", {})).body;
  expect(resolved_settings.llm.model).toBe("gpt-5.5");
  expect((await server.settings.model("default")).model).toBeFalsy();
});

test("settings are changed field by field, and read masked, plain or encrypted", async () => {
  const changed = await call("PATCH", "/api/settings", {
    agent_settings_diff: {
      llm: { model: "openai/gpt-5", api_key: "sk-very-secret", base_url: "https://llm.example/v1" },
      mcp_config: {
        one: { url: "https://one.example/mcp", headers: { Authorization: "Bearer hush" } },
        two: { command: "npx" },
      },
    },
    conversation_settings_diff: { max_iterations: 7 },
    misc_settings_diff: { gui: { theme: "dark", zoom: 2 } },
  });
  expect(changed.status).toBe(200);
  expect(changed.body).toMatchObject({
    llm_api_key_is_set: true,
    active_profile: null,
    misc_settings: { gui: { theme: "dark", zoom: 2 } },
    conversation_settings: { max_iterations: 7 },
  });
  expect(changed.body.agent_settings.llm).toMatchObject({
    model: "openai/gpt-5",
    api_key: "**********",
    aws_access_key_id: null,
  });
  expect(changed.body.agent_settings.mcp_config.one.headers).toEqual({ Authorization: "**********" });

  const plain = (await get(expose("plaintext"))).body.agent_settings;
  expect([plain.llm.api_key, plain.mcp_config.one.headers.Authorization]).toEqual([
    "sk-very-secret",
    "Bearer hush",
  ]);
  const sealed = (await get(expose("encrypted"))).body.agent_settings;
  expect(JSON.stringify(sealed)).not.toMatch(/very-secret|hush/);
  expect(sealed.llm.api_key).not.toBe((await get(expose("encrypted"))).body.agent_settings.llm.api_key);

  // Masked and encrypted values can be sent back; null deletes, and absent fields stay.
  const sent = { llm: { ...sealed.llm, model: "openai/gpt-5-mini" }, mcp_config: { two: null } };
  await call("PATCH", "/api/settings", {
    agent_settings_diff: sent,
    misc_settings_diff: { gui: { theme: null } },
  });
  await call("PATCH", "/api/settings", { agent_settings_diff: { llm: { api_key: "**********" } } });
  const after = (await get(expose("plaintext"))).body;
  expect(after.agent_settings.llm).toMatchObject({ model: "openai/gpt-5-mini", api_key: "sk-very-secret" });
  expect(after.agent_settings.mcp_config).toEqual({ one: plain.mcp_config.one });
  expect(after.misc_settings).toEqual({ gui: { zoom: 2 } });
  // The platform's own routes show the same document.
  expect((await read(server.call("GET", "/api/settings"))).body).toMatchObject({
    llm_model: "openai/gpt-5-mini",
    llm_api_key: null,
  });
});

test("MCP servers are added, changed and removed one by one", async () => {
  const path = "/api/settings/mcp/files";
  const added = await call("POST", path, {
    url: "https://files.example/mcp",
    auth: { strategy: "bearer", value: "t0ken" },
  });
  expect(added.status).toBe(201);
  expect(added.body.agent_settings.mcp_config.files.auth).toEqual({
    strategy: "bearer",
    value: "**********",
  });
  expect(await call("POST", path, { command: "npx" })).toMatchObject({
    status: 409,
    body: { detail: expect.any(String) },
  });
  const changed = await call("PATCH", path, { description: "Files", headers: { "X-A": "a", "X-B": "b" } });
  expect(changed.body.agent_settings.mcp_config.files).toMatchObject({
    description: "Files",
    url: "https://files.example/mcp",
  });
  await call("PATCH", path, { headers: { "X-A": null }, auth: { strategy: "bearer", value: "**********" } });
  const { files } = (await get(expose("plaintext"))).body.agent_settings.mcp_config;
  expect(files).toMatchObject({ headers: { "X-B": "b" }, auth: { strategy: "bearer", value: "t0ken" } });
  expect((await call("PATCH", path, { url: null })).status).toBe(422);
  expect((await call("PATCH", path, { command: "npx", url: "https://files.example/mcp" })).status).toBe(422);
  const became = (await call("PATCH", path, { command: "npx" })).body.agent_settings.mcp_config.files;
  expect([became.command, became.url]).toEqual(["npx", undefined]);
  expect((await call("DELETE", path)).body.agent_settings.mcp_config).not.toHaveProperty("files");
  for (const method of ["PATCH", "DELETE"]) {
    expect([method, (await call(method, path, method === "PATCH" ? {} : undefined)).status]).toEqual([
      method,
      404,
    ]);
  }
});

test("invalid changes get a readable error and change nothing", async () => {
  const before = (await get()).body;
  const other = (await call("GET", "/api/settings", undefined, expose("encrypted"), strangers.sessionKey))
    .body;
  expect(other.llm_api_key_is_set).toBe(false);
  const foreign = "gAAAAAsealed-v1-".padEnd(80, "A");
  for (const [status, body] of [
    [400, {}],
    [422, { unknown: 1 }],
    [422, { agent_settings_diff: "x" }],
    [422, { agent_settings_diff: { llm: { num_retries: -1 } } }],
    [422, { agent_settings_diff: { llm: { api_key: foreign } } }],
    [422, { agent_settings_diff: { mcp_config: { x: {} } } }],
    [422, { agent_settings_diff: { mcp_config: { "": { command: "x" } } } }],
    [422, { conversation_settings_diff: { max_iterations: 0 } }],
    [422, { active_profile: "none-such" }],
    [422, { active_agent_profile_id: "none-such" }],
    [422, { misc_settings_diff: [] }],
  ] as const) {
    const answer = await call("PATCH", "/api/settings", body);
    expect([body, answer.status]).toEqual([body, status]);
    expect(answer.body.detail.length).toBeGreaterThan(0);
  }
  expect((await get(expose("please"))).status).toBe(422);
  expect((await get()).body).toEqual(before);
});

test("a user's stored settings are limited", async () => {
  const caller = strangers.sessionKey;
  const folders = (first: number, count: number) =>
    Array.from({ length: count }, (_, index) => ({
      id: `${first + index}`,
      name: "n",
      path: `/w/${first + index}`,
    }));
  const add = (workspaces: object[]) => call("POST", "/api/workspaces", { workspaces }, {}, caller);
  expect((await add(folders(0, 201))).status).toBe(422);
  expect((await add(folders(0, 200))).status).toBe(200);
  expect((await add(folders(200, 1))).status).toBe(422);
  expect((await add(folders(199, 1))).body.workspaces).toHaveLength(200);
  expect((await call("GET", "/api/workspaces")).body.workspaces).toEqual([]);

  const servers = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [`s${index}`, { command: "x" }]),
  );
  const patch = (body: object) => call("PATCH", "/api/settings", body, {}, caller);
  expect((await patch({ agent_settings_diff: { mcp_config: servers } })).status).toBe(200);
  expect((await call("POST", "/api/settings/mcp/more", { command: "x" }, {}, caller)).status).toBe(422);
  expect((await patch({ agent_settings_diff: { mcp_config: { more: { command: "x" } } } })).status).toBe(422);
  expect(
    (await patch({ agent_settings_diff: { mcp_config: { s0: null, more: { command: "x" } } } })).status,
  ).toBe(200);
  for (const part of ["a", "b", "c"]) await patch({ misc_settings_diff: { [part]: "x".repeat(700_000) } });
  const { body } = await call("GET", "/api/settings", undefined, {}, caller);
  expect(Object.keys(body.misc_settings)).toEqual(["a", "b"]);
  await patch({ misc_settings_diff: { a: null, b: null }, agent_settings_diff: { mcp_config: null } });
});

test("an MCP server that does not respond is reported, whatever its timeout", async () => {
  const server = { type: "sse", url: "http://127.0.0.1:9/mcp" };
  for (const timeout of [0.00012, 3])
    expect(await call("POST", "/api/mcp/test", { server, timeout })).toMatchObject({
      status: 200,
      body: { ok: false },
    });
  const { url } = server;
  for (const form of [{ transport: "http", url }, { transport: "sse", url, description: null }, { url }])
    expect((await call("POST", "/api/mcp/test", { server: form })).body).toMatchObject({
      ok: false,
      error_kind: "connection",
    });
  for (const timeout of [0, 121, "x"])
    expect((await call("POST", "/api/mcp/test", { server, timeout })).status).toBe(422);
});

test("an encrypted secret opens only for its user and only unmodified", async () => {
  const { llm } = (await get(expose("encrypted"))).body.agent_settings;
  const patch = (api_key: string, caller: string) =>
    call("PATCH", "/api/settings", { agent_settings_diff: { llm: { api_key } } }, {}, caller);
  expect((await patch(llm.api_key, strangers.sessionKey)).status).toBe(422);
  expect((await patch(`${llm.api_key.slice(0, -4)}AAAA`, own.sessionKey)).status).toBe(422);
  expect((await patch(llm.api_key, own.sessionKey)).status).toBe(200);
  expect((await server.settings.model("default")).apiKey).toBe("sk-very-secret");
});

test("secrets are stored, listed by name, read as text and deleted", async () => {
  const put = (body: object) => call("PUT", "/api/settings/secrets", body);
  expect(await put({ name: "DEPLOY", value: "v1", description: "to deploy" })).toEqual({
    status: 200,
    body: { name: "DEPLOY", description: "to deploy" },
  });
  expect((await put({ name: "DEPLOY", value: "v2" })).body).toEqual({
    name: "DEPLOY",
    description: "to deploy",
  });
  expect((await call("GET", "/api/settings/secrets")).body).toEqual({
    secrets: [{ name: "DEPLOY", description: "to deploy" }],
  });
  const value = await server.call("GET", "/api/settings/secrets/DEPLOY", { key: own.sessionKey });
  expect([value.headers.get("content-type"), value.headers.get("cache-control"), await value.text()]).toEqual(
    ["text/plain; charset=utf-8", "no-store", "v2"],
  );
  for (const name of ["1BAD", "", "PATH", "a b"])
    expect([name, (await put({ name, value: "x" })).status]).toEqual([name, 422]);
  expect(
    (await call("GET", "/api/settings/secrets/DEPLOY", undefined, {}, strangers.sessionKey)).status,
  ).toBe(404);
  expect((await call("DELETE", "/api/settings/secrets/DEPLOY")).body).toEqual({ deleted: true });
  for (const method of ["GET", "DELETE"])
    expect((await call(method, "/api/settings/secrets/DEPLOY")).status).toBe(404);
});

test("below a sandbox a user's key reads the same settings, a read-only key without secrets; elsewhere these routes do not exist", async () => {
  const below = (path: string, caller: string, headers = {}) =>
    read(server.call("GET", `/agent/${own.id}${path}`, { key: caller, headers }));
  const { key: reader } = await server.apiKeys.add("default", {
    name: "reader",
    readOnly: true,
    expiresAt: null,
  });
  await call("PUT", "/api/settings/secrets", { name: "HIDDEN", value: "v" });
  await call("PATCH", "/api/settings", { agent_settings_diff: { llm: { api_key: "sk-very-secret" } } });
  expect((await below("/api/settings", key, expose("plaintext"))).body.agent_settings.llm.api_key).toBe(
    "sk-very-secret",
  );
  expect((await below("/api/settings", reader)).body.agent_settings.llm.api_key).toBe("**********");
  for (const how of ["plaintext", "encrypted"])
    expect((await below("/api/settings", reader, expose(how))).status).toBe(403);
  expect((await below("/api/settings/secrets/HIDDEN", reader)).status).toBe(403);
  expect((await below("/api/settings", strangerKey)).status).toBe(404);
  expect((await below("/api/settings", strangers.sessionKey)).status).toBe(401);
  for (const path of ["/api/profiles", "/api/settings/secrets", "/api/settings/agent-schema"])
    expect([path, (await call("GET", path, undefined, {}, key)).status]).toEqual([path, 404]);
});

test("pages of other origins on this machine and configured ones may call, below the prefix too", async () => {
  const preflight = (origin: string) =>
    fetch(`${server.url}/agent/${own.id}/api/settings`, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "PATCH",
        "access-control-request-headers": "x-session-api-key,x-expose-secrets",
      },
    });
  for (const origin of ["http://localhost:3001", "http://127.0.0.1:8080", "https://gui.example"]) {
    const { status, headers } = await preflight(origin);
    expect([status, headers.get("access-control-allow-origin")]).toEqual([204, origin]);
    expect(headers.get("access-control-allow-credentials")).toBe("true");
    expect(headers.get("access-control-allow-methods")).toContain("PATCH");
    expect(headers.get("access-control-allow-headers")).toContain("x-expose-secrets");
  }
  expect((await preflight("https://elsewhere.example")).headers.get("access-control-allow-origin")).toBe(
    null,
  );
});
