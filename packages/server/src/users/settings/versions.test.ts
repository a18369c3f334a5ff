import { invalid } from "@sandpiper/core/test/support/stub";
import { type McpConfig, maskText, SettingsUpdate } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { type SettingsDocument, upgradeDocument } from "./document.ts";
import { mergeV0, viewV0 } from "./v0.ts";
import { mergeV1, viewV1 } from "./v1.ts";

const v0 = (document: SettingsDocument) => viewV0(document, {});
const v1 = (document: SettingsDocument) => ({ ...viewV1(document), provider_tokens_set: {} });

test("settings that one version writes are read by the other", () => {
  let made = mergeV0(
    {},
    {
      llm_model: "openai/gpt-x",
      llm_api_key: "sk-1",
      llm_base_url: "https://proxy.example/v1",
      agent: "Planner",
      max_iterations: 7,
      confirmation_mode: true,
      security_analyzer: "llm",
      enable_default_condenser: false,
      condenser_max_size: 40,
      max_budget_per_task: 2.5,
      git_user_name: "Ann",
    },
  );
  expect(v1(made)).toMatchObject({
    max_budget_per_task: 2.5,
    git_user_name: "Ann",
    llm_api_key_set: true,
    agent_settings: {
      agent: "Planner",
      llm: { model: "openai/gpt-x", api_key: null, base_url: "https://proxy.example/v1" },
      condenser: { enabled: false, max_size: 40 },
    },
    conversation_settings: { max_iterations: 7, confirmation_mode: true, security_analyzer: "llm" },
  });
  made = mergeV1(made, {
    agent_settings_diff: {
      llm: { model: "anthropic/claude-x", api_key: "", base_url: null },
      condenser: { enabled: true },
    },
    conversation_settings_diff: { max_iterations: null, confirmation_mode: false, security_analyzer: null },
    max_budget_per_task: null,
  });
  expect(v0(made)).toMatchObject({
    llm_model: "anthropic/claude-x",
    llm_api_key_set: false,
    llm_base_url: null,
    max_iterations: null,
    confirmation_mode: false,
    security_analyzer: null,
    enable_default_condenser: true,
    condenser_max_size: 40,
    max_budget_per_task: null,
  });
});

test("without an analyzer, V0's confirmation mode asks for every action, and V1's trusts the model's risk", () => {
  const byV0 = mergeV0({}, { confirmation_mode: true });
  expect([v0(byV0).security_analyzer, v1(byV0).conversation_settings.security_analyzer]).toEqual([
    null,
    null,
  ]);
  const byV1 = mergeV1({}, { conversation_settings_diff: { confirmation_mode: true } });
  expect([v0(byV1).security_analyzer, v1(byV1).conversation_settings.security_analyzer]).toEqual([
    "llm",
    "llm",
  ]);
  const other = mergeV0(byV0, { security_analyzer: "invariant" });
  expect([v0(other).security_analyzer, v1(other).conversation_settings.security_analyzer]).toEqual([
    "invariant",
    "none",
  ]);
});

test("flat documents of earlier versions can be read", () => {
  const mcp_config: McpConfig = {
    sse_servers: [{ url: "https://a.example/sse", api_key: "key-a" }],
    stdio_servers: [{ name: "tool", command: "npx", args: ["-y"], env: { TOKEN: "t" } }],
    shttp_servers: [],
  };
  const flat = {
    llm_model: "m",
    llm_api_key: "k",
    language: "en",
    confirmation_mode: true,
    security_analyzer: "",
    mcp_config,
  };
  const read = upgradeDocument(flat);
  expect(read).toEqual({
    language: "en",
    agent_settings: {
      llm: { model: "m", api_key: "k" },
      mcp_config: {
        tool: { transport: "stdio", command: "npx", args: ["-y"], env: { TOKEN: "t" } },
        "a-example": {
          url: "https://a.example/sse",
          transport: "sse",
          auth: { strategy: "bearer", value: "key-a" },
        },
      },
    },
    conversation_settings: { confirmation_mode: true, security_analyzer: null },
  });
  expect(upgradeDocument(read as Record<string, unknown>)).toBe(read);
});

test("V0 lists keep server names and V1-only fields", () => {
  const servers = {
    search: {
      url: "https://s.example/mcp",
      transport: "http" as const,
      headers: { "X-Team": "blue" },
      auth: { strategy: "bearer" as const, value: "one" },
    },
    second: {
      url: "https://s.example/mcp",
      auth: { strategy: "api_key" as const, value: "two", header_name: "X-Key" },
    },
    login: {
      url: "https://l.example",
      auth: { strategy: "basic" as const, username: "ann", password: "pw" },
    },
    files: { command: "npx", cwd: "/data", env: { TOKEN: "t" } },
  };
  const made = mergeV1({}, { agent_settings_diff: { mcp_config: servers } });
  const lists = v0(made).mcp_config!;
  expect(lists).toEqual({
    sse_servers: [],
    stdio_servers: [{ name: "files", command: "npx", env: { TOKEN: maskText } }],
    shttp_servers: [
      { url: "https://s.example/mcp", api_key: maskText },
      { url: "https://s.example/mcp", api_key: maskText },
      { url: "https://l.example" },
    ],
  });
  const stored = (change: SettingsUpdate["mcp_config"]) =>
    mergeV0(made, { mcp_config: change }).agent_settings!.mcp_config;
  expect(stored(lists)).toMatchObject(servers);
  expect(
    stored({
      shttp_servers: [{ url: "https://l.example" }, { url: "https://s.example/mcp", api_key: "new" }],
    }),
  ).toMatchObject({
    login: servers.login,
    search: { ...servers.search, auth: { strategy: "bearer", value: "new" } },
  });
  expect(stored({ shttp_servers: [{ url: "https://s.example/mcp" }] })!.search).not.toHaveProperty("auth");
  expect(stored({ shttp_servers: [{ url: "https://new.example", api_key: maskText }] })).toEqual({
    "new-example": { url: "https://new.example", transport: "http" },
  });
});

test("servers that cannot be reached or named are refused", () => {
  const post = (mcp_config: object) => () => mergeV1({}, { agent_settings_diff: invalid({ mcp_config }) });
  const refused = expect.objectContaining({ code: "InvalidParameter" });
  expect(post({ a: {} })).toThrow(refused);
  expect(post({ a: { url: "https://x", command: "y" } })).toThrow(refused);
  expect(post({ "": { url: "https://x" } })).toThrow(refused);
  expect(post({ ["x".repeat(257)]: { url: "https://x" } })).toThrow(refused);
  expect(
    mergeV1(
      {},
      { agent_settings_diff: { mcp_config: invalid({ a: { url: "https://x", bogus: 1, cwd: null } }) } },
    ),
  ).toEqual({
    agent_settings: { mcp_config: { a: { url: "https://x" } } },
  });
});

test("in V0, null keeps secrets, model, base URL and consent and resets every other field; an empty text clears them", () => {
  const made = mergeV0(
    {},
    {
      llm_model: "m",
      llm_api_key: "k",
      llm_base_url: "u",
      search_api_key: "s",
      user_consents_to_analytics: false,
      language: "en",
    },
  );
  const nulls = Object.fromEntries(
    Object.keys(SettingsUpdate.properties).map((field) => [field, null]),
  ) as SettingsUpdate;
  expect(v0(mergeV0(made, nulls))).toMatchObject({
    llm_model: "m",
    llm_api_key_set: true,
    llm_base_url: "u",
    search_api_key_set: true,
    user_consents_to_analytics: false,
    language: null,
  });
  expect(
    v0(mergeV0(made, { llm_model: "", llm_api_key: "", llm_base_url: "", search_api_key: "" })),
  ).toMatchObject({
    llm_model: null,
    llm_api_key_set: false,
    llm_base_url: null,
    search_api_key_set: false,
  });
  expect(mergeV0(made, { llm_api_key: maskText, search_api_key: maskText })).toEqual(made);
});

test("in V1, null keeps search keys, consent and disabled skills, and resets the rest; maps are merged", () => {
  const made = mergeV1(
    {},
    {
      search_api_key: "s",
      disabled_skills: ["x"],
      user_consents_to_analytics: true,
      git_full_clone: true,
      agent_settings_diff: { llm: { timeout: 5, extra_headers: { A: "one" }, api_key: "k", model: "m" } },
    },
  );
  const after = mergeV1(made, {
    search_api_key: null,
    disabled_skills: null,
    user_consents_to_analytics: null,
    git_full_clone: null,
    agent_settings_diff: {
      llm: { timeout: null, extra_headers: { A: maskText, B: "two" }, usage_id: null, api_key: maskText },
    },
  });
  expect(after).toMatchObject({
    search_api_key: "s",
    disabled_skills: ["x"],
    user_consents_to_analytics: true,
  });
  expect(v1(after).git_full_clone).toBe(false);
  expect(after.agent_settings!.llm).toEqual({
    timeout: null,
    extra_headers: { A: "one", B: "two" },
    api_key: "k",
    model: "m",
  });
  expect(v1(after).agent_settings.llm).toMatchObject({
    timeout: null,
    extra_headers: { A: maskText, B: maskText },
    usage_id: "default",
  });
  expect(
    mergeV1(after, { agent_settings_diff: { llm: { api_key: null } } }).agent_settings!.llm,
  ).not.toHaveProperty("api_key");
});

test("a base URL that is the provider's default is not shown", () => {
  const shown = (model: string, base_url: string) =>
    v1(mergeV1({}, { agent_settings_diff: { llm: { model, base_url } } })).agent_settings.llm.base_url;
  expect(shown("openai/gpt-5", "https://api.openai.com/v1/")).toBeNull();
  expect(shown("claude-sonnet-4-5", "https://api.anthropic.com")).toBeNull();
  expect(shown("openai/gpt-5", "https://proxy.example/v1")).toBe("https://proxy.example/v1");
  expect(shown("openai/gpt-5", "no address")).toBe("no address");
});
