import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
let session: string;
beforeAll(async () => {
  server = await startServer();
  session = server.addSandbox().sessionKey;
});
afterAll(() => server.close());

const v0 = (body: unknown) => read(server.call("POST", "/api/settings", { body }));
const v1 = (body: unknown) => read(server.call("POST", "/api/v1/settings", { body }));
const agent = (body: unknown) => read(server.call("PATCH", "/api/settings", { body, key: session }));
const profile = (llm: unknown) =>
  read(server.call("POST", "/api/v1/settings/profiles/one", { body: { llm } }));
const view = async () => (await read(server.call("GET", "/api/v1/settings"))).body;

test("a misspelt setting is refused with the name that is meant, and nothing is stored", async () => {
  await v1({ language: "en" });
  const before = await view();
  for (const [answer, loc, meant] of [
    [await v0({ language: "de", llm_modle: "openai/gpt-5" }), ["llm_modle"], "llm_model"],
    [await v1({ language: "de", max_budget_pertask: 1 }), ["max_budget_pertask"], "max_budget_per_task"],
    [
      await v1({ language: "de", agent_settings_diff: { llm: { base_ulr: "x" } } }),
      ["agent_settings_diff", "llm", "base_ulr"],
      "base_url",
    ],
    [
      await agent({ conversation_settings_diff: { max_iteration: 3 } }),
      ["conversation_settings_diff", "max_iteration"],
      "max_iterations",
    ],
    [await agent({ agent_setting_diff: {} }), ["agent_setting_diff"], "agent_settings_diff"],
  ] as const) {
    expect(answer.status).toBe(422);
    expect(answer.body.detail).toEqual([
      {
        loc: ["body", ...loc],
        msg: `There is no such setting; did you mean ${meant}?`,
        type: "extra_forbidden",
      },
    ]);
  }
  expect((await v0({ colour: "red" })).body.error).toBe("colour: There is no such setting");
  expect(await view()).toEqual(before);
});

test("what released clients send with settings is accepted: what they read, and fields of other releases", async () => {
  const legacy = (await read(server.call("GET", "/api/settings"))).body;
  expect((await v0({ ...legacy, is_new_user: false })).status).toBe(200);
  const { agent_settings, conversation_settings, ...plain } = await view();
  const whole = { agent_settings_diff: agent_settings, conversation_settings_diff: conversation_settings };
  expect((await v1({ ...plain, ...whole })).status).toBe(200);
  expect((await agent(whole)).status).toBe(200);
  const names = (document: string, schema: string) => {
    const file = new URL(`../../../../../../docs/contract/openapi/${document}.json`, import.meta.url);
    return Object.keys(JSON.parse(readFileSync(file, "utf8")).components.schemas[schema].properties);
  };
  const nulls = (...all: string[]) => Object.fromEntries(all.map((name) => [name, null]));
  for (const llm of [
    ...[names("agent-server", "LLM"), names("agent-server-1.58", "LLM-Input")],
    ...[names("agent-server-1.58", "LLM-Output"), names("app-server", "StrictLLM")],
  ])
    expect((await v1({ agent_settings_diff: { llm: nulls(...llm) } })).status).toBe(200);
  const acp = names("agent-server-1.58", "ACPAgentSettings").filter((name) => name.startsWith("acp_"));
  expect((await agent({ agent_settings_diff: nulls(...acp) })).status).toBe(200);
  expect(
    (await agent({ ...nulls("active_meta_profile"), misc_settings_diff: { theme: "dark" } })).status,
  ).toBe(200);
});

test.each<[string, () => ReturnType<typeof v0>, RegExp]>([
  [
    "an image that is no reference",
    () => v0({ sandbox_base_container_image: "not an image" }),
    /sandbox_base_container_image/,
  ],
  [
    "an image by V1",
    () => v1({ sandbox_base_container_image: "debian:12:13" }),
    /sandbox_base_container_image/,
  ],
  [
    "a sandbox spec that does not exist",
    () => v1({ default_sandbox_spec_id: "none" }),
    /There is no sandbox spec/,
  ],
  ["an address that is none", () => v0({ llm_base_url: "localhost:8080/v1" }), /llm\.base_url: llm_base_url/],
  [
    "an address with a password",
    () => v1({ agent_settings_diff: { llm: { base_url: "https://a:b@host" } } }),
    /user name or password/,
  ],
  ["an address of a profile", () => profile({ base_url: "ftp://host" }), /profiles\.one\.base_url: .*http/],
  ["a name of a model with a line break", () => v0({ llm_model: "openai/gpt\n5" }), /line break/],
  ["a key that no header can carry", () => v0({ llm_api_key: "sk-…" }), /llm\.api_key/],
  ["a header that cannot be sent", () => profile({ extra_headers: { "Bad Name": "x" } }), /Bad Name/],
  ["a region that is none", () => profile({ aws_region_name: "us east" }), /region like us-east-1/],
  ["a git user with a line break", () => v1({ git_user_name: "a\n[core]" }), /git_user_name/],
  [
    "an address of an MCP server",
    () => agent({ agent_settings_diff: { mcp_config: { a: { url: "nowhere" } } } }),
    /mcp_config\.a\.url/,
  ],
  ["a number as text", () => v0({ max_iterations: "10" }), /valid integer/],
  ["a seed that loses digits", () => profile({ seed: 2 ** 60 }), /seed/],
])("%s is refused when it is set", async (_name, send, text) => {
  const { status, body } = await send();
  expect(status).toBe(422);
  expect(body.error ?? JSON.stringify(body.detail)).toMatch(text);
});

test("a stored value that has become unusable does not prevent other changes", async () => {
  await server.store.settings.change("default", () => ({
    sandbox_base_container_image: "not an image",
    language: "en",
  }));
  expect(
    (await v0({ ...(await read(server.call("GET", "/api/settings"))).body, language: "de" })).status,
  ).toBe(200);
  expect((await v0({ sandbox_base_container_image: "also none" })).status).toBe(422);
  expect((await v0({ sandbox_base_container_image: "debian:12" })).status).toBe(200);
  expect((await v0({ sandbox_base_container_image: "" })).status).toBe(200);
});
