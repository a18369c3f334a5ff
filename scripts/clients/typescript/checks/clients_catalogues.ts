/** ServerClient, ToolClient, SkillsClient, HooksClient and BashClient read what the server has */
import assert from "node:assert/strict";
import {
  BashClient,
  HooksClient,
  ServerClient,
  SkillsClient,
  ToolClient,
} from "@openhands/typescript-client/clients";
import { inSandbox } from "../support.ts";

await inSandbox(async (at) => {
  assert.ok((await new ServerClient(at).getServerInfo()).version);
  assert.ok((await new ToolClient(at).listTools()).length > 0);
  assert.ok(Array.isArray((await new SkillsClient(at).getSkills({})).skills));
  assert.ok(await new HooksClient(at).loadHooks({ project_dir: "/workspace/project" }));
  const bash = new BashClient(at);
  const command = await bash.startCommand("echo from the client");
  assert.equal((await bash.executeCommand("true")).exit_code, 0);
  const { items } = await bash.searchEvents({ command_id__eq: command.id });
  assert.ok(items.length > 0);
});
