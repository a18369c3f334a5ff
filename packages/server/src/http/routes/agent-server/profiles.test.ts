import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

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
  const [{ id }] = (await call("GET", "/api/agent-profiles")).body.profiles;
  expect((await call("POST", "/api/agent-profiles/coder/materialize", {})).body.valid).toBe(true);
  expect((await call("POST", `/api/agent-profiles/${id}/activate`, {})).body.id).toBe(id);
  expect((await get()).body.active_agent_profile_id).toBe(id);
  await call("PATCH", "/api/settings", { active_agent_profile_id: null });
  expect((await get()).body.active_agent_profile_id).toBe(null);
});

test("the fifty-first profile is refused", async () => {
  await call("DELETE", "/api/profiles/model");
  const save = (name: string) => call("POST", `/api/profiles/${name}`, { llm: { model: "openai/gpt-5" } });
  for (let number = 0; number < 50; number++) expect((await save(`p${number}`)).status).toBe(201);
  expect((await save("p50")).status).toBe(409);
  expect((await save("p49")).status).toBe(201);
});
