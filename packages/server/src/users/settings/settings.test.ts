import { SettingsView } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestStore } from "../../../test/support/store.ts";
import type { Store } from "../../store/store.ts";
import { StoredSettings } from "./settings.ts";

let store: Store;
let close: () => Promise<void>;
let settings: StoredSettings;
const user = "default";
beforeEach(async () => {
  ({ store, close } = await createTestStore());
  settings = new StoredSettings(store.settings);
});
afterEach(() => close());

test("a user without stored settings gets the documented defaults", async () => {
  const view = await settings.view(user);
  expect(Value.Check(SettingsView, view)).toBe(true);
  const defaults = {
    enable_default_condenser: true,
    enable_sound_notifications: false,
    enable_proactive_conversation_starters: true,
    enable_solvability_analysis: true,
    v1_enabled: true,
    llm_api_key_set: false,
    search_api_key_set: false,
    secrets_store: { provider_tokens: {}, custom_secrets: {} },
    provider_tokens_set: {},
  };
  const names = Object.keys(SettingsView.properties);
  expect(view).toEqual({ ...Object.fromEntries(names.map((name) => [name, null])), ...defaults });
  expect(await settings.model(user)).toEqual({});
  expect(await settings.agent(user)).toEqual({
    toolConcurrencyLimit: 1,
    tools: null,
    enableSubAgents: false,
    enableSwitchLlmTool: true,
    loadMemory: false,
    mcpServers: {},
    condenser: expect.objectContaining({ enabled: true, max_size: 240, max_tokens: null, keep_first: 2 }),
    maxIterations: 500,
    maxBudgetPerTask: null,
    disabledSkills: [],
    gitFullClone: false,
    gitUserName: null,
    gitUserEmail: null,
    titleLlmProfile: null,
    marketplaces: [],
    systemMessageSuffix: null,
    userMessageSuffix: null,
  });
});

test("stored settings are returned and reach the agent and the model; secrets are null with flags", async () => {
  await settings.update(user, {
    llm_model: "anthropic/claude",
    llm_api_key: "sk-1",
    llm_base_url: "https://models.example",
    search_api_key: "tvly-2",
    sandbox_api_key: "sb-3",
    max_iterations: 7,
    max_budget_per_task: 0,
    enable_default_condenser: false,
  });
  const view = await settings.view(user);
  expect(Value.Check(SettingsView, view)).toBe(true);
  expect(view).toMatchObject({
    llm_model: "anthropic/claude",
    llm_base_url: "https://models.example",
    llm_api_key: null,
    llm_api_key_set: true,
    search_api_key: null,
    search_api_key_set: true,
    sandbox_api_key: null,
    max_iterations: 7,
    enable_default_condenser: false,
  });
  expect(JSON.stringify(await settings.view(user))).not.toMatch(/sk-1|tvly-2|sb-3/);
  expect(await settings.model(user)).toEqual({
    model: "anthropic/claude",
    apiKey: "sk-1",
    baseUrl: "https://models.example",
  });
  await settings.update("other", { llm_model: "anthropic/claude", llm_base_url: "https://models.example" });
  expect(await settings.model("other")).toEqual({
    model: "anthropic/claude",
    baseUrl: "https://models.example",
    guarded: true,
  });
  expect(await settings.agent(user)).toMatchObject({ maxIterations: 7, maxBudgetPerTask: 0 });
  expect((await settings.view("other")).llm_api_key_set).toBe(false);
});

test("the view reflects every change, also another writer's", async () => {
  await settings.update(user, { language: "de" });
  expect((await settings.view(user)).language).toBe("de");
  await new StoredSettings(store.settings).update(user, { language: "fr" });
  expect((await settings.view(user)).language).toBe("fr");
  await store.settings.change(user, () => ({ language: "en" }));
  expect((await settings.view(user)).language).toBe("en");
});

test("concurrent updates of different fields all survive", async () => {
  await Promise.all([
    settings.update(user, { language: "de" }),
    settings.update(user, { agent: "CodeActAgent" }),
    settings.update(user, { llm_model: "demo/plan" }),
    settings.update("other", { language: "fr" }),
    settings.update(user, { git_user_name: "Ann" }),
  ]);
  const expected = { language: "de", agent: "CodeActAgent", llm_model: "demo/plan", git_user_name: "Ann" };
  expect(await settings.view(user)).toMatchObject(expected);
  expect(await store.settings.get("other")).toEqual({ language: "fr" });
});

test("an update that cannot be stored fails only for its caller", async () => {
  const broken = new StoredSettings({
    get: store.settings.get.bind(store.settings),
    change: (id, change) =>
      store.settings.change(id, (before) => {
        const after = change(before);
        if (after.language === "bad") throw new Error("disk");
        return after;
      }),
  });
  const results = await Promise.allSettled([
    broken.update(user, { language: "bad" }),
    broken.update(user, { agent: "CodeActAgent" }),
  ]);
  expect(results.map((result) => result.status)).toEqual(["rejected", "fulfilled"]);
  expect(await broken.view(user)).toMatchObject({ language: null, agent: "CodeActAgent" });
});
