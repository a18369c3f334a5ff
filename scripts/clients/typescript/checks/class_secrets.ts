/** A secret of a conversation is masked in its events */
import assert from "node:assert/strict";
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, turn }) => {
  await conversation.updateSecrets({ CLIENT_SECRET: "correct-horse-battery" });
  await turn("run: echo my $CLIENT_SECRET\nsay: Told.");
  const events = JSON.stringify(await conversation.state.events.getEvents());
  assert.match(events, /echo my/);
  assert.match(events, /<secret-hidden>/);
  assert.doesNotMatch(events, /correct-horse-battery/);
});
