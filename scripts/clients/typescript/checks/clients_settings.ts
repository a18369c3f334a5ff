/** SettingsClient changes settings, secrets and model profiles */
import assert from "node:assert/strict";
import { SettingsClient } from "@openhands/typescript-client/clients";
import { inSandbox } from "../support.ts";

await inSandbox(async (at) => {
  const settings = new SettingsClient(at);
  const before = await settings.getSettings();
  assert.ok(before.agent_settings, "no agent settings");
  assert.ok(await settings.getAgentSchema());
  assert.ok(await settings.getConversationSchema());
  await settings.upsertSecret({ name: "TYPESCRIPT_SECRET", value: "a-secret-of-the-check" });
  const names = (await settings.listSecrets()).secrets.map(({ name }) => name);
  assert.ok(names.includes("TYPESCRIPT_SECRET"), names.join());
  await settings.deleteSecret("TYPESCRIPT_SECRET");
  await settings.saveProfile("typescript", { llm: { model: "openai/scripted" } } as never);
  const { profiles } = await settings.listProfiles();
  assert.ok(profiles.some(({ name }) => name === "typescript"));
  await settings.renameProfile("typescript", "typescript-2");
  await settings.deleteProfile("typescript-2");
  settings.close();
});
