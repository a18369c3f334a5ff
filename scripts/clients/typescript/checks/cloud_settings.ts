/** CloudClient: settings, secrets, model profiles, skills and a conversation's file and archive */
import assert from "node:assert/strict";
import { CloudClient } from "@openhands/typescript-client/clients";
import { key, until, url } from "../support.ts";

const cloud = new CloudClient({ host: url, apiKey: key });
await cloud.createSecret("CLOUD_SECRET", "a-value-of-the-cloud", "first");
await cloud.updateSecret("CLOUD_SECRET", "CLOUD_SECRET_2", "second");
const found = (await cloud.listSecrets()).find(({ name }) => name === "CLOUD_SECRET_2");
assert.equal(found?.description, "second");
await cloud.deleteSecret("CLOUD_SECRET_2");
assert.ok(await cloud.getSettingsSchema());
assert.ok(await cloud.getConversationSettingsSchema());
assert.ok((await cloud.getSettingsWithDerivedFields()).agent_settings);
await cloud.saveSettings({ conversation_settings_diff: { max_iterations: 400 } });
await cloud.saveProfile("cloud", { llm: { model: "openai/scripted" } } as never);
await cloud.renameProfile("cloud", "cloud-2");
assert.ok(await cloud.getProfile("cloud-2"));
await cloud.deleteProfile("cloud-2");
assert.ok(Array.isArray(await cloud.listSkills()));
const { id } = await cloud.createConversation({
  initial_message: { role: "user", content: [{ type: "text", text: "run: echo made > made.txt" }] },
});
const conversation = await until(async () => {
  const task = await cloud.getConversationStartTask(id);
  if (task?.status === "ERROR") throw new Error(task.detail ?? "");
  const [shown] = task?.app_conversation_id ? await cloud.getConversations([task.app_conversation_id]) : [];
  return shown?.execution_status === "finished" ? shown : undefined;
});
const path = `${conversation.workspace?.working_dir ?? "/workspace/project"}/made.txt`;
assert.equal(JSON.parse(await cloud.readConversationFile(conversation.id, path)), "made\n");
assert.ok((await cloud.downloadConversation(conversation.id)).size > 0);
assert.equal((await cloud.updateConversationPublicFlag(conversation.id, true)).public, true);
await cloud.deleteConversation(conversation.id);
