import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
beforeEach(() => server.store.settings.change(defaultUser, () => ({})));
afterAll(() => server.close());

const base = "/api/v1/settings/profiles";
const get = (path = "", init = {}) => read(server.call("GET", base + path, init));
const post = (path: string, body?: unknown) => read(server.call("POST", base + path, { body }));
const remove = (path: string) => read(server.call("DELETE", base + path));
const llm = { model: "openai/gpt-x", api_key: "sk-planted", base_url: "https://proxy.example/v1" };

test("a profile is saved, listed and read without its key", async () => {
  expect(await get()).toEqual({ status: 200, body: { profiles: [], active_profile: null } });
  expect(await post("/fast", { llm })).toEqual({
    status: 201,
    body: { name: "fast", message: "Profile 'fast' saved" },
  });
  expect((await get()).body).toEqual({
    profiles: [{ name: "fast", model: llm.model, base_url: llm.base_url, api_key_set: true }],
    active_profile: null,
  });
  const { body } = await get("/fast");
  expect(body).toMatchObject({
    name: "fast",
    api_key_set: true,
    config: { model: llm.model, api_key: null, num_retries: 5 },
  });
  expect(JSON.stringify(body)).not.toContain("planted");
  expect((await get("/fast", { key: strangerKey })).status).toBe(404);
});

test("an empty body, null and {} save the model of the settings", async () => {
  await server.call("POST", "/api/settings", { body: { llm_model: llm.model, llm_api_key: llm.api_key } });
  expect((await post("/a")).status).toBe(201);
  expect((await post("/b", "null")).status).toBe(201);
  expect((await post("/c", { include_secrets: false })).status).toBe(201);
  expect((await get()).body.profiles).toMatchObject([
    { name: "a", model: llm.model, api_key_set: true },
    { name: "b", model: llm.model, api_key_set: true },
    { name: "c", model: llm.model, api_key_set: false },
  ]);
});

test("saving again replaces; a masked key, or preserve_existing_api_key, keeps the key", async () => {
  const set = async () => (await get("/p")).body.api_key_set;
  await post("/p", { llm: { ...llm, usage_id: "mine" } });
  await post("/p", { llm: { model: "m2", api_key: "**********" } });
  expect(await set()).toBe(true);
  expect((await get("/p")).body.config).toMatchObject({ model: "m2", usage_id: "default", base_url: null });
  await post("/p", { llm: { model: "m3", api_key: null }, preserve_existing_api_key: true });
  expect(await server.settings.profileModel(defaultUser, "p")).toEqual({ model: "m3", apiKey: "sk-planted" });
  await post("/p", { llm: { model: "m4" } });
  expect(await set()).toBe(false);
});

test("activating copies the profile into the settings, with its key", async () => {
  await post("/p", { llm });
  expect(await post("/p/activate", {})).toEqual({
    status: 200,
    body: { name: "p", message: "Profile 'p' activated", model: llm.model },
  });
  expect((await get()).body.active_profile).toBe("p");
  expect(await server.settings.model(defaultUser)).toEqual({
    model: llm.model,
    apiKey: llm.api_key,
    baseUrl: llm.base_url,
  });
  expect((await post("/none/activate")).body).toEqual({
    error: "Profile 'none' not found",
    detail: "Profile 'none' not found",
  });
});

test("a renamed profile keeps its key and stays active; a taken name is a conflict", async () => {
  await post("/p", { llm });
  await post("/other", { llm: { model: "m" } });
  await post("/p/activate");
  expect((await post("/p/rename", { new_name: "q" })).body.name).toBe("q");
  expect((await get()).body).toMatchObject({
    active_profile: "q",
    profiles: [{ name: "q", api_key_set: true }, { name: "other" }],
  });
  expect((await post("/q/rename", { new_name: "other" })).status).toBe(409);
  expect((await post("/q/rename", { new_name: "q" })).status).toBe(200);
  expect((await post("/p/rename", { new_name: "r" })).status).toBe(404);
  expect((await post("/q/rename", { new_name: "no/slash" })).status).toBe(422);
});

test("deletion can be repeated, and the first remaining profile becomes active", async () => {
  await post("/p", { llm });
  await post("/other", { llm: { model: "m" } });
  await post("/p/activate");
  for (const _ of [1, 2])
    expect(await remove("/p")).toEqual({ status: 200, body: { name: "p", message: "Profile 'p' deleted" } });
  expect((await get()).body.active_profile).toBe("other");
  expect(await server.settings.model(defaultUser)).toEqual({ model: "m" });
  await remove("/other");
  expect((await get()).body).toEqual({ profiles: [], active_profile: null });
});

test("names of JavaScript's built-in properties are valid names", async () => {
  for (const name of ["__proto__", "constructor", "toString", "1"]) {
    expect((await get(`/${name}`)).status).toBe(404);
    expect((await post(`/${name}`, { llm: { model: name } })).status).toBe(201);
    expect((await get(`/${name}`)).body.config.model).toBe(name);
  }
  expect((await get()).body.profiles).toHaveLength(4);
  const settings = await (await server.call("GET", "/api/v1/settings")).text();
  expect(settings).toContain('"__proto__":{"model":"__proto__"');
  for (const name of ["__proto__", "constructor", "toString", "1"]) await remove(`/${name}`);
  expect((await get()).body.profiles).toEqual([]);
});

test("unknown fields of a model, bad names and too many profiles are refused", async () => {
  const unknown = await post("/p", { llm: { model: "m", bogus: 1 } });
  expect([unknown.status, unknown.body.detail]).toEqual([
    422,
    [{ loc: ["body", "llm", "bogus"], msg: "Extra inputs are not permitted", type: "extra_forbidden" }],
  ]);
  // Newer clients send this with every profile.
  expect((await post("/newer", { llm: { model: "m", provider_connection_id: null } })).status).toBe(201);
  expect((await get("/newer")).body.config).not.toHaveProperty("provider_connection_id");
  expect((await post("/newer", { llm: { model: "m", provider_connection_id: "x" } })).status).toBe(422);
  await read(server.call("DELETE", `${base}/newer`));
  for (const name of ["%20", "a%2Fb", "x".repeat(65), "%C3%A9"])
    expect((await post(`/${name}`, { llm })).status).toBe(422);
  for (let number = 0; number < 50; number++) await post(`/p${number}`, { llm: { model: "m" } });
  expect((await post("/one-more", { llm })).status).toBe(409);
  expect((await post("/p7", { llm })).status).toBe(201);
});
