import { AgentProfileDetail, AgentProfileDiagnostics } from "@sandpiper/wire";
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

const base = "/api/agent-profiles";
const get = (path = "", init = {}) => read(server.call("GET", base + path, init));
const post = (path: string, body?: unknown) => read(server.call("POST", base + path, { body }));
const saveLlm = () =>
  server.call("POST", "/api/v1/settings/profiles/fast", {
    body: { llm: { model: "openai/gpt-x", api_key: "sk-planted" } },
  });

test("a profile is saved, listed, read, changed and renamed; its id stays and its revision counts", async () => {
  expect(
    (
      await post("/review", {
        agent_kind: "openhands",
        llm_profile_ref: "fast",
        system_message_suffix: "Be brief.",
      })
    ).status,
  ).toBe(201);
  const { body } = await get("/review");
  expect([...Value.Errors(AgentProfileDetail, body)]).toEqual([]);
  const { id } = body.profile;
  expect(body.profile).toMatchObject({
    name: "review",
    revision: 0,
    llm_profile_ref: "fast",
    mcp_server_refs: null,
    condenser: { max_size: 240 },
  });
  await post("/review", {
    llm_profile_ref: "fast",
    id: "x",
    revision: 99,
    mcp_server_refs: ["a"],
    condenser: { max_size: 30 },
  });
  expect((await get("/review")).body.profile).toMatchObject({
    id,
    revision: 1,
    system_message_suffix: null,
    condenser: { max_size: 30, enabled: true },
  });
  expect((await post("/review/rename", { new_name: "judge" })).body).toMatchObject({ name: "judge" });
  expect((await get()).body.profiles).toEqual([
    expect.objectContaining({ name: "default" }),
    {
      id,
      name: "judge",
      agent_kind: "openhands",
      revision: 2,
      llm_profile_ref: "fast",
      mcp_server_refs: ["a"],
    },
  ]);
  expect((await get("/review")).status).toBe(404);
  expect((await get("/judge", { key: strangerKey })).status).toBe(404);
  await post("/other", { llm_profile_ref: "fast" });
  expect(Object.keys((await server.store.settings.get(defaultUser)) ?? {})).toEqual(["agent_profiles"]);
  expect(await server.store.settings.get(defaultUser)).not.toHaveProperty("agent_profiles.profiles.default");
  expect((await post("/other/rename", { new_name: "judge" })).status).toBe(409);
  for (const _ of [1, 2]) expect((await read(server.call("DELETE", `${base}/judge`))).status).toBe(200);
  expect((await get()).body.profiles.map(({ name }: { name: string }) => name)).toEqual(["default", "other"]);
});

test("there is always an active profile: the seeded default stands for the settings until it is saved", async () => {
  const { profiles, active_agent_profile_id: id } = (await get()).body;
  expect(profiles).toEqual([
    {
      id,
      name: "default",
      agent_kind: "openhands",
      revision: 0,
      llm_profile_ref: "default",
      mcp_server_refs: null,
    },
  ]);
  expect(await server.store.settings.get(defaultUser)).toEqual({});
  expect((await get("/default")).body.profile).toMatchObject({ id, secret_refs: null, public_skills: null });
  expect((await post(`/${id}/activate`)).body).toMatchObject({ id });
  expect(await server.settings.agentProfiles.active(defaultUser)).toBeUndefined();
  await saveLlm();
  expect((await get()).body.profiles).toMatchObject([{ llm_profile_ref: "fast" }]);
  expect((await post("/default/materialize")).body).toMatchObject({ valid: true });
  await post("/default", { llm_profile_ref: "fast", secret_refs: ["A"], persona: "You are terse." });
  expect((await get()).body).toMatchObject({ profiles: [{ id, revision: 0 }], active_agent_profile_id: id });
  expect(await server.settings.agentProfiles.active(defaultUser)).toMatchObject({ secret_refs: ["A"] });
  await server.call("DELETE", `${base}/default`);
  expect((await get("/default")).body.profile).toMatchObject({ id, secret_refs: null });
  expect((await post("/default/rename", { new_name: "mine" })).status).toBe(200);
  expect((await get()).body).toMatchObject({ profiles: [{ id, name: "mine" }], active_agent_profile_id: id });
});

test("an LLM profile that agent profiles name cannot be deleted; a rename reaches them", async () => {
  await saveLlm();
  for (const name of ["a", "b"]) await post(`/${name}`, { llm_profile_ref: "fast" });
  const remove = (path: string) => read(server.call("DELETE", path));
  for (const path of ["/api/v1/settings/profiles/fast", "/api/profiles/fast"]) {
    const sandbox = server.addSandbox();
    const init = path.startsWith("/api/v1") ? {} : { headers: { "x-session-api-key": sandbox.sessionKey! } };
    const answer = await read(server.call("DELETE", path, init));
    expect([answer.status, JSON.stringify(answer.body)]).toEqual([
      409,
      expect.stringContaining("LLM profile is referenced by 2 agent profile(s): a, b"),
    ]);
  }
  await server.call("POST", "/api/v1/settings/profiles/fast/rename", { body: { new_name: "quick" } });
  expect((await get("/a")).body.profile).toMatchObject({ llm_profile_ref: "quick" });
  for (const name of ["a", "b"]) await remove(`${base}/${name}`);
  expect((await remove("/api/v1/settings/profiles/quick")).status).toBe(200);
});

test("an active profile is remembered and changes no settings; without its LLM profile it is refused", async () => {
  await post("/p", { llm_profile_ref: "fast", agent: "Reviewer" });
  const { id } = (await get("/p")).body.profile;
  const missing = await post(`/${id}/activate`);
  expect([missing.status, missing.body.detail]).toEqual([
    422,
    expect.stringContaining("'fast', which does not exist"),
  ]);
  const initial = (await get()).body.active_agent_profile_id;
  await saveLlm();
  expect((await post(`/${id.replaceAll("-", "")}/activate`)).body).toEqual({
    id,
    message: "Agent profile 'p' activated",
    agent_settings_applied: false,
  });
  const { body } = await read(server.call("GET", "/api/v1/settings"));
  expect(body).toMatchObject({
    active_agent_profile_id: id,
    active_agent_profile_revision: 0,
    llm_profiles: { active: null },
    llm_api_key_set: false,
    agent_settings: { agent: "CodeActAgent" },
  });
  expect((await post("/00000000-0000-0000-0000-000000000000/activate")).status).toBe(404);
  await post("/p/rename", { new_name: "q" });
  expect(await server.settings.agentProfiles.active(defaultUser)).toMatchObject({ id, name: "q" });
  await server.call("DELETE", `${base}/q`);
  expect((await get()).body.active_agent_profile_id).toBe(initial);
});

test("materialising reports missing parts and the resulting settings, without secrets or changes", async () => {
  await post("/p", { llm_profile_ref: "fast", mcp_server_refs: ["tool", "none"] });
  const broken = (await post("/p/materialize")).body;
  expect([...Value.Errors(AgentProfileDiagnostics, broken)]).toEqual([]);
  expect(broken).toMatchObject({
    valid: false,
    errors: ["LLM profile 'fast' not found", "MCP server 'tool' not found", "MCP server 'none' not found"],
    resolved_settings: null,
  });
  await saveLlm();
  const servers = { tool: { command: "x", env: { T: "sk-planted-2" } }, other: { command: "y" } };
  await server.call("POST", "/api/v1/settings", { body: { agent_settings_diff: { mcp_config: servers } } });
  await post("/p", { llm_profile_ref: "fast", mcp_server_refs: ["tool"] });
  const { body } = await post("/p/materialize");
  expect(body).toMatchObject({
    valid: true,
    llm_api_key_set: true,
    resolved_mcp_servers: ["tool"],
    dangling_mcp_server_refs: [],
  });
  expect(Object.keys(body.resolved_settings.mcp_config)).toEqual(["tool"]);
  // A draft of a profile that exists, and of one that does not, is evaluated and not stored.
  const before = (await get()).body;
  for (const name of ["p", "no-such-profile"]) {
    const draft = { llm_profile_ref: "fast", mcp_server_refs: ["other", "none"], name: "ignored" };
    const drafted = await post(`/${name}/materialize`, { profile: draft });
    expect(drafted).toMatchObject({
      status: 200,
      body: { valid: false, resolved_mcp_servers: ["other"], dangling_mcp_server_refs: ["none"] },
    });
  }
  expect((await get()).body).toEqual(before);
  expect((await post("/no-such-profile/materialize", {})).status).toBe(404);
  for (const profile of [{}, { llm_profile_ref: "fast", no_such_field: 1 }, "text"])
    expect([profile, (await post("/p/materialize", { profile })).status]).toEqual([profile, 422]);
  expect(JSON.stringify(body)).not.toContain("planted");
  expect((await read(server.call("GET", "/api/v1/settings"))).body.llm_profiles.active).toBeNull();
});

test("invalid bodies and names get an error in the family's shape", async () => {
  for (const body of [
    {},
    { llm_profile_ref: 5 },
    { llm_profile_ref: "x", agent_kind: "acp" },
    { llm_profile_ref: "x", condenser: { max_size: 1 } },
    { llm_profile_ref: "x", secret_ref: ["A"] },
    { llm_profile_ref: "x", secret_refs: "A" },
  ]) {
    const answer = await post("/p", body);
    expect([answer.status, Array.isArray(answer.body.detail)]).toEqual([422, true]);
  }
  for (const name of [".hidden", "__proto__", "a b", "x".repeat(65)])
    expect((await post(`/${encodeURIComponent(name)}`, { llm_profile_ref: "x" })).status).toBe(422);
  expect((await get("/constructor")).status).toBe(404);
  for (let number = 0; number < 50; number++) await post(`/p${number}`, { llm_profile_ref: "x" });
  expect((await post("/more", { llm_profile_ref: "x" })).status).toBe(409);
});
