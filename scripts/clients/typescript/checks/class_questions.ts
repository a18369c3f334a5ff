/** askAgent answers, and a goal begins and can be stopped */
import assert from "node:assert/strict";
import { until, withConversation } from "../support.ts";

await withConversation(async ({ conversation, seen, turn }) => {
  await turn("say: Ready.");
  assert.match(await conversation.askAgent("What is in this folder?"), /It says so/);
  await conversation.startGoal("Say it.", 1);
  await until(async () => seen.find((event) => "key" in event && event.key === "goal"));
  await conversation.stopGoal();
});
