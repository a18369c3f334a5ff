/** CloudClient pauses and resumes a sandbox, and reads its conversations and settings */
import assert from "node:assert/strict";
import { CloudClient } from "@openhands/typescript-client/clients";
import { inSandbox, key, until, url } from "../support.ts";

await inSandbox(async ({ id }) => {
  const cloud = new CloudClient({ host: url, apiKey: key });
  const reaches = (status: string) =>
    until(async () => {
      const [sandbox] = await cloud.getSandboxes([id]);
      return sandbox?.status === status ? status : undefined;
    });
  await cloud.pauseSandbox(id);
  await reaches("PAUSED");
  await cloud.resumeSandbox(id);
  await reaches("RUNNING");
  assert.ok((await cloud.searchConversations(10)).items);
  assert.ok((await cloud.getSettings()).agent_settings);
  await cloud.createSecret("CLOUD_SECRET", "a-secret-of-the-cloud-check");
  assert.ok((await cloud.listSecrets()).some(({ name }) => name === "CLOUD_SECRET"));
  await cloud.deleteSecret("CLOUD_SECRET");
  cloud.close();
});
