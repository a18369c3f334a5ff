/** Models, plugins, skills, sub-agents, MCP servers, VS Code and meta-profiles are listed */
import assert from "node:assert/strict";
import {
  LLMMetadataClient,
  MCPClient,
  MetaProfilesClient,
  PluginsClient,
  ServerClient,
  SkillsClient,
  SubAgentsClient,
  VSCodeClient,
} from "@openhands/typescript-client/clients";
import { inSandbox } from "../support.ts";

await inSandbox(async (at) => {
  const models = new LLMMetadataClient(at);
  assert.ok((await models.getProviders()).includes("openai"));
  assert.ok((await models.getModels("openai")).length > 0);
  assert.ok((await models.getVerifiedModels()).openai);
  assert.equal((await models.getOpenAISubscriptionStatus()).connected, false);
  const server = new ServerClient(at);
  assert.ok((await server.getAlive()) && (await server.getHealth()) && (await server.getReady()));
  const plugins = new PluginsClient(at);
  assert.ok(await plugins.getPlugins());
  assert.ok(await plugins.getPluginsMarketplace());
  assert.deepEqual((await plugins.listInstalledPlugins()).plugins, []);
  const skills = new SkillsClient(at);
  assert.ok(await skills.getMarketplace());
  assert.deepEqual((await skills.listInstalledSkills()).skills, []);
  assert.ok(await new SubAgentsClient(at).getSubAgents());
  const test = { name: "x", server: { command: "true" } };
  assert.equal((await new MCPClient(at).testServer(test as never)).ok, false);
  const code = new VSCodeClient(at);
  assert.equal(await code.getUrl(), null);
  assert.ok(await code.getStatus());
  assert.deepEqual((await new MetaProfilesClient(at).listMetaProfiles()).meta_profiles, []);
});
