/** Title, fork, navigation in the history, and the download of the trajectory */
import assert from "node:assert/strict";
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, turn }) => {
  await turn("say: First.");
  await conversation.setTitle("A title");
  const info = await conversation.state.refresh();
  assert.equal(info.title, "A title");
  const fork = await conversation.fork({ title: "A fork" });
  assert.notEqual(fork.id, conversation.id);
  assert.equal((await fork.state.refresh()).title, "A fork");
  const [first] = await conversation.state.events.getEvents();
  assert.equal((await conversation.state.events.getEventById(first!.id)).id, first!.id);
  const trajectory = new Uint8Array(await (await conversation.downloadTrajectory()).arrayBuffer());
  assert.deepEqual([...trajectory.slice(0, 2)], [0x50, 0x4b], "a zip file");
});
