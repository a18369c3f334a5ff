import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());
const call = (method: string, path: string, init: { body?: unknown; key?: string } = {}) =>
  read(server.call(method, path, init));

test("every user has a personal organization without other members", async () => {
  const { body: mine } = await call("GET", "/api/organizations");
  expect(mine).toMatchObject({
    items: [{ id: defaultUser, is_personal: true }],
    current_org_id: defaultUser,
  });
  expect((await call("GET", "/api/keys/current")).body).toMatchObject({
    user_id: defaultUser,
    org_id: defaultUser,
  });
  const base = `/api/organizations/${mine.current_org_id}`;
  expect((await call("GET", `${base}/me`)).body).toMatchObject({
    org_id: defaultUser,
    user_id: defaultUser,
    role: "owner",
    permissions: ["view_org_settings", "edit_org_settings"],
  });
  for (const path of ["/me", "/profiles", "/profiles/x", "/provider-connections"]) {
    expect([path, (await call("GET", base + path, { key: strangerKey })).status]).toEqual([path, 404]);
  }
  const stolen = await call("POST", `${base}/profiles/x`, {
    key: strangerKey,
    body: { llm: { model: "openai/x" } },
  });
  expect(stolen).toMatchObject({ status: 404, body: { error: "Organization not found" } });
  const { body: other } = await call("GET", "/api/organizations", { key: strangerKey });
  expect(other.current_org_id).not.toBe(defaultUser);
});

test("provider connections are empty and cannot be created", async () => {
  const path = `/api/organizations/${defaultUser}/provider-connections`;
  expect(await call("GET", path)).toEqual({ status: 200, body: { connections: [] } });
  expect((await call("POST", path, { body: {} })).status).toBe(405);
});

test("a read-only key may not edit the organization", async () => {
  const { key } = (await call("POST", "/api/keys", { body: { name: "reader", read_only: true } })).body;
  const { body } = await call("GET", `/api/organizations/${defaultUser}/me`, { key });
  expect(body).toMatchObject({ role: "member", permissions: ["view_org_settings"] });
});

test("the organization's LLM profiles are those of the settings", async () => {
  const base = `/api/organizations/${defaultUser}/profiles`;
  const llm = { model: "openai/one", api_key: "sk-planted-secret" };
  expect((await call("POST", `${base}/one`, { body: { llm } })).status).toBe(201);
  expect((await call("POST", `${base}/one/rename`, { body: { new_name: "two" } })).status).toBe(200);
  expect((await call("POST", `${base}/two/activate`)).body).toMatchObject({
    name: "two",
    model: "openai/one",
  });
  expect((await call("GET", base)).body).toEqual((await call("GET", "/api/v1/settings/profiles")).body);
  expect((await call("GET", `${base}/two`)).body).toMatchObject({
    name: "two",
    config: { model: "openai/one" },
    api_key_set: true,
  });
  expect((await call("DELETE", `${base}/two`)).status).toBe(200);
  expect((await call("GET", "/api/v1/settings/profiles")).body.profiles).toEqual([]);
});

test("a profile that is edited without its key keeps it", async () => {
  const path = `/api/organizations/${defaultUser}/profiles/edited`;
  const save = (body: object) => call("POST", path, { body });
  const llm = { model: "openai/one", api_key: "sk-planted-secret" };
  await save({ llm });
  await save({ llm: { model: "openai/two", aws_access_key_id: null }, include_secrets: true });
  expect((await call("GET", path)).body).toMatchObject({
    api_key_set: true,
    config: { model: "openai/two" },
  });
  for (const change of [
    { llm: { ...llm, api_key: null } },
    { llm: { model: "openai/one" }, preserve_existing_api_key: false },
  ]) {
    await save({ llm });
    await save(change);
    expect((await call("GET", path)).body.api_key_set).toBe(false);
  }
});
