import {
  maskText,
  type SettingsUpdate,
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
import type { SettingsDocument } from "./document.ts";
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
) as fc.Arbitrary<SettingsV1Update>;

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

test("after any updates, all views fit their schemas and show no secret, and no mask is stored", () => {
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

test("two V0 updates of different fields have the same result in either order", () => {
  fc.assert(
    fc.property(updateV0, updateV0, updateV0, (before, left, right) => {
      const made = mergeV0({}, before);
      // The meaning of the analyzer depends on confirmation.
      const taken = new Set([...Object.keys(left), "confirmation_mode", "security_analyzer"]);
      const other = Object.fromEntries(Object.entries(right).filter(([field]) => !taken.has(field)));
      expect(v0(mergeV0(mergeV0(made, other), left))).toEqual(v0(mergeV0(mergeV0(made, left), other)));
    }),
  );
});

test("generated V1 updates are valid", () => {
  fc.assert(fc.property(updateV1, (change) => isUpdateV1.Check(change)));
});

function secretsIn(made: SettingsDocument): string[] {
  return (JSON.stringify(made).match(/secret-[0-9a-f-]+/g) ?? []).sort();
}
