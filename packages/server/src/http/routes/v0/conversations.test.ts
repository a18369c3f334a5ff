import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.addSandbox();
});
afterAll(() => server.close());
const get = (path: string, key?: string) => read(server.call("GET", path, key ? { key } : {}));
const post = (path: string, body: unknown = {}) => read(server.call("POST", path, { body }));

test("a conversation has both shapes, by the user's key and by its sandbox's", async () => {
  const id = await server.addConversation();
  const sessionKey = server.sessionKey("sandbox-1");
  const legacy = {
    conversation_id: hexId(id),
    title: `Conversation ${id.slice(0, 5)}`,
    status: "RUNNING",
    runtime_status: "STATUS$READY",
    url: `${server.url}/agent/sandbox-1/api/conversations/${hexId(id)}`,
    session_api_key: sessionKey,
    conversation_version: "V1",
    num_connections: 0,
    pr_number: [],
    sub_conversation_ids: [],
  };
  for (const [path, key] of [
    [hexId(id), undefined],
    [id, sessionKey],
  ] as const) {
    const { status, body } = await get(`/api/conversations/${path}`, key);
    expect(status).toBe(200);
    expect(body).toMatchObject({ ...legacy, id, execution_status: "idle", agent: { kind: "Agent" } });
    expect(Date.parse(body.last_updated_at)).toBeGreaterThan(0);
  }
  expect(await get(`/api/conversations/${id}`, strangerKey)).toEqual({
    status: 404,
    body: { error: "Conversation not found", detail: "Conversation not found" },
  });
});

test("the status reflects the sandbox, and a stopped sandbox shows no URL and no key", async () => {
  for (const [status, shown] of Object.entries({
    STARTING: "STARTING",
    PAUSED: "STOPPED",
    ERROR: "ERROR",
    GONE: "ARCHIVED",
  })) {
    if (status !== "GONE") server.addSandbox({ id: `is-${status}`, status: status as "PAUSED" });
    const id = await server.addConversation(defaultUser, `is-${status}`);
    const { body } = await get(`/api/conversations/${id}`);
    expect(body).toMatchObject({ status: shown, runtime_status: null, url: null, session_api_key: null });
  }
});

test("conversations are listed newest first, by page, repository and trigger, each as when it is read alone", async () => {
  const user = "stranger";
  server.addSandbox({ id: "theirs", userId: user });
  const { config } = (await server.store.conversations.get(await server.addConversation()))!;
  const ids: string[] = [];
  for (let number = 0; number < 25; number++) {
    const id = newId();
    ids.unshift(hexId(id));
    await server.store.conversations.create({
      id,
      userId: user,
      sandboxId: "theirs",
      config: {
        ...config,
        selectedRepository: number % 5 ? null : "acme/widgets",
        trigger: number % 10 ? "gui" : "microagent_management",
      },
      title: `t${number}`,
      parentId: null,
      createdAt: 1_000 + number,
    });
  }
  const child = newId();
  const row = { id: child, userId: user, sandboxId: "theirs", config, title: null, createdAt: 2_000 };
  await server.store.conversations.create({
    ...row,
    parentId: ids[0]!.replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"),
  });

  const shown = ({ body }: { body: { results: { conversation_id: string }[] } }) =>
    body.results.map((item) => item.conversation_id);
  const first = await get("/api/conversations", strangerKey);
  expect(shown(first)).toEqual(ids.slice(0, 20));
  const second = await get(`/api/conversations?limit=20&page_id=${first.body.next_page_id}`, strangerKey);
  expect([shown(second), second.body.next_page_id]).toEqual([ids.slice(20), null]);
  expect(first.body.results[0].sub_conversation_ids).toEqual([hexId(child)]);
  const alone = (await get(`/api/conversations/${ids[3]}`, strangerKey)).body;
  expect(alone).toMatchObject(first.body.results[3]);

  const every = (step: number) => ids.filter((_, index) => (24 - index) % step === 0);
  expect(shown(await get("/api/conversations?selected_repository=acme/widgets", strangerKey))).toEqual(
    every(5),
  );
  expect(
    shown(await get("/api/conversations?conversation_trigger=microagent_management", strangerKey)),
  ).toEqual(every(10));
  const management = "/api/microagent-management/conversations?limit=100&selected_repository=acme%2Fwidgets";
  expect(shown(await get(management, strangerKey))).toEqual(every(10));
  expect((await get("/api/conversations?limit=101", strangerKey)).status).toBe(422);
  expect((await get("/api/conversations?limit=0")).body).toMatchObject({ error: expect.any(String) });
  expect((await get("/api/conversations?conversation_trigger=no")).status).toBe(422);
});

test("with ids conversations are read in the agent server's shape; a session key sees those of its sandbox and no V0 list", async () => {
  const other = server.addSandbox({ id: "other" });
  const mine = await server.addConversation();
  const elsewhere = await server.addConversation(defaultUser, other.id);
  const path = `/api/conversations?ids=${hexId(mine)}&ids=${newId()}&ids=${elsewhere}`;
  expect((await get(path)).body).toMatchObject([{ id: mine, stats: {} }, null, { id: elsewhere }]);
  expect((await get(path, other.sessionKey)).body).toMatchObject([null, null, { id: elsewhere }]);
  expect((await get("/api/conversations", other.sessionKey)).status).toBe(422);
  expect((await get("/api/conversations?ids=x")).status).toBe(422);
});

test("a conversation is renamed and deleted by its user only", async () => {
  const id = await server.addConversation();
  const path = `/api/conversations/${hexId(id)}`;
  const call = (method: string, body?: unknown, key?: string) =>
    read(server.call(method, path, { body, ...(key && { key }) }));
  const { sessionKey } = server.addSandbox({ id: "another" });
  for (const [key, patched, deleted] of [
    [strangerKey, { status: 404 }, { status: 404 }],
    [sessionKey, { status: 404 }, { status: 404 }],
  ] as const) {
    expect(await call("PATCH", { title: "theirs" }, key)).toMatchObject(patched);
    expect(await call("DELETE", undefined, key)).toMatchObject(deleted);
  }
  expect(await call("PATCH", { title: "Mine" })).toEqual({ status: 200, body: true });
  expect((await call("GET")).body.title).toBe("Mine");
  for (const title of ["", null, 5, "x".repeat(201)])
    expect((await call("PATCH", { title })).status).toBe(422);
  // Its sandbox serves other conversations too.
  expect(await call("DELETE")).toEqual({ status: 200, body: true });
  expect((await call("GET")).status).toBe(404);
  expect((await call("DELETE")).status).toBe(404);
});

test("the sandbox is named, stopped and started", async () => {
  const sandbox = server.sandboxes.add({ id: "stoppable" });
  const id = await server.addConversation(defaultUser, sandbox.id);
  const base = `/api/conversations/${hexId(id)}`;
  expect((await get(`${base}/config`)).body).toEqual({ runtime_id: "stoppable", session_id: hexId(id) });
  const { hosts } = (await get(`${base}/web-hosts`)).body;
  expect(Object.values(hosts)).toEqual([8011, 8012]);
  const answer = { status: "ok", conversation_id: hexId(id), message: null };
  expect((await post(`${base}/stop`)).body).toEqual({ ...answer, conversation_status: "STOPPED" });
  expect(sandbox.status).toBe("PAUSED");
  expect((await get(`${base}/web-hosts`)).body).toEqual({ hosts: {} });
  expect((await get(`${base}/list-files`)).status).toBe(409);
  expect((await post(`${base}/start`, { providers_set: ["github"] })).body).toEqual({
    ...answer,
    conversation_status: "RUNNING",
  });
  expect((await get(`${base}/vscode-url`, server.sessionKey("stoppable"))).body).toEqual({
    vscode_url: null,
  });
  server.sandboxes.rows.delete("stoppable");
  expect((await post(`${base}/start`)).status).toBe(410);
});

test("events are read by number in both directions, or all at once", async () => {
  const id = await server.addConversation();
  const words = Array.from({ length: 250 }, (_, index) => `w${index}`);
  await server.addMessages(id, ...words);
  const base = `/api/conversations/${id}`;
  const texts = (events: { llm_message: { content: { text: string }[] } }[]) =>
    events.map((event) => event.llm_message.content[0]!.text);
  const read = async (query: string) => {
    const { body } = await get(`${base}/events?${query}`);
    return [texts(body.events), body.has_more];
  };
  expect(await read("")).toEqual([words.slice(0, 20), true]);
  expect(await read("start_id=245")).toEqual([words.slice(245), false]);
  expect(await read("start_id=3&end_id=5")).toEqual([words.slice(3, 6), false]);
  expect(await read("start_id=3&end_id=5&limit=2")).toEqual([words.slice(3, 5), true]);
  expect(await read("start_id=3&end_id=5&limit=2&reverse=true")).toEqual([["w5", "w4"], true]);
  expect(await read("start_id=300")).toEqual([[], false]);
  expect((await get(`${base}/events?start_id=-1`)).status).toBe(422);
  expect(texts((await get(`${base}/trajectory`)).body.trajectory)).toEqual(words);
  expect((await get(`/api/conversations/${await server.addConversation()}/trajectory`)).body).toEqual({
    trajectory: [],
  });
});

test("removed routes report this, but only to the conversation's user", async () => {
  const id = await server.addConversation();
  for (const [method, name] of [
    ["GET", "zip-directory"],
    ["GET", "remember-prompt"],
    ["POST", "submit-feedback"],
    ["POST", "upload-files"],
  ] as const) {
    const ask = (key?: string) =>
      read(server.call(method, `/api/conversations/${id}/${name}`, key ? { key } : {}));
    expect(await ask()).toMatchObject({ status: 410, body: { error: expect.any(String) } });
    expect((await ask(strangerKey)).status).toBe(404);
  }
});

test("the V0 start makes a V1 conversation that can be read at once", async () => {
  const started = await post("/api/conversations", {
    initial_user_msg: "Hello there",
    conversation_instructions: "be kind",
  });
  expect(started).toEqual({
    status: 200,
    body: {
      status: "ok",
      conversation_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      message: null,
      conversation_status: "STARTING",
    },
  });
  const { conversation_id } = started.body;
  const shown = await get(`/api/conversations/${conversation_id}`);
  expect(shown).toMatchObject({
    status: 200,
    body: { conversation_id, conversation_version: "V1", status: "STARTING" },
  });
  expect((await get(`/api/conversations/${conversation_id}`, strangerKey)).status).toBe(404);
  await expect
    .poll(async () => (await get(`/api/conversations/${conversation_id}`)).body.title)
    .toBe("Hello there");
  for (const body of [
    { agent: { kind: "Agent" }, workspace: {} },
    { replay_json: "[]" },
    { conversation_id: "x" },
    { image_urls: 5 },
  ]) {
    expect([body, (await post("/api/conversations", body)).status]).toEqual([body, 422]);
  }
});

test("git and uploads of a sandbox need its key, or its id with the user's key", async () => {
  const sessionKey = server.sessionKey("sandbox-1");
  expect(await get("/api/git/changes/%2Fworkspace%2Fproject")).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining("sandbox_id") },
  });
  expect((await get("/api/git/changes/%2Fworkspace?sandbox_id=sandbox-1", strangerKey)).status).toBe(404);
  expect((await read(server.call("GET", "/api/git/changes/%2Fworkspace", { key: null }))).status).toBe(401);
  // Fails only because this test has no engine.
  expect((await get("/api/git/diff/%2Fworkspace%2Fa", sessionKey)).status).toBe(503);
  expect((await get("/api/git/changes?path=/workspace&sandbox_id=sandbox-1")).status).toBe(503);
  const both = { headers: { authorization: `Bearer ${strangerKey}` }, key: sessionKey };
  expect((await read(server.call("GET", "/api/git/changes/%2Fworkspace", both))).status).toBe(400);
  const upload = (path: string, headers: Record<string, string>, body = "x") =>
    read(server.call("POST", `/api/file/upload/${path}`, { key: sessionKey, headers, body }));
  expect((await upload("relative", { "content-type": "multipart/form-data; boundary=b" })).status).toBe(400);
  expect((await upload("%2Ftmp%2Fx", { "content-type": "text/plain" })).status).toBe(415);
  expect((await upload("%2Ftmp%2Fx", { "content-type": "multipart/form-data; boundary=b" })).status).toBe(
    400,
  );
});
