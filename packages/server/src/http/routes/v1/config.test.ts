import { callCost, lookUpModel } from "@sandpiper/models/catalogue";
import { WebClientConfig } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const get = (path: string, key?: null) => read(server.call("GET", path, key === null ? { key } : {}));
const models = "/api/v1/config/models/search";
const providers = "/api/v1/config/providers/search";

test("pages of models together list each known model once, with a provider under which the server finds its price", async () => {
  const seen: { provider: string; name: string; hidden: boolean }[] = [];
  let page = "";
  do {
    const { status, body } = await get(`${models}?limit=7${page}`);
    expect(status).toBe(200);
    expect(body.items.length).toBeLessThanOrEqual(7);
    seen.push(...body.items);
    page = body.next_page_id === null ? "" : `&page_id=${encodeURIComponent(body.next_page_id)}`;
  } while (page);
  const names = seen.map(({ provider, name }) => `${provider}/${name}`);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain("anthropic/claude-sonnet-4-5");
  expect(names.length).toBeGreaterThan(50);
  const million = {
    prompt_tokens: 1_000_000,
    completion_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
  };
  for (const { provider, name, hidden } of seen) {
    expect(provider, name).not.toBeNull();
    if (hidden) continue;
    expect(lookUpModel(`${provider}/${name}`)?.contextWindow, name).toBeGreaterThan(100_000);
    expect(callCost(`${provider}/${name}`, million), name).toBeGreaterThan(0);
  }
});

test("models and providers are filtered", async () => {
  const some = (await get(`${models}?query=Sonnet&provider__eq=anthropic&verified__eq=true&limit=100`)).body
    .items;
  expect(some.length).toBeGreaterThan(1);
  for (const { name, provider, verified } of some)
    expect([name.includes("sonnet"), provider, verified]).toEqual([true, "anthropic", true]);
  expect((await get(`${models}?provider__eq=nobody`)).body).toEqual({ items: [], next_page_id: null });
  expect((await get(`${models}?provider__eq=xai`)).body.items.length).toBeGreaterThan(2);
  expect((await get(`${providers}?query=open&verified__eq=true`)).body.items).toEqual([
    { name: "openai", verified: true },
  ]);
  expect((await get(`${providers}?verified__eq=false`)).body.items).toContainEqual({
    name: "ollama",
    verified: false,
  });
});

test.each([
  "limit=0",
  "limit=101",
  "limit=x",
  "verified__eq=perhaps",
  `query=${"x".repeat(300)}`,
  "query=%00",
])("%s is refused", async (query) => {
  expect((await get(`${models}?${query}`)).status).toBe(422);
});

test("an unknown page id restarts at the beginning", async () => {
  const first = (await get(`${models}?limit=2`)).body;
  for (const id of ["", "%21%21", "LTU%3D", "Zm9v"])
    expect((await get(`${models}?limit=2&page_id=${id}`)).body).toEqual(first);
});

test("web clients read their configuration without a key, but not the catalogue", async () => {
  const { status, body } = await get("/api/v1/web-client/config", null);
  expect(status).toBe(200);
  expect([...Value.Errors(WebClientConfig, body)]).toEqual([]);
  expect(body).toMatchObject({
    app_mode: "oss",
    kind: "WebClientConfig",
    feature_flags: { hide_llm_settings: false },
  });
  const legacy = (await get("/api/options/config", null)).body;
  expect(legacy).toMatchObject({
    APP_MODE: "oss",
    FEATURE_FLAGS: { HIDE_LLM_SETTINGS: false, ENABLE_BILLING: false },
  });
  for (const path of [models, providers, "/api/options/models"])
    expect((await get(path, null)).status).toBe(401);
});

test("the choices of the legacy settings page are lists of names", async () => {
  expect((await get("/api/options/models")).body).toContain("openai/gpt-5");
  expect((await get("/api/options/models")).body).not.toContain("demo/repair");
  expect((await get("/api/options/agents")).body).toEqual(["CodeActAgent"]);
  expect((await get("/api/options/security-analyzers")).body).toContain("llm");
});
