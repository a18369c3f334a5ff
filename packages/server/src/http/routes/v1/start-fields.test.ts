import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { planStart } from "../../../conversations/start/start-plan.ts";

let server: TestServer;
const url = "/api/v1/app-conversations";
const tasks = () => server.store.startTasks.count({ userId: "default" });
const start = (body: unknown, key?: string) => read(server.call("POST", url, { body, ...(key && { key }) }));
const message = { content: [{ type: "text", text: "Hi" }] };
const suggested_task = {
  git_provider: "github",
  task_type: "OPEN_ISSUE",
  repo: "acme/widgets",
  issue_number: 7,
  title: "It breaks",
};

/** The finished task of an accepted start; without an engine it ends in ERROR. */
async function over(id: string): Promise<Record<string, any>> {
  for (;;) {
    const { body } = await read(server.call("GET", `${url}/start-tasks?ids=${id}`));
    if (["READY", "ERROR"].includes(body[0].status)) return body[0];
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

beforeAll(async () => {
  server = await startServer();
  await server.settings.update("default", { llm_model: "demo" });
});
afterAll(() => server.close());

test("a conversation is listed as soon as its start is answered", async () => {
  const task = await server.conversations.starts.start("default", { title: "At once" });
  const { items } = await server.conversations.reads.search(
    { userId: "default" },
    { limit: 100 },
    { userId: "default", source: "" },
  );
  expect(items.map(({ title }) => title)).toContain("At once");
  expect(task.status).toBe("WORKING");
});

test("requests of released clients are accepted: nulls, empty lists, unknown keys", async () => {
  const { status, body } = await start({
    ...{
      sandbox_id: null,
      conversation_id: null,
      initial_message: null,
      system_message_suffix: null,
      processors: [],
    },
    ...{
      llm_model: null,
      agent_profile_id: null,
      selected_repository: null,
      selected_branch: null,
      git_provider: null,
    },
    ...{
      suggested_task: null,
      title: null,
      trigger: "gui",
      pr_number: [],
      parent_conversation_id: null,
      agent_type: "default",
    },
    ...{
      public: null,
      observability_metadata: { a: 1 },
      observability_tags: ["x"],
      observability_span_name: "s",
      plugins: null,
    },
    ...{ secrets: null, tags: {}, a_key_of_the_future: { deep: true } },
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({ status: "WORKING", sandbox_id: null, app_conversation_id: null });
  await over(body.id);
});

describe("a start with an invalid field is refused as a whole", () => {
  test.each([
    ["both a suggested task and a message", { suggested_task, initial_message: message }, 422],
    ["an unknown parent", { parent_conversation_id: newId() }, 404],
    ["a parent that is no id", { parent_conversation_id: "x" }, 404],
    ["an unknown agent profile", { agent_profile_id: newId() }, 404],
    ["a repository without owner", { selected_repository: "widgets" }, 422],
    ["a repository with a command", { selected_repository: "acme/$(id)" }, 422],
    [
      "a branch that is an option",
      { selected_repository: "acme/widgets", selected_branch: "--upload-pack=x" },
      422,
    ],
    [
      "a provider that cannot be cloned from",
      { selected_repository: "a/b", git_provider: "azure_devops" },
      422,
    ],
    ["a plugin from this machine", { plugins: [{ source: "/etc" }] }, 422],
    ["a plugin above its repository", { plugins: [{ source: "a/b", repo_path: "../.." }] }, 422],
    ["too many plugins", { plugins: Array.from({ length: 11 }, () => ({ source: "a/b" })) }, 422],
    ["a secret with a bad name", { secrets: { "a b": "x" } }, 422],
    ["an unknown processor", { processors: [{ kind: "Nothing" }] }, 422],
    ["an unknown type of agent", { agent_type: "other" }, 422],
    ["tags that are no texts", { tags: { a: 1 } }, 422],
    ["a role other than user", { initial_message: { ...message, role: "system" } }, 422],
  ])("%s", async (_what, fields, status) => {
    const before = await tasks();
    const answer = await start(fields);
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    expect((await server.call("POST", `${url}/stream-start`, { body: fields })).status).toBe(status);
    expect(await tasks()).toBe(before);
  });

  test("another user's conversation cannot be the parent", async () => {
    const id = await server.addConversation("stranger");
    expect((await start({ parent_conversation_id: id })).status).toBe(404);
  });
});

test("a start task shows its request with every field, including defaults", async () => {
  const content = [{ type: "text", text: "hello" }];
  const { body } = await start({ title: "Shown", pr_number: null, initial_message: { content } });
  expect(body.request).toMatchObject({
    title: "Shown",
    initial_message: { role: "user", content, run: false },
    agent_type: "default",
    pr_number: [],
    processors: [],
    selected_repository: null,
    git_provider: null,
    parent_conversation_id: null,
    plugins: null,
  });
  expect((await over(body.id)).request).toEqual(body.request);
});

test("secrets of a start are stored for its sandbox and never shown", async () => {
  const value = "planted-secret-of-one-conversation";
  const conversation_id = newId();
  const { body } = await start({ conversation_id, secrets: { DEPLOY_KEY: value }, title: "With a secret" });
  expect(body.request.secrets).toEqual({ DEPLOY_KEY: "**********" });
  const task = await over(body.id);
  expect(JSON.stringify([body, task, await server.store.startTasks.get(task.id)])).not.toContain(value);
  expect(server.logs.join("")).not.toContain(value);
});

test("a start continues after its client has left the stream", async () => {
  const abort = new AbortController();
  const response = await fetch(`${server.url}${url}/stream-start`, {
    method: "POST",
    headers: { "x-session-api-key": strangerKey, "content-type": "application/json" },
    body: JSON.stringify({ title: "Left alone" }),
    signal: abort.signal,
  });
  const first = await response.body!.getReader().read();
  const { id } = JSON.parse(new TextDecoder().decode(first.value).slice(2).split("\n")[0]!.replace(/,$/, ""));
  abort.abort();
  for (let status = ""; status !== "ERROR"; ) {
    status = (await read(server.call("GET", `${url}/start-tasks?ids=${id}`, { key: strangerKey }))).body[0]
      .status;
  }
});

test("a patch of a conversation changes the present keys, and null clears", async () => {
  const id = await server.addConversation();
  const patch = (body: unknown) => read(server.call("PATCH", `${url}/${id}`, { body }));
  expect(
    await patch({
      selected_repository: "acme/widgets",
      selected_branch: "main",
      git_provider: "github",
      public: true,
    }),
  ).toMatchObject({
    status: 200,
    body: {
      selected_repository: "acme/widgets",
      selected_branch: "main",
      git_provider: "github",
      public: true,
    },
  });
  expect((await patch({ title: "T", unknown: 1 })).body).toMatchObject({
    title: "T",
    selected_branch: "main",
    public: true,
  });
  expect((await patch({ selected_branch: null })).body).toMatchObject({
    selected_repository: "acme/widgets",
    selected_branch: null,
  });
  expect((await patch({ title: null, public: null })).body).toMatchObject({ title: null, public: null });
  for (const selected_repository of [
    "a",
    "a/b/c",
    "a/b;c",
    "a/b|c",
    "a/`b`",
    "a/b\n",
    "a/b\r",
    "a/$b",
    "a/&b",
    "-a/b",
    "",
  ])
    expect((await patch({ selected_repository })).status, selected_repository).toBe(422);
  expect((await patch({ selected_repository: null, selected_branch: "main" })).status).toBe(422);
  expect((await patch({ selected_repository: null, git_provider: "github" })).status).toBe(422);
  expect((await patch({ selected_repository: null })).body).toMatchObject({
    selected_repository: null,
    git_provider: null,
  });
  expect((await patch({ selected_repository: "a/b/c", git_provider: "gitlab" })).status).toBe(200);
  expect((await patch({ git_provider: "nowhere" })).status).toBe(422);
  const path = `${url}/${id}`;
  expect(await read(server.call("PATCH", path, { key: strangerKey, body: { title: "x" } }))).toEqual({
    status: 404,
    body: { detail: "unknown_app_conversation" },
  });
});

test("a deletion removes sub-conversations, and the sandbox with its last conversation", async () => {
  const { id: sandboxId } = server.sandboxes.add();
  const parent = await server.addConversation("default", sandboxId);
  const other = await server.addConversation("default", sandboxId);
  const child = newId();
  const { config, title } = (await server.store.conversations.get(parent))!;
  await server.store.conversations.create({
    id: child,
    userId: "default",
    sandboxId,
    config,
    title,
    parentId: parent,
    createdAt: 1,
  });
  await server.store.contexts.change(child, () => ({ skills: [], notes: [] }));
  expect((await server.call("DELETE", `${url}/${parent}`)).status).toBe(200);
  for (const id of [parent, child]) expect(await server.store.conversations.get(id)).toBeUndefined();
  expect(await server.store.contexts.get(child)).toBeUndefined();
  expect(await server.sandboxes.get("default", sandboxId)).toBeDefined();
  expect((await server.call("DELETE", `${url}/${other}`)).status).toBe(200);
  expect(await server.sandboxes.get("default", sandboxId)).toBeUndefined();
});

test("a sub-conversation has the model of its parent, also if the parent was switched to a profile", async () => {
  const { store, sandboxes, settings } = server;
  const parent = await server.addConversation("default", sandboxes.add().id);
  for (const name of ["fast", "slow"])
    await settings.profiles.save("default", name, { llm: { model: `openai/${name}` } });
  await store.conversations.update(parent, { config: { llmProfile: "fast" } });
  const modelOf = async (request: object) => {
    const plan = await planStart(server, "default", { parent_conversation_id: parent, ...request });
    const { llmModel, llmProfile } = plan.conversation.config;
    return [llmModel, llmProfile];
  };
  expect(await modelOf({})).toEqual([null, "fast"]);
  expect(await modelOf({ llm_model: "openai/own" })).toEqual(["openai/own", undefined]);
  await settings.agentProfiles.save("default", "careful", { llm_profile_ref: "slow" });
  const { id } = await settings.agentProfiles.get("default", "careful");
  expect(await modelOf({ agent_profile_id: id })).toEqual([null, "slow"]);
  await settings.agentProfiles.activate("default", id);
  expect(await modelOf({})).toEqual([null, "fast"]);
  expect(await modelOf({ parent_conversation_id: null })).toEqual([null, "slow"]);
});
