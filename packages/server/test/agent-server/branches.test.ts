import { ConversationClient } from "@openhands/typescript-client/clients";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { obey } from "../support/script.ts";

/** Forks and HEAD moves (agent-server.md section 3): prompts, client views and files. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(obey);
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const base = (id: string) => `/api/conversations/${id}`;
const info = async (id: string): Promise<Json> => (await agent.call("GET", base(id))).body;
const listed = async (id: string): Promise<Json[]> =>
  (await agent.call("GET", `${base(id)}/events/search?limit=100`)).body.items;
const navigate = (id: string, eventId: string | null) =>
  agent.call("POST", `${base(id)}/navigate`, { event_id: eventId });
const fork = (id: string, body: Json = {}) => agent.call("POST", `${base(id)}/fork`, body);
const make = async (change: Json = {}): Promise<string> =>
  (await agent.call("POST", "/api/conversations", sdkRequest(models.url, change))).body.id;

/** Sends a message and waits for the end of its run. */
async function say(id: string, text: string): Promise<void> {
  await agent.call("POST", `${base(id)}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });
  await until(async () => ((await info(id)).execution_status === "finished" ? true : undefined));
}

/** What users and tools sent to the model in its last call. */
const sentToModel = () =>
  models.requests
    .at(-1)!
    .messages.filter(({ role }) => role !== "assistant")
    .map(({ text }) => text);
const userTexts = () =>
  models.requests
    .at(-1)!
    .messages.filter(({ role }) => role === "user")
    .map(({ text }) => text);
const messageOf = (events: Json[], text: string) =>
  events.find(({ llm_message: message }) => message?.content[0].text === text)!;
const lastOf = (events: Json[]) => events.at(-1)!;

test("after a move the model reads the branch alone, and clients see all branches as a tree", async () => {
  const id = await make();
  await say(id, "one");
  const first = await listed(id);
  await say(id, "two");
  const before = await listed(id);
  expect(before.some((event) => "parent_id" in event)).toBe(false);

  const moved = await navigate(id, lastOf(first).id);
  expect(moved).toMatchObject({
    status: 200,
    body: {
      id,
      execution_status: "idle",
      leaf_event_id: lastOf(first).id,
      last_user_message_id: messageOf(first, "one").id,
      head_is_empty: false,
    },
  });
  await say(id, "three");
  expect(userTexts()).toEqual(["one", "three"]);
  const events = await listed(id);
  expect(events.slice(0, before.length)).toEqual(before);
  const branch = events.slice(before.length);
  expect(branch.map(({ parent_id: parent }) => parent)).toEqual([
    lastOf(first).id,
    ...branch.slice(0, -1).map((event) => event.id),
  ]);
  expect((await info(id)).leaf_event_id).toBe(lastOf(branch).id);
  expect(new Set(events.map((event) => event.id)).size).toBe(events.length);

  // Back to the branch that was left.
  expect((await navigate(id, lastOf(before).id)).body.last_user_message_id).toBe(messageOf(before, "two").id);
  await say(id, "four");
  expect(userTexts()).toEqual(["one", "two", "four"]);
  const socket = new SocketClient(
    `${agent.url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${agent.key}&resend_mode=all`,
  );
  await socket.frame((frame) => frame.id === lastOf(branch).id);
  await socket.frame(({ key, value }) => key === "full_state" && value.leaf_event_id !== undefined);
  const all = await listed(id);
  await socket.frame((frame) => frame.id === lastOf(all).id);
  expect(
    socket.frames.filter(({ kind }) => kind !== "ConversationStateUpdateEvent").map((frame) => frame.id),
  ).toEqual(all.map((event) => event.id));
  socket.close();
});

test("a move before the first event starts over with a new system prompt", async () => {
  const id = await make();
  await say(id, "one");
  const before = await listed(id);
  const moved = await navigate(id, null);
  expect(moved).toMatchObject({
    status: 200,
    body: { execution_status: "idle", leaf_event_id: null, head_is_empty: true },
  });
  expect(moved.body.last_user_message_id).toBe(null);
  expect((await agent.call("GET", `${base(id)}/agent_final_response`)).body).toEqual({ response: "" });
  await say(id, "anew");
  expect(userTexts()).toEqual(["anew"]);
  const [root, next] = (await listed(id)).slice(before.length);
  expect(root).toMatchObject({ kind: "SystemPromptEvent" });
  expect(root).not.toHaveProperty("parent_id");
  expect(next).toMatchObject({ kind: "MessageEvent", parent_id: root!.id });
});

test("a call without a result on the branch is reported as interrupted", async () => {
  const id = await make();
  await say(id, "run: echo once");
  const action = (await listed(id)).find(({ action: made }) => made?.kind === "TerminalAction")!;
  await navigate(id, action.id);
  await say(id, "and now");
  expect(sentToModel()).toEqual([
    "run: echo once",
    expect.stringMatching(/interrupted and its outcome is unknown/),
    "and now",
  ]);
});

test("a move is refused while the agent works, and to unknown events", async () => {
  const id = await make();
  await say(id, "one");
  const [first] = await listed(id);
  const send = { role: "user", content: [{ type: "text", text: "run: sleep 60" }], run: true };
  await agent.call("POST", `${base(id)}/events`, send);
  await until(
    async () => (await listed(id)).some(({ action }) => action?.command === "sleep 60") || undefined,
  );
  expect((await navigate(id, first!.id)).status).toBe(409);
  await agent.call("POST", `${base(id)}/interrupt`);
  const other = await make();
  await say(other, "one");
  const [strange] = await listed(other);
  for (const unknown of [strange!.id, "no-id", "", "00000000-0000-4000-8000-000000000000"])
    expect([unknown, (await navigate(id, unknown)).status]).toEqual([unknown, 404]);
  for (const bad of [{}, { event_id: 7 }, { event_id: "x".repeat(65) }])
    expect((await agent.call("POST", `${base(id)}/navigate`, bad)).status).toBe(422);
  expect((await navigate("00000000-0000-4000-8000-000000000000", null)).status).toBe(404);
  expect((await navigate(id, first!.id)).body).toMatchObject({
    execution_status: "paused",
    leaf_event_id: first!.id,
  });
});

test("a fork has the unchanged events up to its point, continues independently, and can be forked again", async () => {
  const id = await make({ tags: { team: "a" }, secrets: { TOKEN: "planted-secret" } });
  await say(id, "one");
  const first = await listed(id);
  await say(id, "two");
  const made = await fork(id, { from_event_id: lastOf(first).id, title: "Another way" });
  expect(made).toMatchObject({
    status: 201,
    body: {
      execution_status: "idle",
      title: "Another way",
      tags: { team: "a" },
      forked_from_conversation_id: id,
      forked_from_event_id: lastOf(first).id,
      parent_conversation_id: null,
      leaf_event_id: lastOf(first).id,
      stats: { usage_to_metrics: {} },
      agent: { llm: { model: "openai/scripted" } },
      secret_registry: { secret_sources: { TOKEN: {} } },
      workspace: { working_dir: "/workspace/project" },
    },
  });
  const copy = made.body.id;
  expect(await listed(copy)).toEqual(first);
  await say(copy, "three");
  expect(userTexts()).toEqual(["one", "three"]);
  expect(models.requests.at(-1)!.headers.authorization).toBe("Bearer sk-own-model-key");
  expect((await listed(copy)).some((event) => "parent_id" in event)).toBe(false);
  expect((await info(id)).leaf_event_id).toBe(lastOf(await listed(id)).id);

  // A fork of a branch has no events of other branches, and its events keep their parents.
  await navigate(copy, lastOf(first).id);
  await say(copy, "four");
  const again = (
    await fork(copy, { reset_metrics: false, id: "0b9b1d52-6a52-4f6e-9d0c-5b7c0a3f1e10", tags: {} })
  ).body;
  expect(again).toMatchObject({
    id: "0b9b1d52-6a52-4f6e-9d0c-5b7c0a3f1e10",
    tags: {},
    title: "Another way (fork)",
  });
  expect(again.stats).toEqual((await info(copy)).stats);
  await say(again.id, "five");
  expect(userTexts()).toEqual(["one", "four", "five"]);
  const events = await listed(again.id);
  expect(events.slice(first.length + 1).map(({ parent_id: parent }) => parent)).toEqual(
    events.slice(first.length, -1).map((event) => event.id),
  );
  expect((await fork(copy, { id: again.id })).status).toBe(409);
  expect((await fork(copy, { from_event_id: "no-id" })).status).toBe(404);
  expect((await fork(copy, { id: "no-id" })).status).toBe(422);
  expect((await fork(copy, { title: "x".repeat(201) })).status).toBe(422);
});

test("a single event includes its predecessor's id on its branch, so that a client can fork before a message", async () => {
  const id = await make();
  await say(id, "one");
  await say(id, "two");
  const parent = async (event: Json) =>
    (await agent.call("GET", `${base(id)}/events/${event.id}`)).body.parent_id;
  const flat = await listed(id);
  expect(await Promise.all(flat.map(parent))).toEqual([
    undefined,
    ...flat.slice(0, -1).map((event) => event.id),
  ]);
  const before = await parent(messageOf(flat, "two"));
  const made = (await fork(id, { from_event_id: before })).body;
  expect(made.leaf_event_id).toBe(before);
  expect(await listed(made.id)).toEqual(flat.slice(0, flat.indexOf(messageOf(flat, "two"))));

  const [first] = flat;
  await navigate(id, first!.id);
  await say(id, "three");
  expect(await parent(messageOf(await listed(id), "three"))).toBe(first!.id);
  await navigate(id, null);
  await say(id, "four");
  const own = (await listed(id)).slice(-4).map(parent);
  expect((await Promise.all(own)).filter((one) => !one)).toHaveLength(1);
});

test("moves and forks carry waiting actions, skills and metrics correctly", async () => {
  const skill = {
    name: "paint",
    content: "Use blue.",
    trigger: { type: "keyword", keywords: ["paint"] },
    kind: "Skill",
  };
  const { agent: given } = sdkRequest(models.url);
  const id = await make({
    agent: { ...given, agent_context: { skills: [skill] } },
    confirmation_policy: { kind: "AlwaysConfirm" },
  });
  const plain = { role: "user", content: [{ type: "text", text: "hello" }], run: false };
  await agent.call("POST", `${base(id)}/events`, plain);
  const hello = lastOf(await listed(id));
  const ask = { role: "user", content: [{ type: "text", text: "run: echo paint" }], run: true };
  await agent.call("POST", `${base(id)}/events`, ask);
  const waits = () =>
    until(async () => (await info(id)).execution_status === "waiting_for_confirmation" || undefined);
  await waits();
  const action = lastOf(await listed(id));
  expect((await info(id)).activated_knowledge_skills).toEqual(["paint"]);

  // A fork copies the log; no action waits for the user in it.
  const forked = (await fork(id)).body;
  expect(forked).toMatchObject({
    execution_status: "idle",
    activated_knowledge_skills: ["paint"],
    leaf_event_id: action.id,
  });
  expect(forked.confirmation_policy).toMatchObject({ kind: "AlwaysConfirm" });
  await agent.call("POST", `${base(forked.id)}/confirmation_policy`, { policy: { kind: "NeverConfirm" } });
  await say(forked.id, "go on");
  expect(sentToModel().slice(-2)).toEqual([expect.stringMatching(/interrupted/), "go on"]);
  expect((await fork(id, { from_event_id: hello.id })).body.activated_knowledge_skills).toEqual([]);

  const moved = (await navigate(id, hello.id)).body;
  expect(moved).toMatchObject({ execution_status: "idle", activated_knowledge_skills: [] });
  expect(moved.stats).not.toEqual({ usage_to_metrics: {} });
  const accept = await agent.call("POST", `${base(id)}/events/respond_to_confirmation`, { accept: false });
  expect(accept.status).toBe(200);
  expect((await info(id)).leaf_event_id).toBe(hello.id);
  await agent.call("POST", `${base(id)}/events`, ask);
  await waits();
  expect(userTexts()).toEqual(["hello", expect.stringMatching(/^run: echo paint[\s\S]*Use blue/)]);
  // Moves at the same time are served one after the other, in any order.
  const answers = await Promise.all([hello.id, null, action.id].map((to) => navigate(id, to)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect([hello.id, null, action.id]).toContain((await info(id)).leaf_event_id ?? null);
});

test("a fork waits for a pausing agent's step, and copies a running conversation as it is", async () => {
  const id = await make();
  await say(id, "one");
  const before = lastOf(await listed(id));
  const work = { role: "user", content: [{ type: "text", text: "run: sleep 1; echo slept" }], run: true };
  await agent.call("POST", `${base(id)}/events`, work);
  await until(
    async () =>
      (await listed(id)).some(({ action }) => action?.command === "sleep 1; echo slept") || undefined,
  );
  const forked = (await fork(id)).body;
  expect((await listed(forked.id)).at(-1)).toMatchObject({
    kind: "ActionEvent",
    action: { command: "sleep 1; echo slept" },
  });
  await agent.call("POST", `${base(id)}/pause`);
  expect((await navigate(id, before.id)).body).toMatchObject({
    execution_status: "paused",
    leaf_event_id: before.id,
  });
  const events = await listed(id);
  expect(events.some(({ observation }) => observation?.command === "sleep 1; echo slept")).toBe(true);
  expect((await info(id)).leaf_event_id).toBe(before.id);
  await say(id, "two");
  expect(userTexts()).toEqual(["one", "two"]);
});

test("moves restore the files of a snapshot in place, and forks restore them into their own folder", async () => {
  const id = await make();
  await say(
    id,
    "run: mkdir -p sub && cd sub && echo one > ../state && ln -s state ../link && chmod 755 ../state && rm -rf ../.git",
  );
  const first = lastOf(await listed(id));
  const snapshot = (await platform.call("POST", `/api/v1/sandboxes/${agent.sandboxId}/snapshots`)).body;
  await say(
    id,
    "run: cd /workspace/project && echo two > state && echo new > added && rm link && mkdir -p deep/er && cd deep/er",
  );
  const second = lastOf(await listed(id));
  const read = async (command: string) => {
    const { body } = await agent.call("POST", "/api/bash/execute_bash_command", {
      command,
      cwd: "/workspace",
    });
    return body.stdout;
  };
  const inode = await read("stat -c %i project");

  const response = await fetch(`${agent.url}${base(id)}/navigate`, {
    method: "POST",
    headers: { "x-session-api-key": agent.key, "content-type": "application/json" },
    body: JSON.stringify({ event_id: first.id }),
  });
  expect([response.status, response.headers.get("x-sandpiper-files")]).toEqual([
    200,
    `restored; snapshot=${snapshot.id}`,
  ]);
  expect(await read("cd project && ls -A && cat state link && stat -c %a state")).toBe(
    "link\nstate\nsub\none\none\n755\n",
  );
  expect(await read("stat -c %i project")).toBe(inode);
  // The shell stood in a folder that is gone.
  await say(id, "run: pwd; cat state");
  expect(sentToModel().at(-1)).toMatch(/^\/workspace\/project\none/);

  const forked = await fork(id, { from_event_id: first.id });
  const folder = `/workspace/project-${forked.body.id.slice(0, 8)}`;
  expect(forked.body.workspace.working_dir).toBe(folder);
  await say(forked.body.id, "run: pwd; cat state; echo mine > state");
  expect(sentToModel()).toEqual([
    expect.stringMatching(/^run: mkdir/),
    expect.any(String),
    expect.any(String),
    expect.stringContaining(`you work in the folder ${folder}`),
    expect.stringMatching(/^run: pwd/),
    expect.stringMatching(new RegExp(`^${folder}\none`)),
  ]);
  expect(await read(`cat project/state ${folder}/state`)).toBe("one\nmine\n");

  // There is no snapshot of this time.
  expect((await navigate(id, second.id)).status).toBe(200);
  expect(await read("cat project/state; ls -A project; ls")).toMatch(/^one\nlink\nstate\nsub\nproject\n/);
  // Nothing is left of the sandbox that held the snapshot's files.
  const { body } = await platform.call("GET", "/api/v1/sandboxes/search");
  expect(body.items.map((sandbox: Json) => sandbox.id)).toEqual([agent.sandboxId]);
});

test("the released client forks and moves", async () => {
  const client = new ConversationClient({ host: agent.url, apiKey: agent.key });
  const id = await make();
  await say(id, "one");
  const [first] = await listed(id);
  const forked = await client.forkConversation(id, { title: "A copy" });
  expect(forked.id).not.toBe(id);
  expect(await listed(forked.id)).toEqual(await listed(id));
  await client.navigateConversation(id, { event_id: first!.id });
  expect((await info(id)).leaf_event_id).toBe(first!.id);
});
