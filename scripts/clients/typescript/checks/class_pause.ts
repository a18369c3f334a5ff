/** A pause stops the work, and the next run continues it */
import { withConversation } from "../support.ts";

await withConversation(async ({ conversation, reaches }) => {
  await conversation.sendMessage("run: sleep 0.5\nrun: sleep 0.5\nsay: Slept.");
  await conversation.run();
  await conversation.pause();
  await reaches("paused");
  await conversation.run();
  await reaches("finished");
});
