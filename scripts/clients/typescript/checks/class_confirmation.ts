/** A policy that always asks; the user rejects a command and accepts the next */
import assert from "node:assert/strict";
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, reaches, workspace }) => {
  await conversation.setConfirmationPolicy({ kind: "AlwaysConfirm" } as never);
  await conversation.sendMessage("run: touch rejected.txt\nrun: touch accepted.txt\nsay: Asked.");
  await conversation.run();
  await reaches("waiting_for_confirmation");
  await conversation.sendConfirmationResponse(false, "not this one");
  await reaches("idle", "finished", "paused");
  await conversation.run();
  let status = await reaches("waiting_for_confirmation");
  for (let asked = 0; asked < 3 && status === "waiting_for_confirmation"; asked++) {
    await conversation.sendConfirmationResponse(true);
    status = await reaches("waiting_for_confirmation", "finished");
  }
  assert.equal(status, "finished");
  const { stdout } = await workspace.executeCommand("ls", workspace.workingDir);
  assert.match(stdout, /accepted\.txt/);
  assert.doesNotMatch(stdout, /rejected\.txt/);
});
