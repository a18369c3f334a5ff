/** ProfilesClient, AgentProfilesClient and WorkspacesClient save, change and delete */
import assert from "node:assert/strict";
import { AgentProfilesClient, ProfilesClient, WorkspacesClient } from "@openhands/typescript-client/clients";
import { inSandbox } from "../support.ts";

await inSandbox(async (at) => {
  const llm = { model: "openai/scripted", api_key: "sk-scripted", base_url: process.env.MODEL_URL! };
  const profiles = new ProfilesClient(at);
  await profiles.saveProfile("client-a", { llm, include_secrets: true } as never);
  assert.equal((await profiles.getProfile("client-a")).config.model, "openai/scripted");
  // Version 1.36 validates nothing.
  if ("validateProfile" in profiles)
    assert.ok(await profiles.validateProfile("client-a", { llm, include_secrets: true } as never));
  await profiles.renameProfile("client-a", "client-b");
  await profiles.activateProfile("client-b");
  assert.equal((await profiles.listProfiles()).active_profile, "client-b");

  const agents = new AgentProfilesClient(at);
  await agents.saveAgentProfile("client-agent", {
    agent_kind: "openhands",
    llm_profile_ref: "client-b",
  } as never);
  const { profile } = await agents.getAgentProfile("client-agent");
  assert.ok((await agents.listAgentProfiles()).profiles.some(({ name }) => name === "client-agent"));
  assert.ok(await agents.materializeAgentProfile("client-agent"));
  const before = (await agents.listAgentProfiles()).active_agent_profile_id;
  await agents.activateAgentProfile(profile.id!);
  assert.equal((await agents.listAgentProfiles()).active_agent_profile_id, profile.id);
  if (before) await agents.activateAgentProfile(before);
  await agents.renameAgentProfile("client-agent", "client-agent-2");
  await agents.deleteAgentProfile("client-agent-2");
  await profiles.deleteProfile("client-b");

  const workspaces = new WorkspacesClient(at);
  const item = { id: "one", name: "One", path: "/workspace/project" };
  const has = (list: { path: string }[]) => list.some(({ path }) => path === item.path);
  assert.ok(has((await workspaces.addWorkspaces([item])).workspaces));
  assert.ok(has((await workspaces.addWorkspaceParents([item])).workspaceParents));
  assert.ok((await workspaces.deleteWorkspace(item.path)).deleted);
  assert.ok((await workspaces.deleteWorkspaceParent(item.path)).deleted);
  assert.ok(!has((await workspaces.listWorkspaces()).workspaces));
});
