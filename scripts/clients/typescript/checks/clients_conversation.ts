/** ConversationClient: lists, events, policy, secrets, model, fork, title, deletion */
import assert from "node:assert/strict";
import { ConversationClient } from "@openhands/typescript-client/clients";
import { inSandbox, until } from "../support.ts";

await inSandbox(async (at) => {
  const client = new ConversationClient(at);
  const { id } = await client.createConversation({
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    agent_settings: {},
  });
  assert.ok((await client.searchConversations({ limit: 5 })).items.some((found) => found.id === id));
  assert.equal(await client.countConversations(), 1);
  assert.equal((await client.getConversations([id]))[0]?.id, id);
  await client.setConfirmationPolicy(id, { kind: "NeverConfirm" } as never);
  await client.setSecurityAnalyzer(id, { kind: "LLMSecurityAnalyzer" });
  await client.updateSecrets(id, { secrets: { CLIENT_TOKEN: "a-value-of-the-client" } } as never);
  const llm = { model: "openai/scripted", api_key: "sk-scripted", base_url: process.env.MODEL_URL! };
  await client.switchLLM(id, { ...llm, usage_id: "agent" } as never);
  await client.sendEvent(id, { role: "user", content: [{ type: "text", text: "run: true\nsay: the end" }] });
  await client.runConversation(id);
  await until(async () => (await client.getConversation(id)).execution_status === "finished" || undefined);
  assert.equal((await client.getAgentFinalResponse(id)).response, "the end");
  const { items } = await client.searchEvents(id, { limit: 100 });
  assert.equal(await client.getEventCount(id), items.length);
  const [first] = items;
  assert.equal((await client.getEvent(id, first!.id)).id, first!.id);
  assert.equal((await client.getEvents(id, [first!.id]))[0]?.id, first!.id);
  await client.condenseConversation(id);
  await client.updateConversation(id, { title: "A title" } as never);
  assert.equal((await client.getConversation(id)).title, "A title");
  const fork = await client.forkConversation(id, { title: "A fork" } as never);
  await client.navigateConversation(fork.id, { event_id: first!.id } as never);
  await client.interruptConversation(id);
  await client.pauseConversation(id);
  await client.deleteConversation(fork.id);
  assert.deepEqual(await client.getConversations([fork.id]), [null]);
  client.close();
});
