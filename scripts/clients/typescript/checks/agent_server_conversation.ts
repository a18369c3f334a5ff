/** ConversationClient creates a conversation in a sandbox and reads its end */
import assert from "node:assert/strict";
import { ConversationClient } from "@openhands/typescript-client/clients";
import { inSandbox, until } from "../support.ts";

await inSandbox(async ({ host, apiKey }) => {
  const conversations = new ConversationClient({ host, apiKey });
  const { id } = await conversations.createConversation({
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    agent_settings: {},
    initial_message: { role: "user", content: [{ type: "text", text: "run: echo agent\nsay: Agent." }] },
  });
  const status = await until(async () => {
    const conversation = await conversations.getConversation(id);
    return conversation.execution_status === "finished" ? conversation.execution_status : undefined;
  });
  assert.equal(status, "finished");
});
