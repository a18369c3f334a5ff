import * as clients from "@openhands/typescript-client/clients";
import { builtInSubAgents } from "@sandpiper/agent/sub-agents/built-in";
import { invalid } from "@sandpiper/core/test/support/stub";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type McpServer, startMcpServer } from "./support/mcp-server.ts";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";

/** The released TypeScript client's settings, catalogue and extension classes. */

let server: TestPlatform;
let models: ModelServer;
let mcp: McpServer;
let options: { host: string; apiKey: string };

const mcpKey = "planted-mcp-key";

beforeAll(async () => {
  models = await startModelServer(({ headers }) => {
    if (headers.authorization !== "Bearer sk-good") return reply.error(401, "Incorrect API key provided");
    return reply.text("pong");
  });
  mcp = await startMcpServer(mcpKey);
  server = await startTestPlatform({ outboundPrivate: ["127.0.0.0/8"] });
  const { id } = (await server.call("POST", "/api/v1/sandboxes")).body;
  options = await until(async () => {
    const { body } = await server.call("GET", `/api/v1/sandboxes?id=${id}`);
    const [{ status, session_api_key: apiKey, exposed_urls: urls }] = body;
    const host = urls?.find(({ name }: { name: string }) => name === "AGENT_SERVER")?.url;
    return status === "RUNNING" ? { host, apiKey } : undefined;
  });
  const bash = new clients.BashClient(options);
  const files = {
    ".openhands/hooks.json":
      '{"hooks":{"PreToolUse":[{"matcher":"terminal","hooks":[{"command":"./check.sh","timeout":5}]}]}}',
    ".agents/skills/deploy.md": "---\nname: deploy\ntriggers: [ship it]\n---\nDeploy with make.",
    "AGENTS.md": "Use tabs.",
  };
  for (const [path, text] of Object.entries(files)) {
    const { exit_code } = await bash.executeCommand({
      command: `mkdir -p "$(dirname /workspace/project/${path})" && cat > /workspace/project/${path} <<'END'\n${text}\nEND`,
    });
    expect(exit_code).toBe(0);
  }
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
  mcp?.close();
});

test("the server describes itself, at the root too", async () => {
  const client = new clients.ServerClient(options);
  expect(await client.getAlive()).toEqual({ status: "ok" });
  expect(await client.getHealth()).toEqual({ status: "ok" });
  expect(await client.getReady()).toEqual({ status: "ready" });
  const info = await client.getServerInfo();
  expect(info).toMatchObject({
    version: "1.52.0",
    usable_tools: expect.arrayContaining(["terminal", "file_editor"]),
  });
  expect(await client.getRoot()).toMatchObject({ version: info.version, docs: "/docs" });
  expect(clients.compareAgentServerVersions(String(info.version), "1.28.0")).toBe(1);
  expect(await new clients.ToolClient(options).listTools()).toEqual(info.usable_tools);
  // Clients may drop the path of the address: the key identifies the sandbox.
  const atRoot = { ...options, host: server.url };
  expect(await new clients.ServerClient(atRoot).getRoot()).toMatchObject({ version: info.version });
  expect(await new clients.SettingsClient(atRoot).getSettings()).toHaveProperty("llm_api_key_is_set");
});

test("settings, MCP servers and secrets are stored and masked", async () => {
  const client = new clients.SettingsClient(options);
  expect((await client.getAgentSchema()).model_name).toBe("AgentSettings");
  expect((await client.getConversationSchema()).model_name).toBe("ConversationSettings");
  await client.updateSettings({
    agent_settings_diff: { llm: { model: "openai/scripted", api_key: "sk-good", base_url: models.url } },
  });
  const masked = await client.getSettings();
  expect(masked).toMatchObject({
    llm_api_key_is_set: true,
    agent_settings: { llm: { api_key: "**********" } },
  });
  const plain = await client.getSettings({ exposeSecrets: "plaintext" });
  expect(plain).toMatchObject({
    agent_settings: { llm: { model: "openai/scripted", api_key: "sk-good", base_url: models.url } },
  });
  await client.createMcpServer("one", { url: "https://one.example/mcp", transport: "http" });
  await client.patchMcpServer("one", { description: "First" });
  expect(await client.getSettings()).toMatchObject({
    agent_settings: { mcp_config: { one: { description: "First" } } },
  });
  await client.deleteMcpServer("one");
  await client.upsertSecret({ name: "DEPLOY", value: "v", description: "to deploy" });
  expect(await client.listSecrets()).toEqual({ secrets: [{ name: "DEPLOY", description: "to deploy" }] });
  expect(await client.getSecret("DEPLOY")).toBe("v");
  expect(await client.deleteSecret("DEPLOY")).toEqual({ deleted: true });
  await expect(client.getSecret("DEPLOY")).rejects.toMatchObject({ status: 404 });
});

test("a conversation uses a stored model whose key the client never sees", async () => {
  const settings = new clients.SettingsClient(options);
  const { agent_settings } = await settings.getSettings({ exposeSecrets: "encrypted" });
  const llm = agent_settings.llm as Record<string, unknown>;
  expect(llm.api_key).not.toBe("sk-good");
  const client = new clients.ConversationClient(options);
  const create = (request: object) =>
    client.createConversation({
      workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
      ...request,
    });
  const initial_message = { role: "user", content: [{ type: "text", text: "ping" }], run: true };
  const made = await create({ agent: { kind: "Agent", llm }, secrets_encrypted: true, initial_message });
  expect(JSON.stringify(made)).not.toMatch(/sk-good|sealed-v1|gAAAAA/);
  const id = made.id as string;
  await until(async () => (await client.getConversation(id)).execution_status === "finished");
  expect(await client.getAgentFinalResponse(id)).toMatchObject({ response: "pong" });
  const calls = models.requests.length;
  await client.switchLLM(id, invalid({ ...llm, usage_id: "other" }));
  await client.sendEvent(id, { role: "user", content: [{ type: "text", text: "again" }] }, { run: true });
  await until(() => models.requests.length > calls);
  expect(models.requests.at(-1)!.apiKey).toBe("sk-good");
  const broken = { ...llm, api_key: `${String(llm.api_key).slice(0, -6)}AAAAAA` };
  await expect(
    create({ agent: { kind: "Agent", llm: broken }, secrets_encrypted: true }),
  ).rejects.toMatchObject({ status: 422 });
});

test("LLM profiles are verified and saved", async () => {
  const client = new clients.ProfilesClient(options);
  const llm = { model: "openai/scripted", api_key: "sk-good", base_url: models.url };
  expect(await client.validateProfile("mine", { llm })).toEqual({ valid: true, error: null });
  const wrong = await client.validateProfile("mine", { llm: { ...llm, api_key: "sk-wrong-1234" } });
  expect(wrong).toEqual({
    valid: false,
    error: { type: "model", message: expect.stringMatching(/Incorrect API key/) },
  });
  expect(JSON.stringify(wrong)).not.toContain("sk-wrong-1234");
  const nameless = await client.validateProfile("mine", { llm: { model: "nobody/knows-this" } });
  expect(nameless).toMatchObject({ valid: false, error: { type: "configuration" } });

  await client.saveProfile("mine", { llm });
  expect(await client.validateProfile("mine", { llm: { ...llm, api_key: "**********" } })).toMatchObject({
    valid: true,
  });
  const { config } = await client.getProfile("mine", { exposeSecrets: "encrypted" });
  expect(config.api_key).not.toBe("sk-good");
  await client.saveProfile("mine", { llm: invalid({ ...config, usage_id: "again" }) });
  expect((await client.getProfile("mine", { exposeSecrets: "plaintext" })).config).toMatchObject({
    ...llm,
    usage_id: "again",
  });
  await client.activateProfile("mine");
  expect(await client.listProfiles()).toMatchObject({
    active_profile: "mine",
    profiles: [{ name: "mine", api_key_set: true }],
  });
  await client.renameProfile("mine", "yours");
  const agents = new clients.AgentProfilesClient(options);
  await agents.saveAgentProfile("coder", invalid({ llm_profile_ref: "yours" }));
  const { id } = (await agents.listAgentProfiles()).profiles.find(({ name }) => name === "coder")!;
  expect(await agents.materializeAgentProfile("coder")).toMatchObject({ valid: true, llm_api_key_set: true });
  await agents.activateAgentProfile(id!);
  await agents.renameAgentProfile("coder", "writer");
  expect((await agents.getAgentProfile("writer")).profile).toMatchObject({ id, name: "writer" });
  await agents.deleteAgentProfile("writer");
  await client.deleteProfile("yours");
});

test("known models are listed; subscriptions, meta-profiles and automations are not supported", async () => {
  const client = new clients.LLMMetadataClient(options);
  const providers = await client.getProviders();
  expect(providers).toEqual(expect.arrayContaining(["anthropic", "openai"]));
  const anthropic = await client.getModels("anthropic");
  expect(anthropic.length).toBeGreaterThan(0);
  expect(anthropic.every((name) => name.startsWith("anthropic/"))).toBe(true);
  expect((await client.getModels()).length).toBeGreaterThan(anthropic.length);
  expect((await client.getVerifiedModels()).anthropic!.map((name) => `anthropic/${name}`)).toEqual(anthropic);
  expect(await client.getOpenAISubscriptionModels()).toEqual([]);
  expect(await client.getOpenAISubscriptionStatus()).toMatchObject({ connected: false });
  expect(await client.logoutOpenAISubscription()).toMatchObject({ connected: false });
  await expect(client.startOpenAISubscriptionDeviceLogin()).rejects.toMatchObject({ status: 400 });
  await expect(client.pollOpenAISubscriptionDeviceLogin("x")).rejects.toMatchObject({ status: 404 });
  const meta = new clients.MetaProfilesClient(options);
  expect(await meta.listMetaProfiles()).toEqual({ meta_profiles: [], active_meta_profile: null });
  await expect(meta.getMetaProfile("x")).rejects.toMatchObject({ status: 404 });
  await expect(meta.saveMetaProfile("x", invalid({}))).rejects.toMatchObject({ status: 400 });
  // The GUI lists automations on its first page.
  const automations = await fetch(`${options.host}/api/automation/v1?limit=50&offset=0`, {
    headers: { "x-session-api-key": options.apiKey },
  });
  expect(await automations.json()).toEqual({ automations: [], total: 0 });
});

test("an MCP server is tested, with the secrets of the stored server of the same name", async () => {
  const client = new clients.MCPClient(options);
  const { url } = mcp;
  const auth = { strategy: "bearer", value: mcpKey } as const;
  const server = { type: "http", url, auth } as const;
  const call = { name: "add", arguments: { a: 2, b: 3 } };
  expect(await client.testServer({ name: "sums", server, tool_call: call })).toEqual({
    ok: true,
    tools: ["add"],
    tool_result: { is_error: false, text: "5" },
  });
  const masked = { ...server, auth: { ...auth, value: "**********" } };
  expect(await client.testServer({ name: "sums", server: masked })).toMatchObject({
    ok: false,
    error_kind: "connection",
  });
  await new clients.SettingsClient(options).createMcpServer("sums", invalid({ url, auth }));
  expect(await client.testServer({ name: "sums", server: masked })).toMatchObject({ ok: true });
  expect(await client.testServer({ server: { type: "stdio", command: "id" } })).toMatchObject({
    ok: false,
  });
  expect(await client.startOAuth({ server })).toMatchObject({
    ok: false,
    error: expect.any(String),
  });
  await expect(client.getOAuthStatus("x")).rejects.toMatchObject({ status: 404 });
  await expect(client.submitOAuthCallback("x", { callback_url: "http://x" })).rejects.toMatchObject({
    status: 404,
  });
});

test("skills and hooks of the sandbox's project are listed", async () => {
  const hooks = new clients.HooksClient(options);
  expect(await hooks.loadHooks({ project_dir: "/workspace/project" })).toEqual({
    hook_config: {
      pre_tool_use: [
        {
          matcher: "terminal",
          hooks: [{ type: "command", command: "./check.sh", timeout: 5, async: false }],
        },
      ],
      post_tool_use: [],
      user_prompt_submit: [],
      session_start: [],
      session_end: [],
      stop: [],
    },
  });
  expect(await hooks.loadHooks({ project_dir: "/tmp" })).toEqual({ hook_config: null });
  const client = new clients.SkillsClient(options);
  const { skills, sources } = await client.getSkills({ project_dir: "/workspace/project" });
  const found = (name: string) => skills.find((skill) => skill.name === name);
  expect(found("deploy")).toMatchObject({
    type: "knowledge",
    triggers: ["ship it"],
    content: "Deploy with make.",
  });
  expect(skills.find(({ content }) => content.includes("Use tabs."))).toMatchObject({ type: "repo" });
  expect(sources).toMatchObject({ project: skills.length, user: 0, public: 0 });
  expect((await client.getSkills({ load_project: false })).skills).toEqual([]);
  expect(await client.syncSkills()).toMatchObject({ status: "success" });
  expect(await client.listInstalledSkills()).toEqual({ skills: [] });
  expect(await client.getMarketplace()).toEqual({ skills: [] });
  await expect(client.installSkill({ source: "github:a/b" })).rejects.toMatchObject({ status: 400 });
  for (const absent of [
    () => client.getInstalledSkill("x"),
    () => client.toggleSkill("x", true),
    () => client.uninstallSkill("x"),
    () => client.refreshSkill("x"),
  ])
    await expect(absent()).rejects.toMatchObject({ status: 404 });
  const plugins = new clients.PluginsClient(options);
  expect(await plugins.getPlugins()).toEqual({ plugins: [] });
  expect(await plugins.listInstalledPlugins()).toEqual({ plugins: [] });
  expect(await plugins.getPluginsMarketplace()).toEqual({ plugins: [] });
  await expect(plugins.installPlugin({ source: "github:a/b" })).rejects.toMatchObject({ status: 400 });
  const { agents } = await new clients.SubAgentsClient(options).getSubAgents();
  expect(agents.map(({ name }) => name)).toEqual(builtInSubAgents.map(({ name }) => name));
});

test("workspaces can be saved; editor and desktop are not supported", async () => {
  const client = new clients.WorkspacesClient(options);
  expect(await client.listWorkspaces()).toEqual({ workspaces: [], workspaceParents: [] });
  const shop = { id: "1", name: "shop", path: "/workspace/shop", parentPath: "/workspace" };
  await client.addWorkspaces([shop]);
  await client.addWorkspaces([{ ...shop, name: "Shop" }]);
  const all = await client.addWorkspaceParents([{ id: "2", name: "all", path: "/workspace" }]);
  expect(all).toEqual({
    workspaces: [{ ...shop, name: "Shop" }],
    workspaceParents: [{ id: "2", name: "all", path: "/workspace" }],
  });
  expect(await client.deleteWorkspace("/workspace/shop")).toEqual({ deleted: true });
  expect(await client.deleteWorkspace("/workspace/shop")).toEqual({ deleted: false });
  expect(await client.deleteWorkspaceParent("/workspace")).toEqual({ deleted: true });
  const vscode = new clients.VSCodeClient(options);
  expect(await vscode.getUrl({ baseUrl: "http://x", workspaceDir: "/workspace" })).toBe(null);
  expect(await vscode.getStatus()).toMatchObject({ running: false, enabled: false });
  expect(await new clients.DesktopClient(options).getUrl("http://x")).toBe(null);
});
