/** Conversation of the client: policy, analyzer, model and a condensation; files as texts */
import assert from "node:assert/strict";
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, turn, workspace }) => {
  await turn("run: echo one > one.txt");
  await conversation.setConfirmationPolicy({ kind: "NeverConfirm" } as never);
  await conversation.setSecurityAnalyzer({ kind: "LLMSecurityAnalyzer" } as never);
  const llm = { model: "openai/scripted", api_key: "sk-scripted", base_url: process.env.MODEL_URL! };
  await conversation.switchLlm({ ...llm, usage_id: "agent" } as never);
  await conversation.condense();
  await turn("say: the second answer");
  assert.equal(await conversation.getAgentFinalResponse(), "the second answer");
  assert.equal(await conversation.loadHooks(), null);
  await workspace.uploadText("up", "/workspace/project/up.txt");
  assert.equal(await workspace.downloadAsText("/workspace/project/up.txt"), "up");
  assert.equal((await workspace.downloadAsBlob("/workspace/project/up.txt")).size, 2);
});
