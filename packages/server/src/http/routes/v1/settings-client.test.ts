import { AgentProfilesClient, CloudClient } from "@openhands/typescript-client/clients";
import { afterAll, beforeAll, expect, test } from "vitest";
import { key, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

test("the released TypeScript client stores and reads settings and LLM profiles", async () => {
  const client = new CloudClient({ host: server.url, apiKey: key });
  await expect(client.getSettings()).rejects.toMatchObject({ status: 404 });
  await client.saveSettings({
    agent_settings_diff: { llm: { model: "openai/gpt-x", api_key: "sk-planted" }, agent_context: null },
    conversation_settings_diff: { max_iterations: 12 },
    app_preferences: { language: "de" },
  });
  const settings = await client.getSettingsWithDerivedFields();
  expect(settings).toMatchObject({
    language: "de",
    llm_api_key_set: true,
    agent_settings: { llm: { model: "openai/gpt-x" } },
    conversation_settings: { max_iterations: 12 },
  });
  expect((await client.getSettingsSchema()).sections.length).toBeGreaterThan(3);
  expect((await client.getConversationSettingsSchema()).model_name).toBe("ConversationSettings");

  await client.saveProfile("fast", { llm: { model: "openai/gpt-fast" }, include_secrets: true });
  expect(await client.getProfile("fast")).toMatchObject({
    name: "fast",
    config: { model: "openai/gpt-fast" },
    api_key_set: false,
  });
  expect(await client.activateProfile("fast")).toMatchObject({ name: "fast", llm_applied: true });
  await client.renameProfile("fast", "quick");
  expect(await client.listProfiles()).toMatchObject({
    active_profile: "quick",
    profiles: [{ name: "quick" }],
  });
  await client.deleteProfile("quick");
  client.close();
});

test("the released TypeScript client stores and uses agent profiles", async () => {
  const client = new AgentProfilesClient({ host: server.url, apiKey: key });
  await client.saveAgentProfile("review", { agent_kind: "openhands", llm_profile_ref: "none" });
  const { profile } = await client.getAgentProfile("review");
  expect(await client.materializeAgentProfile("review")).toMatchObject({
    valid: false,
    llm_profile_resolved: false,
  });
  await expect(client.activateAgentProfile(profile.id)).rejects.toMatchObject({ status: 422 });
  await client.renameAgentProfile("review", "judge");
  expect((await client.listAgentProfiles()).profiles).toMatchObject([
    { name: "default" },
    { id: profile.id, name: "judge" },
  ]);
  await client.deleteAgentProfile("judge");
  client.close();
});
