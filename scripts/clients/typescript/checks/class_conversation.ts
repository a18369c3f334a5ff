/** Conversation of the client: start, socket, run, events, statistics and the last answer */
import assert from "node:assert/strict";
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, seen, turn }) => {
  await turn("run: echo class > class.txt\nsay: Class.");
  assert.equal(await conversation.getAgentFinalResponse(), "Class.");
  const kinds = new Set(seen.map(({ kind }) => kind));
  for (const kind of ["MessageEvent", "ActionEvent", "ObservationEvent", "ConversationStateUpdateEvent"])
    assert.ok(kinds.has(kind), `no ${kind} arrived over the socket`);
  const events = await conversation.state.events.getEvents();
  assert.ok((await conversation.state.events.count()) >= 4);
  assert.ok(events.length >= 4);
  assert.ok(await conversation.conversationStats());
  assert.equal(await conversation.state.getExecutionStatus(), "finished");
});
