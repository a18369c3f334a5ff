import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";
import { agentPreferences } from "../../../conversations/agent/agent-preferences.ts";
import { planStart } from "../../../conversations/start/start-plan.ts";

let server: TestServer;
let own: { id: string; sessionKey: string };

beforeAll(async () => {
  server = await startServer();
  own = server.addSandbox();
});
afterAll(() => server.close());

const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
  read(server.call(method, path, { body, key: own.sessionKey, headers }));
const expose = (how: string) => ({ "x-expose-secrets": how });
const get = () => call("GET", "/api/settings");

test("LLM profiles are saved, read, renamed, activated and removed", async () => {
  const llm = { model: "openai/gpt-5", api_key: "sk-profile", some_field_of_tomorrow: true };
  expect(await call("POST", "/api/profiles/fast", { llm })).toEqual({
    status: 201,
    body: { name: "fast", message: "Profile 'fast' saved" },
  });
  await call("POST", "/api/profiles/bare", { llm, include_secrets: false });
  const { body } = await call("GET", "/api/profiles");
  const info = {
    model: "openai/gpt-5",
    base_url: null,
    provider_connection_id: null,
    provider_connection_broken: false,
  };
  expect(body).toEqual({
    profiles: [
      { name: "fast", api_key_set: true, ...info },
      { name: "bare", api_key_set: false, ...info },
    ],
    active_profile: null,
  });
  const config = async (headers = {}) =>
    (await call("GET", "/api/profiles/fast", undefined, headers)).body.config;
  expect((await config()).api_key).toBe("**********");
  expect((await config(expose("plaintext"))).api_key).toBe("sk-profile");
  const sealed = await config(expose("encrypted"));
  await call("POST", "/api/profiles/fast", { llm: { ...sealed, model: "openai/gpt-5-nano" } });
  expect(await config(expose("plaintext"))).toMatchObject({
    model: "openai/gpt-5-nano",
    api_key: "sk-profile",
  });
  expect((await call("POST", "/api/profiles/fast/rename", { new_name: "faster" })).body.name).toBe("faster");
  expect((await call("POST", "/api/profiles/faster/rename", { new_name: "bare" })).status).toBe(409);
  expect((await call("POST", "/api/profiles/faster/activate", {})).body).toMatchObject({
    name: "faster",
    llm_applied: true,
  });
  expect((await get()).body).toMatchObject({
    active_profile: "faster",
    agent_settings: { llm: { model: "openai/gpt-5-nano" } },
  });
  await call("PATCH", "/api/settings", { active_profile: "bare" });
  expect((await get()).body.active_profile).toBe("bare");
  await call("PATCH", "/api/settings", { active_profile: null });
  expect((await get()).body.active_profile).toBe(null);
  for (const name of ["faster", "bare", "bare"])
    expect((await call("DELETE", `/api/profiles/${name}`)).status).toBe(200);
  for (const path of ["GET /api/profiles/bare", "POST /api/profiles/bare/activate"]) {
    const [method, url] = path.split(" ") as [string, string];
    expect((await call(method, url, method === "POST" ? {} : undefined)).status).toBe(404);
  }
});

test("a model is verified before it is saved", async () => {
  const validate = async (llm: object) => (await call("POST", "/api/profiles/new/validate", { llm })).body;
  expect(await validate({ model: "openai/gpt-5", api_key: "sk" })).toEqual({ valid: true, error: null });
});

test("agent profiles are available to session keys", async () => {
  await call("POST", "/api/profiles/model", { llm: { model: "openai/gpt-5" } });
  expect((await call("POST", "/api/agent-profiles/coder", { llm_profile_ref: "model" })).status).toBe(201);
  const { profiles, active_agent_profile_id: initial } = (await call("GET", "/api/agent-profiles")).body;
  const id = profiles.find(({ name }: { name: string }) => name === "coder").id;
  expect((await get()).body.active_agent_profile_id).toBe(initial);
  expect((await call("POST", "/api/agent-profiles/coder/materialize", {})).body.valid).toBe(true);
  expect((await call("POST", `/api/agent-profiles/${id}/activate`, {})).body.id).toBe(id);
  expect((await get()).body.active_agent_profile_id).toBe(id);
  await call("PATCH", "/api/settings", { active_agent_profile_id: null });
  expect((await get()).body.active_agent_profile_id).toBe(initial);
  await call("DELETE", "/api/agent-profiles/coder");
});

/** Creates a conversation from an agent profile in a new sandbox of its own. */
async function launch(name: string, change: object) {
  const sandbox = server.addSandbox();
  const as = (method: string, path: string, body?: unknown) =>
    read(server.call(method, path, { body, key: sandbox.sessionKey! }));
  const saved = await as("POST", `/api/agent-profiles/${name}`, { llm_profile_ref: "model", ...change });
  expect(saved.status).toBe(201);
  const { id } = (await as("GET", `/api/agent-profiles/${name}`)).body.profile;
  const workspace = { working_dir: "/workspace/project" };
  const made = await as("POST", "/api/conversations", { workspace, agent_profile_id: id });
  return { id, sandbox, made, as };
}

test("only the secrets that a profile names reach its conversation, whatever becomes of the profile", async () => {
  const { secrets, store } = server;
  await call("POST", "/api/profiles/model", { llm: { model: "openai/gpt-5" } });
  for (const name of ["MINE", "OTHER"])
    await secrets.put("default", { name, value: `value-of-${name}` }, { replace: true });
  await secrets.setProviders("default", new Map([["github", { token: "ghp_0123456789", host: null }]]));
  const names = async (sandboxId: string) =>
    (await secrets.forSandbox("default", sandboxId)).map(({ name }) => name);
  const { id, sandbox, made, as } = await launch("scoped", { secret_refs: ["MINE", "GITHUB_TOKEN", "NONE"] });
  expect(made.status).toBe(201);
  expect(await names(sandbox.id)).toEqual(["github_token", "MINE"]);
  const listed = async (query = "") =>
    (await as("GET", `/api/settings/secrets${query}`)).body.secrets.map(({ name }: { name: string }) => name);
  expect(await listed()).toEqual(["github_token", "MINE"]);
  expect((await as("GET", "/api/settings/secrets/OTHER")).status).toBe(404);
  await as("POST", `/api/conversations/${made.body.id}/secrets`, { secrets: { OTHER: "given to it" } });
  expect(await names(sandbox.id)).toEqual(["github_token", "MINE", "OTHER"]);
  expect((await secrets.forSandbox("default", sandbox.id)).at(-1)).toMatchObject({ value: "given to it" });

  const fork = await as("POST", `/api/conversations/${made.body.id}/fork`, {});
  await as("DELETE", `/api/conversations/${made.body.id}`);
  expect(await names(sandbox.id)).toEqual(["github_token", "MINE", "OTHER"]);
  await as("DELETE", "/api/agent-profiles/scoped");
  expect((await store.conversations.get(fork.body.id))?.config.launchedProfile).toMatchObject({ id });
  await as("DELETE", `/api/conversations/${fork.body.id}`);
  expect(await names(sandbox.id)).toHaveLength(3);

  const none = await launch("bare", { secret_refs: [] });
  expect(await names(none.sandbox.id)).toEqual([]);
  expect(await names(server.addSandbox().id)).toHaveLength(3);
  const query = (profile: string) => call("GET", `/api/settings/secrets?agent_profile_id=${profile}`);
  expect((await query(none.id)).body.secrets).toEqual([]);
  const ofUser = (profile: string) =>
    call("GET", `/api/v1/sandboxes/${own.id}/settings/secrets?agent_profile_id=${profile}`);
  expect((await ofUser(none.id)).body.secrets).toEqual([]);
  expect((await ofUser("none")).status).toBe(404);
  expect((await query("00000000-0000-0000-0000-000000000000")).status).toBe(404);
  expect((await call("GET", "/server_info")).body.capabilities).toContain("profile_secret_scope_v1");
  const start = await planStart(server, "default", { agent_profile_id: none.id });
  expect(start.conversation.config.launchedProfile).toMatchObject({ secretRefs: [] });
});

test("a conversation has the tools and switches of its profile, and none with a missing reference", async () => {
  const { settings, store } = server;
  const { made } = await launch("tooled", {
    tools: [{ name: "terminal" }],
    enable_sub_agents: true,
    enable_switch_llm_tool: false,
    tool_concurrency_limit: 3,
    persona: "You are terse.",
    system_message_suffix: "Be kind.",
  });
  const row = (await store.conversations.get(made.body.id))!;
  expect(await agentPreferences(settings, row)).toEqual({
    tools: [{ name: "terminal" }],
    enableSubAgents: true,
    enableSwitchLlmTool: false,
    toolConcurrencyLimit: 3,
  });
  expect(row.config).toMatchObject({
    llmProfile: "model",
    systemMessageSuffix: "You are terse.\n\nBe kind.",
  });
  const other = (await store.conversations.get(await server.addConversation()))!;
  expect(await agentPreferences(settings, other)).toMatchObject({ tools: null, enableSwitchLlmTool: true });

  const broken = await launch("broken", { llm_profile_ref: "gone", mcp_server_refs: ["away"] });
  expect([broken.made.status, JSON.stringify(broken.made.body)]).toEqual([
    422,
    expect.stringContaining("names what does not exist: the LLM profile 'gone', the MCP server 'away'"),
  ]);
  await expect(planStart(server, "default", { agent_profile_id: broken.id })).rejects.toThrow("'gone'");
  const seeded = (await call("GET", "/api/agent-profiles")).body.profiles[0];
  const workspace = { working_dir: "/workspace/project" };
  const plain = await call("POST", "/api/conversations", { workspace, agent_profile_id: seeded.id });
  expect(plain.body.launched_agent_profile).toMatchObject({ agent_profile_id: seeded.id });
  expect((await store.conversations.get(plain.body.id))!.config.llmProfile).toBeUndefined();
});

test("the fifty-first profile is refused", async () => {
  for (const { name } of (await call("GET", "/api/agent-profiles")).body.profiles)
    await call("DELETE", `/api/agent-profiles/${name}`);
  await call("DELETE", "/api/profiles/model");
  const save = (name: string) => call("POST", `/api/profiles/${name}`, { llm: { model: "openai/gpt-5" } });
  for (let number = 0; number < 50; number++) expect((await save(`p${number}`)).status).toBe(201);
  expect((await save("p50")).status).toBe(409);
  expect((await save("p49")).status).toBe(201);
});
