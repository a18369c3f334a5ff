/** Commands, uploads, downloads and git of a workspace */
import assert from "node:assert/strict";
import { inWorkspace } from "../support.ts";

await inWorkspace(async (workspace) => {
  const folder = workspace.workingDir;
  const failed = await workspace.executeCommand("echo out; echo err >&2; exit 3", folder, 30);
  assert.equal(failed.exit_code, 3);
  assert.match(failed.stdout, /out/);
  await workspace.executeCommand("git init -q . && git commit -q --allow-empty -m Empty", folder, 30);
  const uploaded = await workspace.uploadText("hello\n", `${folder}/hello.txt`);
  assert.ok(uploaded.success, uploaded.error ?? "");
  assert.equal(await workspace.downloadAsText(`${folder}/hello.txt`), "hello\n");
  const changes = await workspace.gitChanges(folder);
  assert.ok(
    changes.some(({ path }) => path.endsWith("hello.txt")),
    JSON.stringify(changes),
  );
  assert.ok(await workspace.gitDiff(`${folder}/hello.txt`));
});
