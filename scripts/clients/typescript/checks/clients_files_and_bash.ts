/** FileClient and BashClient: files, folders, a trajectory, and the events of commands */
import assert from "node:assert/strict";
import { BashClient, ConversationClient, FileClient } from "@openhands/typescript-client/clients";
import { inSandbox } from "../support.ts";

await inSandbox(async (at) => {
  const files = new FileClient(at);
  await files.uploadTextFile("a text", "/workspace/project/folder/text.txt");
  assert.equal(await files.downloadTextFile("/workspace/project/folder/text.txt"), "a text");
  assert.equal((await files.downloadFile("/workspace/project/folder/text.txt")).byteLength, 6);
  const folders = await files.searchSubdirectories("/workspace/project");
  assert.deepEqual(
    folders.items.map(({ name }) => name),
    ["folder"],
  );
  assert.ok((await files.getHome()).home.startsWith("/"));
  const { id } = await new ConversationClient(at).createConversation({
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    agent_settings: {},
  });
  assert.ok((await files.downloadTrajectory(id)).size > 0);

  const bash = new BashClient(at);
  const command = await bash.startCommand("echo seen", "/workspace/project", 10);
  assert.equal((await bash.getEvent(command.id)).id, command.id);
  const found = await bash.getEvents([command.id]);
  assert.equal(found[0]?.id, command.id);
  assert.equal((await bash.batchGetEvents([command.id])).length, 1);
  assert.ok(await bash.clearEvents());
  for (const client of [files, bash]) client.close();
});
