/** CloudClient starts, reads, lists and deletes a conversation */
import assert from "node:assert/strict";
import { CloudClient } from "@openhands/typescript-client/clients";
import { key, until, url } from "../support.ts";

const cloud = new CloudClient({ host: url, apiKey: key });
const task = await cloud.createConversation({
  initial_message: { role: "user", content: [{ type: "text", text: "run: echo cloud\nsay: Cloud." }] },
});
const id = await until(async () => {
  const state = await cloud.getConversationStartTask(task.id);
  assert.notEqual(state?.status, "ERROR", state?.detail ?? "");
  return state?.status === "READY" ? (state.app_conversation_id ?? undefined) : undefined;
});
const found = await until(async () => {
  const [conversation] = await cloud.getConversations([id]);
  return conversation?.execution_status === "finished" ? conversation : undefined;
});
assert.equal(found.id, id);
cloud.close();
