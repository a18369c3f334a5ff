import {
  type McpConfig,
  maskText,
  SettingsUpdate,
  SettingsV1,
  SettingsV1Update,
  SettingsView,
  UserInfo,
} from "@sandpiper/wire";
import fc from "fast-check";
import { Compile } from "typebox/compile";
import { Value } from "typebox/value";
import { expect, test } from "vitest";
import { toUserInfo } from "../user-info.ts";
import { type SettingsDocument, upgradeDocument } from "./document.ts";
import { mergeV0, viewV0 } from "./v0.ts";
import { mergeV1, viewV1 } from "./v1.ts";

const v0 = (document: SettingsDocument) => viewV0(document, {});
const v1 = (document: SettingsDocument) => ({ ...viewV1(document), provider_tokens_set: {} });
const isUpdateV1 = Compile(SettingsV1Update);

const secret = fc.uuid().map((id) => `secret-${id}`);
const maybeSecret = fc.option(fc.oneof(secret, fc.constant("")));
const text = fc.option(fc.oneof(fc.constant(""), fc.string()));
const someText = fc.string({ minLength: 1 });
const name = fc.oneof(fc.constantFrom("A", "__proto__", "constructor", "1"), fc.string());
const remote = fc.record(
  { url: fc.webUrl(), api_key: fc.option(fc.oneof(secret, fc.constant(maskText), fc.constant(""))) },
  { requiredKeys: ["url"] },
);
const stdio = fc.record(
  { name, command: someText, args: fc.array(fc.string()), env: fc.dictionary(name, secret) },
  { requiredKeys: ["name", "command"] },
);
const updateV0: fc.Arbitrary<SettingsUpdate> = fc.record(
  {
    language: text,
    agent: text,
    llm_model: text,
    llm_base_url: text,
    llm_api_key: maybeSecret,
    search_api_key: maybeSecret,
    sandbox_api_key: maybeSecret,
    max_iterations: fc.option(fc.integer({ min: 1, max: 1_000_000 })),
    confirmation_mode: fc.option(fc.boolean()),
    security_analyzer: fc.option(fc.constantFrom("llm", "", "invariant")),
    enable_default_condenser: fc.option(fc.boolean()),
    condenser_max_size: fc.option(fc.integer({ min: 20, max: 1000 })),
    user_consents_to_analytics: fc.option(fc.boolean()),
    mcp_config: fc.option(
      fc.record(
        { sse_servers: fc.array(remote), stdio_servers: fc.array(stdio), shttp_servers: fc.array(remote) },
        { requiredKeys: [] },
      ),
    ),
  },
  { requiredKeys: [] },
);
const serverName = fc
  .oneof(fc.constantFrom("A", "constructor", "1"), fc.string({ minLength: 1 }))
  .filter((key) => key !== "__proto__");
const secretOrMask = fc.oneof(secret, fc.constant(maskText));
const auth = fc.oneof(
  fc.record({ strategy: fc.constantFrom("bearer" as const, "api_key" as const), value: secretOrMask }),
  fc.record({ strategy: fc.constant("basic" as const), username: fc.string(), password: secretOrMask }),
  fc.record({ strategy: fc.constant("header" as const), headers: fc.dictionary(serverName, secretOrMask) }),
  fc.record({
    strategy: fc.constant("oauth2" as const),
    authentication: fc.record({ type: fc.constant("oauth"), client_secret: secretOrMask }),
    state: fc.record({
      tokens: fc.record({ access_token: secretOrMask, deep: fc.record({ list: fc.array(secretOrMask) }) }),
    }),
  }),
);
const server = fc.oneof(
  fc.record(
    {
      url: fc.webUrl(),
      transport: fc.constantFrom("sse" as const, "http" as const),
      headers: fc.dictionary(serverName, secretOrMask),
      auth,
    },
    { requiredKeys: ["url"] },
  ),
  fc.record(
    { command: someText, env: fc.dictionary(serverName, secretOrMask) },
    { requiredKeys: ["command"] },
  ),
);
const llm = fc.record(
  {
    model: text,
    base_url: text,
    api_key: fc.option(fc.oneof(secretOrMask, fc.constant(""))),
    aws_secret_access_key: maybeSecret,
    extra_headers: fc.option(fc.dictionary(serverName, secretOrMask)),
    timeout: fc.option(fc.integer({ min: 0, max: 1000 })),
    temperature: fc.option(fc.constantFrom(0, 0.5)),
    usage_id: fc.option(fc.string()),
  },
  { requiredKeys: [] },
);
const updateV1 = fc.record(
  {
    language: text,
    search_api_key: maybeSecret,
    disabled_skills: fc.option(fc.array(fc.string())),
    git_full_clone: fc.option(fc.boolean()),
    sandbox_grouping_strategy: fc.option(fc.constantFrom("NO_GROUPING" as const, "ADD_TO_ANY" as const)),
    agent_settings_diff: fc.record(
      {
        agent: fc.option(fc.string()),
        llm,
        mcp_config: fc.option(fc.dictionary(serverName, server, { maxKeys: 5 })),
        condenser: fc.record(
          { enabled: fc.option(fc.boolean()), max_size: fc.option(fc.constantFrom(20, 300)) },
          { requiredKeys: [] },
        ),
        verification: fc.record(
          { critic_enabled: fc.boolean(), critic_api_key: maybeSecret },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: [] },
    ),
    conversation_settings_diff: fc.record(
      {
        max_iterations: fc.option(fc.constantFrom(1, 77)),
        confirmation_mode: fc.option(fc.boolean()),
        security_analyzer: fc.option(fc.constantFrom("llm" as const, "none" as const)),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
) as unknown as fc.Arbitrary<SettingsV1Update>;

type Step = (document: SettingsDocument) => SettingsDocument;
const step: fc.Arbitrary<Step> = fc.oneof(
  updateV0.map(
    (change): Step =>
      (document) =>
        mergeV0(document, change),
  ),
  updateV1.map(
    (change): Step =>
      (document) =>
        mergeV1(document, change),
  ),
);
const document = fc
  .array(step, { maxLength: 5 })
  .map((steps) => steps.reduce((made, one) => one(made), {} as SettingsDocument));

test("whatever was written, all views fit their schemas and show no secret, and no mask is stored", () => {
  fc.assert(
    fc.property(document, (made) => {
      const views = [v0(made), v1(made), toUserInfo("ann", made, {}, { exposeSecrets: false })] as const;
      for (const [index, schema] of [SettingsView, SettingsV1, UserInfo].entries()) {
        expect([...Value.Errors(schema, views[index])]).toEqual([]);
      }
      expect(JSON.stringify(views)).not.toContain("secret-");
      expect(JSON.stringify(made)).not.toContain(maskText);
    }),
  );
});

test("posting the V0 view back to V0 changes neither view nor any secret", () => {
  fc.assert(
    fc.property(document, (made) => {
      const again = mergeV0(made, v0(made) as SettingsUpdate);
      expect(v0(again)).toEqual(v0(made));
      expect(v1(again).conversation_settings.confirmation_mode).toEqual(
        v1(made).conversation_settings.confirmation_mode,
      );
      expect(secretsIn(again)).toEqual(secretsIn(made));
    }),
  );
});

test("posting the MCP servers of the V1 view back to V1 keeps every secret", () => {
  fc.assert(
    fc.property(document, (made) => {
      const view = v1(made);
      const back: SettingsV1Update = { agent_settings_diff: { mcp_config: view.agent_settings.mcp_config } };
      if (Object.hasOwn(view.agent_settings.mcp_config, "__proto__"))
        throw new Error("no client can send this name");
      const again = mergeV1(made, back);
      expect(v1(again)).toEqual(view);
      expect(secretsIn(again)).toEqual(secretsIn(made));
    }),
  );
});

test("two V0 updates of different fields give the same in either order", () => {
  fc.assert(
    fc.property(updateV0, updateV0, updateV0, (before, left, right) => {
      const made = mergeV0({}, before);
      // What the analyzer means depends on confirmation.
      const taken = new Set([...Object.keys(left), "confirmation_mode", "security_analyzer"]);
      const other = Object.fromEntries(Object.entries(right).filter(([field]) => !taken.has(field)));
      expect(v0(mergeV0(mergeV0(made, other), left))).toEqual(v0(mergeV0(mergeV0(made, left), other)));
    }),
  );
});

test("generated V1 updates are such that the server takes them", () => {
  fc.assert(fc.property(updateV1, (change) => isUpdateV1.Check(change)));
});

test("what one version writes the other reads", () => {
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

test("confirmation without an analyzer asks for everything when V0 turned it on, and trusts the model when V1 did", () => {
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

test("flat documents of earlier versions are read", () => {
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

test("V0 lists keep the names of servers and what only V1 knows of them", () => {
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
  const post = (mcp_config: object) => () => mergeV1({}, { agent_settings_diff: { mcp_config } as never });
  const refused = expect.objectContaining({ code: "InvalidParameter" });
  expect(post({ a: {} })).toThrow(refused);
  expect(post({ a: { url: "https://x", command: "y" } })).toThrow(refused);
  expect(post({ "": { url: "https://x" } })).toThrow(refused);
  expect(post({ ["x".repeat(257)]: { url: "https://x" } })).toThrow(refused);
  expect(
    mergeV1(
      {},
      { agent_settings_diff: { mcp_config: { a: { url: "https://x", bogus: 1, cwd: null } } as never } },
    ),
  ).toEqual({
    agent_settings: { mcp_config: { a: { url: "https://x" } } },
  });
});

test("null keeps V0's secrets, model, address and consent, and empties every other field; an empty text clears them", () => {
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

test("a V1 null keeps the keys beside the agent's, consent and disabled skills, and resets the rest; maps are merged", () => {
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

test("an address that the provider has anyway is not shown", () => {
  const shown = (model: string, base_url: string) =>
    v1(mergeV1({}, { agent_settings_diff: { llm: { model, base_url } } })).agent_settings.llm.base_url;
  expect(shown("openai/gpt-5", "https://api.openai.com/v1/")).toBeNull();
  expect(shown("claude-sonnet-4-5", "https://api.anthropic.com")).toBeNull();
  expect(shown("openai/gpt-5", "https://proxy.example/v1")).toBe("https://proxy.example/v1");
  expect(shown("openai/gpt-5", "no address")).toBe("no address");
});

function secretsIn(made: SettingsDocument): string[] {
  return (JSON.stringify(made).match(/secret-[0-9a-f-]+/g) ?? []).sort();
}
