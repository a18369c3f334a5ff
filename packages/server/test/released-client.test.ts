import type { RemoteConversation, RemoteWorkspace } from "@openhands/typescript-client";
import type { CloudClient, ConversationClient } from "@openhands/typescript-client/clients";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { githubToken, serveGithub } from "./support/git-services/github.ts";
import type { ProviderServer } from "./support/git-services/serve.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { obey } from "./support/script.ts";

/**
 * Every released TypeScript client method that the platform serves, except settings
 * (agent-settings.test.ts).
 */

let clients: typeof import("@openhands/typescript-client/clients") &
  typeof import("@openhands/typescript-client");
let server: TestPlatform;
let models: ModelServer;
let github: ProviderServer;
let cloud: CloudClient;

beforeAll(async () => {
  // The client opens sockets by the browser's class, which it looks for when it is loaded.
  vi.stubGlobal("window", { WebSocket });
  clients = {
    ...(await import("@openhands/typescript-client/clients")),
    ...(await import("@openhands/typescript-client")),
  };
  models = await startModelServer(obey);
  github = await serveGithub();
  server = await startTestPlatform({ outboundPrivate: ["127.0.0.0/8"] });
  cloud = new clients.CloudClient({ host: server.url, apiKey: server.key });
  const llm = { model: "openai/scripted", api_key: "sk-planted", base_url: models.url };
  await cloud.saveSettings({ agent_settings_diff: { llm } });
});

afterAll(async () => {
  vi.unstubAllGlobals();
  cloud?.close();
  await server?.stop();
  await models?.close();
  github?.close();
});

const message = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const waitForEnd = (id: string) =>
  until(async () => {
    const [found] = await cloud.getConversations([id]);
    return ["finished", "error"].includes(String(found?.execution_status)) ? found! : undefined;
  });

async function start(request: Json): Promise<string> {
  const task = await cloud.createConversation(request);
  return until(async () => {
    const state = await cloud.getConversationStartTask(task.id);
    expect(state?.status, state?.detail ?? "").not.toBe("ERROR");
    return state?.status === "READY" ? (state.app_conversation_id ?? undefined) : undefined;
  });
}

test("conversations are started, read, changed, downloaded, switched to a model, paused, resumed and deleted", async () => {
  const id = await start({ initial_message: message("run: echo hi > a.txt"), title: "First" });
  const found = await waitForEnd(id);
  expect(found).toMatchObject({
    id,
    title: "First",
    execution_status: "finished",
    sandbox_status: "RUNNING",
  });
  expect(await cloud.getConversations([id, id.replace(/./g, "0")])).toEqual([
    expect.objectContaining({ id }),
    null,
  ]);
  const page = await cloud.searchConversations(1);
  expect(page).toMatchObject({ items: [{ id }], next_page_id: null });
  expect(JSON.parse(await cloud.readConversationFile(id, "/workspace/project/a.txt"))).toBe("hi\n");
  const zip = await cloud.downloadConversation(id);
  expect(
    Buffer.from(await zip.arrayBuffer())
      .subarray(0, 2)
      .toString(),
  ).toBe("PK");
  expect(await cloud.updateConversationPublicFlag(id, true)).toMatchObject({ public: true });

  await cloud.saveProfile("other", {
    llm: { model: "openai/other", api_key: "sk-other", base_url: models.url },
    include_secrets: true,
  });
  await cloud.switchConversationProfile(id, "other");
  expect((await cloud.getConversations([id]))[0]).toMatchObject({ llm_model: "openai/other" });
  await expect(cloud.switchConversationAcpModel(id, "x")).rejects.toMatchObject({ status: 400 });

  await cloud.pauseSandbox(found.sandbox_id!);
  expect(await cloud.getSandboxes([found.sandbox_id!, "nothing"])).toEqual([
    expect.objectContaining({ status: "PAUSED" }),
    null,
  ]);
  expect((await cloud.getConversations([id]))[0]).toMatchObject({
    sandbox_status: "PAUSED",
    session_api_key: null,
  });
  await cloud.resumeSandbox(found.sandbox_id!);
  expect(await cloud.getSandboxes([found.sandbox_id!])).toMatchObject([
    { status: "RUNNING", session_api_key: expect.any(String) },
  ]);
  await cloud.deleteConversation(id);
  expect(await cloud.getConversations([id])).toEqual([null]);
  expect(await cloud.getSandboxes([found.sandbox_id!])).toEqual([null]);
});

test("secrets, skills, models and keys are managed", async () => {
  await cloud.createSecret("TRACKER", "planted-value", "issues");
  await cloud.updateSecret("TRACKER", "TRACKER_TOKEN", "more");
  expect(await cloud.listSecrets()).toMatchObject([{ name: "TRACKER_TOKEN", description: "more" }]);
  expect(JSON.stringify(await cloud.listSecrets())).not.toContain("planted-value");
  await cloud.deleteSecret("TRACKER_TOKEN");
  expect(await cloud.listSecrets()).toEqual([]);
  expect(await cloud.listSkills()).toEqual([]);
  const models = await cloud.searchModels<Json>({ provider__eq: "anthropic", verified__eq: true, limit: 2 });
  expect(models.items).toMatchObject([
    { provider: "anthropic", verified: true },
    { provider: "anthropic", verified: true },
  ]);
  expect((await cloud.searchProviders<Json>({ query: "openai" })).items).toContainEqual({
    name: "openai",
    verified: true,
  });
  const { items, currentOrgId } = await cloud.getOrganizations();
  expect(items.map(({ id }) => id)).toEqual([currentOrgId]);
  expect(await cloud.getOrganizationMe(currentOrgId!)).toMatchObject({
    orgId: currentOrgId,
    userId: "default",
  });
  expect(await cloud.getCurrentApiKey()).toMatchObject({ user_id: "default" });
});

test("repositories, branches, installations and tasks of a git provider are listed", async () => {
  const none = cloud.searchRepositories({ provider: "github" });
  await expect(none).rejects.toMatchObject({ status: 401 });
  const provider_tokens = { github: { token: githubToken, host: github.host } };
  await cloud.post("/api/v1/secrets/git-providers", { provider_tokens });
  const first = await cloud.searchRepositories({ provider: "github", limit: 2 });
  expect(first.items.map(({ full_name }) => full_name)).toEqual(["ann/notes", "ann/web.site"]);
  const second = await cloud.searchRepositories({
    provider: "github",
    limit: 2,
    pageId: first.next_page_id!,
  });
  expect(second).toMatchObject({
    items: [{ full_name: "acme/widgets", main_branch: "main" }],
    next_page_id: null,
  });
  expect((await cloud.searchRepositories({ provider: "github", query: "widgets" })).items).toHaveLength(1);
  expect((await cloud.getInstallations({ provider: "github" })).items).toEqual(["11", "12"]);
  const branches = await cloud.getRepositoryBranches({ provider: "github", repository: "acme/widgets" });
  expect(branches.items.map(({ name }) => name)).toEqual(["main", "feature/one", "feature/two"]);
  const tasks = await cloud.getSuggestedTasks();
  expect(tasks.items[0]).toEqual({
    git_provider: "github",
    task_type: "MERGE_CONFLICTS",
    repo: "acme/widgets",
    issue_number: 1,
    title: "Pull 1",
  });
});

/**
 * A client's attachments to a conversation: workspace, conversation and plain calls, all with its
 * session key.
 */
async function attach(id: string): Promise<{
  workspace: RemoteWorkspace;
  plain: ConversationClient;
  remote: RemoteConversation;
  frames: Json[];
}> {
  const [shown] = await cloud.getConversations([id]);
  const [host, apiKey] = [new URL(shown!.conversation_url!).origin, shown!.session_api_key!];
  const workspace = new clients.RemoteWorkspace({ host, apiKey, workingDir: "/workspace/project" });
  const frames: Json[] = [];
  const remote = new clients.RemoteConversation({ kind: "Agent", llm: { model: "x" } }, workspace, {
    conversationId: id,
    callback: (event) => void frames.push(event as Json),
    onError: (error) => void frames.push({ kind: "error", error: error.message }),
  });
  return { workspace, remote, plain: new clients.ConversationClient({ host, apiKey }), frames };
}

test("a conversation URL supports follow, send, run, confirm, reject, pause, events and title", async () => {
  const id = await start({ initial_message: message("run: echo one") });
  await waitForEnd(id);
  const { remote, plain, workspace, frames } = await attach(id);
  await remote.start();
  await remote.startWebSocketClient();
  await until(() => frames.some(({ kind }) => kind === "ConversationStateUpdateEvent") || undefined);
  expect(await remote.state.getExecutionStatus()).toBe("finished");

  const statuses = () => frames.filter(({ key }) => key === "execution_status").map(({ value }) => value);
  await remote.sendMessage("run: echo two > two.txt");
  await remote.run();
  await until(() => statuses().at(-1) === "finished" || undefined);
  expect(frames.find(({ kind, source }) => kind === "MessageEvent" && source === "user")).toMatchObject({
    llm_message: { content: [{ text: "run: echo two > two.txt" }] },
  });
  expect(frames.filter(({ kind }) => kind === "error")).toEqual([]);
  expect(await remote.conversationStats()).toMatchObject({
    usage_to_metrics: { agent: { model_name: "openai/scripted" } },
  });
  const own = new clients.ConversationClient({ host: server.url, apiKey: server.key });
  await own.updateConversation(id, { title: "Second" });
  own.close();
  expect((await cloud.getConversations([id]))[0]).toMatchObject({ title: "Second" });
  // Followers get it without a request.
  await until(() => frames.find(({ key, value }) => key === "title" && value === "Second"));
  expect(await remote.getHookConfig()).toBeNull();

  const events = await remote.state.events.getEvents();
  const messages = await remote.state.events.search({ kind: "MessageEvent", source: "user", limit: 1 });
  expect(messages).toMatchObject({ items: [{ kind: "MessageEvent" }], next_page_id: expect.any(String) });
  expect(await remote.state.events.count({ kind: "MessageEvent" })).toBe(2);
  const first = events[0]!.id;
  expect(await remote.state.events.getEventsById([first, id])).toEqual([
    expect.objectContaining({ id: first }),
    null,
  ]);
  expect(await plain.getEventCount(id)).toBe((await plain.searchEvents(id)).items.length);
  expect(await plain.getConversation(id)).toMatchObject({ execution_status: "finished" });
  expect(await plain.getConversations([id])).toMatchObject([{ title: "Second" }]);

  expect(await workspace.gitChanges("/workspace/project")).toEqual([{ status: "ADDED", path: "two.txt" }]);
  expect(await workspace.gitDiff("/workspace/project/two.txt")).toEqual({
    original: null,
    modified: "two\n",
  });
  expect(await workspace.uploadText("sent", "/workspace/sent.txt")).toMatchObject({ success: true });
  expect(JSON.parse(await cloud.readConversationFile(id, "/workspace/sent.txt"))).toBe("sent");

  await plain.sendEvent(id, message("run: sleep 60"), { run: true });
  await until(() => statuses().at(-1) === "running" || undefined);
  await until(() => frames.some(({ action }) => action?.command === "sleep 60") || undefined);
  await plain.interruptConversation(id);
  await until(() => statuses().at(-1) === "paused" || undefined);
  await remote.close();
  plain.close();
});

test("waiting actions are approved or rejected", async () => {
  const conversation_settings_diff = { confirmation_mode: true, security_analyzer: null };
  await cloud.saveSettings({ conversation_settings_diff });
  const id = await start({ initial_message: message("run: echo one > one.txt") });
  const { remote, workspace, frames } = await attach(id);
  await remote.startWebSocketClient();
  const waiting = () =>
    until(
      async () => (await remote.state.refresh()).execution_status === "waiting_for_confirmation" || undefined,
    );
  await waiting();
  expect(await remote.state.getConfirmationPolicy()).toMatchObject({ kind: "AlwaysConfirm" });
  await remote.sendConfirmationResponse(true);
  await until(() => frames.some(({ kind }) => kind === "ObservationEvent") || undefined);
  await waitForEnd(id);
  await remote.sendMessage("run: echo two > two.txt");
  await remote.run();
  await waiting();
  await remote.sendConfirmationResponse(false, "Not this one.");
  await until(() => frames.find(({ kind }) => kind === "UserRejectObservation"));
  expect(frames.find(({ kind }) => kind === "UserRejectObservation")).toMatchObject({
    rejection_reason: "Not this one.",
  });
  expect(await workspace.gitChanges("/workspace/project")).toEqual([{ status: "ADDED", path: "one.txt" }]);
  await remote.close();
});

test("a server reports its health and describes itself", async () => {
  const probe = new clients.ServerClient({ host: server.url });
  expect(await probe.getAlive()).toEqual({ status: "ok" });
  expect(await probe.getHealth()).toBe("OK");
  expect(await probe.getReady()).toBe("OK");
  expect(await probe.getServerInfo()).toMatchObject({
    uptime: expect.any(Number),
    idle_time: expect.any(Number),
  });
  probe.close();
});
