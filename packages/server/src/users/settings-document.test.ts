import { type McpConfig, SettingsUpdate, SettingsView } from "@sandpiper/wire";
import fc from "fast-check";
import { Value } from "typebox/value";
import { expect, test } from "vitest";
import { masked } from "./mcp-config.ts";
import { mergeSettings, type SettingsDocument, viewSettings } from "./settings-document.ts";

const stored: SettingsDocument = {
  llm_model: "m",
  llm_api_key: "k",
  llm_base_url: "u",
  search_api_key: "s",
  sandbox_api_key: "b",
  user_consents_to_analytics: false,
  language: "en",
  enable_default_condenser: false,
};

test("null keeps the secrets, the model, its address and the consent, and empties every other field", () => {
  const nulls = Object.fromEntries(Object.keys(SettingsUpdate.properties).map((field) => [field, null])) as SettingsUpdate;
  const { language: _, enable_default_condenser: __, ...kept } = stored;
  expect(mergeSettings(stored, nulls)).toEqual(kept);
  expect(viewSettings(mergeSettings(stored, nulls))).toMatchObject({ language: null, enable_default_condenser: true });
});

test("an empty text clears the secrets, the model and its address", () => {
  const empty = { llm_model: "", llm_api_key: "", llm_base_url: "", search_api_key: "", sandbox_api_key: "" };
  const merged = mergeSettings(stored, empty);
  expect(merged).toEqual({ user_consents_to_analytics: false, language: "en", enable_default_condenser: false });
  expect(viewSettings(merged)).toMatchObject({
    llm_model: null,
    llm_base_url: null,
    llm_api_key_set: false,
    search_api_key_set: false,
  });
});

test("a masked secret that is sent back keeps the stored one", () => {
  expect(mergeSettings(stored, { llm_api_key: masked, search_api_key: masked, sandbox_api_key: masked })).toEqual(stored);
  expect(mergeSettings({}, { llm_api_key: masked })).toEqual({});
});

test("fields that are not settable are ignored", () => {
  const hostile = JSON.parse(
    '{"llm_api_key_set":true,"secrets_store":{"x":1},"provider_tokens_set":{"github":"h"},"nonsense":1,"__proto__":{"language":"xx"},"agent":"a"}',
  );
  expect(mergeSettings(stored, hostile)).toEqual({ ...stored, agent: "a" });
});

const mcp: McpConfig = {
  sse_servers: [{ url: "https://a", api_key: "key-a" }, { url: "https://open" }],
  stdio_servers: [{ name: "tool", command: "npx", args: ["-y"], env: { TOKEN: "t", OTHER: "o" } }],
  shttp_servers: [{ url: "https://a", api_key: "key-http" }],
};

test("servers are read with masked keys and environment, and sending them back restores what is stored", () => {
  const view = viewSettings({ mcp_config: mcp }).mcp_config!;
  expect(view.sse_servers).toEqual([{ url: "https://a", api_key: masked }, { url: "https://open" }]);
  expect(view.stdio_servers[0]!.env).toEqual({ TOKEN: masked, OTHER: masked });
  const reordered = { ...view, sse_servers: view.sse_servers.toReversed() };
  const merged = mergeSettings({ mcp_config: mcp }, { mcp_config: reordered }).mcp_config!;
  expect(merged).toEqual({ ...mcp, sse_servers: mcp.sse_servers.toReversed() });
});

test("several servers of one address keep their own keys", () => {
  const twice = {
    ...mcp,
    sse_servers: [
      { url: "https://a", api_key: "one" },
      { url: "https://a", api_key: "two" },
    ],
  };
  const view = viewSettings({ mcp_config: twice }).mcp_config!;
  expect(mergeSettings({ mcp_config: twice }, { mcp_config: view }).mcp_config).toEqual(twice);
});

test("a partial configuration is completed with empty lists; a mask without a stored secret stores nothing", () => {
  const posted = { sse_servers: [{ url: "https://new", api_key: masked }], stdio_servers: undefined };
  expect(mergeSettings({}, { mcp_config: posted }).mcp_config).toEqual({
    sse_servers: [{ url: "https://new" }],
    stdio_servers: [],
    shttp_servers: [],
  });
  const env = { TOKEN: masked, NEW: masked, OTHER: "changed" };
  const stdio = {
    stdio_servers: [
      { name: "tool", command: "npx", env },
      { name: "unknown", command: "x", env },
    ],
  };
  expect(mergeSettings({ mcp_config: mcp }, { mcp_config: stdio }).mcp_config).toEqual({
    sse_servers: [],
    stdio_servers: [
      { name: "tool", command: "npx", env: { TOKEN: "t", OTHER: "changed" } },
      { name: "unknown", command: "x", env: { OTHER: "changed" } },
    ],
    shttp_servers: [],
  });
  expect(viewSettings(mergeSettings({ mcp_config: mcp }, { mcp_config: null })).mcp_config).toBeNull();
});

const secret = fc.uuid().map((id) => `secret-${id}`);
const text = fc.option(fc.oneof(fc.constant(""), fc.string()));
const name = fc.oneof(fc.constantFrom("A", "__proto__", "constructor"), fc.string());
const remote = fc.record(
  { url: fc.webUrl(), api_key: fc.option(fc.oneof(secret, fc.constant(masked), fc.constant(""))) },
  { requiredKeys: ["url"] },
);
const stdio = fc.record(
  { name, command: fc.string(), args: fc.array(fc.string()), env: fc.dictionary(name, secret) },
  { requiredKeys: ["name", "command"] },
);
const update: fc.Arbitrary<SettingsUpdate> = fc.record(
  {
    language: text,
    llm_model: text,
    llm_base_url: text,
    llm_api_key: fc.option(fc.oneof(secret, fc.constant(""))),
    search_api_key: fc.option(fc.oneof(secret, fc.constant(""))),
    sandbox_api_key: fc.option(fc.oneof(secret, fc.constant(""))),
    max_iterations: fc.option(fc.integer({ min: 1, max: 1_000_000 })),
    confirmation_mode: fc.option(fc.boolean()),
    enable_default_condenser: fc.option(fc.boolean()),
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

test("after any updates the view fits its schema, shows no secret, and posting it back changes nothing", () => {
  fc.assert(
    fc.property(fc.array(update, { maxLength: 4 }), (updates) => {
      const document = updates.reduce(mergeSettings, {});
      const view = viewSettings(document);
      expect(Value.Check(SettingsView, view)).toBe(true);
      expect(JSON.stringify(view)).not.toContain("secret-");
      expect(JSON.stringify(document)).not.toContain(masked);
      const again = mergeSettings(document, view as SettingsUpdate);
      expect(viewSettings(again)).toEqual(view);
      const { mcp_config: _, ...rest } = document;
      expect(again).toMatchObject(rest);
    }),
  );
});

test("two updates of different fields give the same in either order", () => {
  fc.assert(
    fc.property(update, update, update, (before, left, right) => {
      const document = mergeSettings({}, before);
      const other = Object.fromEntries(Object.entries(right).filter(([field]) => !Object.hasOwn(left, field)));
      const one = mergeSettings(mergeSettings(document, left), other);
      expect(mergeSettings(mergeSettings(document, other), left)).toEqual(one);
    }),
  );
});
