import { SettingsSchema, SettingsV1, UserInfo } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterAll, beforeAll, expect, test } from "vitest";
import { key, read, startServer, strangerKey, type TestServer } from "../test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const base = "/api/v1/settings";
const get = (path = base, init = {}) => read(server.call("GET", path, init));
const post = (body: unknown, path = base, init = {}) => read(server.call("POST", path, { body, ...init }));

test("settings are not found until something is stored, then every field is read with its default", async () => {
  expect(await get()).toEqual({ status: 404, body: { error: "Settings not found", detail: "Settings not found" } });
  expect(await post({ language: "de" })).toEqual({ status: 200, body: { message: "Settings stored" } });
  const { status, body } = await get();
  expect(status).toBe(200);
  expect(Value.Check(SettingsV1, body)).toBe(true);
  expect(body).toMatchObject({
    language: "de",
    enable_sound_notifications: false,
    enable_proactive_conversation_starters: true,
    git_full_clone: false,
    sandbox_grouping_strategy: "NO_GROUPING",
    secrets_store: { provider_tokens: {} },
    conversation_settings: { schema_version: 1, max_iterations: 500, confirmation_mode: false, security_analyzer: "llm" },
    agent_settings: {
      schema_version: 5,
      agent_kind: "openhands",
      agent: "CodeActAgent",
      tools: null,
      mcp_config: {},
      condenser: { condenser_kind: "llm_summarizing", enabled: true, max_size: 240, max_tokens: null, keep_first: 2 },
      llm: { model: "", api_key: null, base_url: null, timeout: 300, num_retries: 5, reasoning_effort: "high" },
    },
    llm_profiles: { profiles: {}, active: null },
    provider_tokens_set: {},
    llm_api_key_set: false,
    search_api_key_set: false,
  });
  expect(Value.Check(UserInfo, (await get("/api/v1/users/me")).body)).toBe(true);
  expect((await get(base, { key: strangerKey })).status).toBe(404);
});
