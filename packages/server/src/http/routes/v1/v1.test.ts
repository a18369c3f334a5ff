import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());
const get = (path: string) => read(server.call("GET", path));

test("settings are read with their defaults, stored, merged and read again without secrets", async () => {
  const before = await get("/api/settings");
  expect(before.status).toBe(200);
  expect(before.body).toMatchObject({
    llm_api_key_set: false,
    enable_default_condenser: true,
    search_api_key_set: false,
  });
  const body = {
    llm_model: "openai/gpt-x",
    llm_api_key: "sk-secret",
    llm_api_key_set: false,
  };
  expect(await read(server.call("POST", "/api/settings", { body }))).toEqual({
    status: 200,
    body: { message: "Settings stored" },
  });
  expect((await server.call("POST", "/api/settings", { body: { language: "de" } })).status).toBe(200);
  const after = await server.call("GET", "/api/settings");
  expect(after.headers.get("content-type")).toContain("application/json");
  const text = await after.text();
  expect(JSON.parse(text)).toMatchObject({
    llm_model: "openai/gpt-x",
    language: "de",
    llm_api_key: null,
    llm_api_key_set: true,
  });
  expect(text).not.toContain("sk-secret");
});

test("sandbox specs are listed and read by id", async () => {
  const { body } = await get("/api/v1/sandbox-specs/search");
  expect(body).toEqual({
    items: [
      {
        id: "host",
        command: null,
        created_at: expect.stringMatching(/Z$/),
        initial_env: { LANG: "C.UTF-8" },
        working_dir: "/workspace/project",
      },
    ],
    next_page_id: null,
  });
  expect((await get("/api/v1/sandbox-specs?id=none&id=host")).body).toEqual([null, body.items[0]]);
  expect((await get("/api/v1/sandbox-specs")).status).toBe(422);
});

test("a sandbox shows its key and its address while it runs, and only then", async () => {
  const started = await read(server.call("POST", "/api/v1/sandboxes?sandbox_spec_id=host"));
  expect(started.status).toBe(200);
  expect(started.body).toMatchObject({
    sandbox_spec_id: "host",
    status: "STARTING",
    session_api_key: null,
    exposed_urls: null,
    created_by_user_id: null,
  });
  const { id } = started.body;
  expect(await read(server.call("POST", `/api/v1/sandboxes/${id}/resume`, { body: {} }))).toEqual({
    status: 200,
    body: { success: true },
  });
  const [running] = (await get(`/api/v1/sandboxes?id=${id}`)).body;
  expect(running).toMatchObject({
    status: "RUNNING",
    session_api_key: server.sessionKey(id),
  });
  expect(running.exposed_urls).toEqual([
    { name: "AGENT_SERVER", url: server.url, port: server.port },
    { name: "WORKER_1", url: expect.stringContaining(`//8011-${id}.localhost:${server.port}/?`), port: 8011 },
    { name: "WORKER_2", url: expect.stringContaining(`//8012-${id}.localhost:${server.port}/?`), port: 8012 },
  ]);
  expect((await server.call("POST", `/api/v1/sandboxes/${id}/pause`)).status).toBe(200);
  expect((await get(`/api/v1/sandboxes?id=nobody&id=${id}`)).body).toMatchObject([
    null,
    { status: "PAUSED", exposed_urls: null, session_api_key: null },
  ]);
  expect((await get("/api/v1/sandboxes/search")).body.items).toHaveLength(1);
});

test("a sandbox is deleted by the query's id, else by the path's", async () => {
  const [one, two] = [server.addSandbox(), server.addSandbox()];
  expect(await read(server.call("DELETE", `/api/v1/sandboxes/ignored?sandbox_id=${one.id}`))).toEqual({
    status: 200,
    body: { success: true },
  });
  expect((await server.call("DELETE", `/api/v1/sandboxes/${two.id}`)).status).toBe(200);
  expect((await get(`/api/v1/sandboxes?id=${one.id}&id=${two.id}`)).body).toEqual([null, null]);
  expect((await server.call("DELETE", `/api/v1/sandboxes/${two.id}`)).status).toBe(404);
});

test("unknown specs and sandboxes get 404, too many ids 400", async () => {
  expect((await server.call("POST", "/api/v1/sandboxes?sandbox_spec_id=none")).status).toBe(404);
  expect((await server.call("POST", "/api/v1/sandboxes/none/pause")).status).toBe(404);
  const many = (name: string, count: number) => `${name}=${newId()}&`.repeat(count);
  expect((await get(`/api/v1/sandboxes?${many("id", 101)}`)).status).toBe(400);
  expect((await get(`/api/v1/app-conversations/start-tasks?${many("ids", 101)}`)).status).toBe(400);
  expect(await get(`/api/v1/app-conversations?${many("ids", 100)}`)).toEqual({
    status: 400,
    body: { detail: "Too many ids requested. Maximum is 99." },
  });
  expect((await get(`/api/v1/app-conversations?${many("ids", 99)}`)).status).toBe(200);
});

test("starting a conversation returns a start task, which lists and batches show", async () => {
  const body = {
    conversation_id: newId(),
    title: "Mine",
    secrets: { TOKEN: "se-cret" },
    parent_conversation_id: null,
  };
  const { status, body: task } = await read(server.call("POST", "/api/v1/app-conversations", { body }));
  expect(status).toBe(200);
  expect(task).toMatchObject({
    id: expect.stringMatching(/^[0-9a-f]{32}$/),
    status: "WORKING",
    app_conversation_id: null,
  });
  expect(JSON.stringify(task)).not.toContain("se-cret");
  const [again, none] = (await get(`/api/v1/app-conversations/start-tasks?ids=${task.id}&ids=${newId()}`))
    .body;
  expect([again.id, none]).toEqual([task.id, null]);
  const found = await get(
    `/api/v1/app-conversations/start-tasks/search?conversation_id__eq=${hexId(body.conversation_id)}`,
  );
  expect(found.body.items).toHaveLength(1);
  expect((await get("/api/v1/app-conversations/start-tasks/count")).body).toBe(1);
  expect((await server.call("POST", "/api/v1/app-conversations")).status).toBe(200);
});

test("invalid requests for a conversation start nothing", async () => {
  const count = async () => (await get("/api/v1/app-conversations/start-tasks/count")).body;
  const before = await count();
  for (const body of [
    { conversation_id: "not-a-uuid" },
    { git_provider: "sourceforge" },
    { trigger: "nobody" },
    { agent_type: "other" },
    { initial_message: { content: [] } },
    { initial_message: { role: "assistant", content: [{ type: "text", text: "x" }] } },
    { initial_message: { content: [{ type: "video", url: "x" }] } },
    { title: 5 },
    { pr_number: ["1"] },
  ]) {
    expect([body, (await server.call("POST", "/api/v1/app-conversations", { body })).status]).toEqual([
      body,
      422,
    ]);
  }
  expect(
    (await server.call("POST", "/api/v1/app-conversations", { body: { sandbox_id: "none" } })).status,
  ).toBe(404);
  expect(
    (await server.call("POST", "/api/v1/app-conversations", { body: { sandbox_spec_id: "none" } })).status,
  ).toBe(404);
  expect(
    (await server.call("POST", "/api/v1/app-conversations", { body: { parent_conversation_id: newId() } }))
      .status,
  ).toBe(404);
  expect(await count()).toBe(before);
});

test("conversations are listed newest first in pages, with and without /search", async () => {
  const fresh = await startServer();
  const ids: string[] = [];
  for (let index = 0; index < 3; index++) ids.unshift(hexId(await fresh.addConversation()));
  const list = async (path: string) => (await read(fresh.call("GET", path))).body;
  const first = await list("/api/v1/app-conversations/search?limit=2");
  expect(first.items).toHaveLength(2);
  const second = await list(`/api/v1/app-conversations?limit=2&page_id=${first.next_page_id}`);
  expect([...first.items, ...second.items].map((item: { id: string }) => item.id).sort()).toEqual(
    [...ids].sort(),
  );
  expect(second.next_page_id).toBe(null);
  expect(await list("/api/v1/app-conversations/count")).toBe(3);
  expect(await list("/api/v1/app-conversations/count?created_at__gte=2100-01-01")).toBe(0);
  expect(
    await list(
      "/api/v1/app-conversations/count?created_at__gte=2020-01-01T00:00:00+02:00&created_at__lt=2100-01-01T00:00:00%2B02:00&title__contains=Conv",
    ),
  ).toBe(3);
  expect((await list("/api/v1/app-conversations?page_id=nonsense")).items).toHaveLength(3);
  await fresh.close();
});

test("a batch takes ids in both forms and refuses malformed ones", async () => {
  const id = await server.addConversation();
  const { body } = await get(
    `/api/v1/app-conversations?ids=${id}&ids=${newId()}&ids=${hexId(id).toUpperCase()}`,
  );
  expect(body.map((item: { id: string } | null) => item?.id ?? null)).toEqual([hexId(id), null, hexId(id)]);
  expect(await get(`/api/v1/app-conversations?ids=${id}&ids=zz`)).toEqual({
    status: 400,
    body: { detail: "Invalid UUID format for ids: ['zz']" },
  });
  expect((await get("/api/v1/app-conversations/start-tasks?ids=zz")).status).toBe(400);
});

test("a title is changed and a conversation deleted", async () => {
  const id = await server.addConversation();
  const path = `/api/v1/app-conversations/${hexId(id)}`;
  expect((await read(server.call("PATCH", path, { body: { title: "Other" } }))).body).toMatchObject({
    id: hexId(id),
    title: "Other",
  });
  expect((await server.call("PATCH", path, { body: { title: "" } })).status).toBe(422);
  expect((await server.call("PATCH", path, { body: { selected_repository: "no-owner" } })).status).toBe(422);
  expect(await read(server.call("DELETE", path))).toEqual({ status: 200, body: { success: true } });
  expect(await read(server.call("DELETE", path))).toEqual({
    status: 404,
    body: { detail: "Conversation not found" },
  });
  expect(await read(server.call("PATCH", path, { body: { title: "x" } }))).toEqual({
    status: 404,
    body: { detail: "unknown_app_conversation" },
  });
  expect((await server.call("DELETE", "/api/v1/app-conversations/zz")).status).toBe(400);
});

test("events are searched, counted and read as stored, through the new and the old paths", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "one", "two", "three");
  await server.events.append(id, [
    {
      listed: false,
      event: {
        kind: "ConversationStateUpdateEvent",
        source: "environment",
        key: "execution_status",
        value: "idle",
      },
    },
  ]);
  const stored = (await server.events.read(id, 0, 10)).filter((record) => record.listed);
  const texts = stored.map((record) => record.json);
  const times = stored.map((record) => record.event.timestamp);
  const base = `/api/v1/conversation/${hexId(id)}/events`;

  const all = await (await server.call("GET", `${base}/search`)).text();
  expect(all).toBe(`{"items":[${texts.join(",")}],"next_page_id":null}`);
  const newest = (await get(`${base}/search?sort_order=TIMESTAMP_DESC&limit=2`)).body;
  expect(newest.items.map((event: { id: string }) => event.id)).toEqual([
    stored[2]!.event.id,
    stored[1]!.event.id,
  ]);
  expect(
    (await get(`${base}/search?sort_order=TIMESTAMP_DESC&limit=2&page_id=${newest.next_page_id}`)).body,
  ).toMatchObject({
    items: [{ id: stored[0]!.event.id }],
    next_page_id: null,
  });
  expect(
    (await get(`${base}/search?timestamp__gte=${times[1]}&timestamp__lt=${times[2]}Z`)).body.items,
  ).toEqual([JSON.parse(texts[1]!)]);
  expect((await get(`${base}/search?kind__eq=ActionEvent`)).body.items).toEqual([]);
  expect((await get(`${base}/search?kind__eq=NoSuchEvent`)).status).toBe(422);
  expect((await get(`${base}/count`)).body).toBe(3);
  expect((await get(`${base}/count?timestamp__gte=${times[2]}%2B00:00`)).body).toBe(1);
  const [first, last] = [stored[0]!.event.id, stored[2]!.event.id];
  expect((await get(`${base}?id=${last}&id=none&id=${hexId(first)}`)).body).toEqual([
    JSON.parse(texts[2]!),
    null,
    JSON.parse(texts[0]!),
  ]);
  expect((await get(`${base}?${"id=x&".repeat(101)}`)).status).toBe(400);
  expect((await get(base)).status).toBe(422);

  const old = (path: string, query = "") => get(`/api/v1/events${path}?conversation_id__eq=${id}${query}`);
  expect((await old("/search", "&limit=1")).body).toMatchObject({
    items: [{ id: first }],
    next_page_id: "1",
  });
  expect((await old("/count")).body).toBe(3);
  expect((await old("", `&id=${last}`)).body).toEqual([JSON.parse(texts[2]!)]);
  expect((await get("/api/v1/events/search")).status).toBe(422);
  expect((await get(`/api/v1/conversation/${newId()}/events/search`)).status).toBe(404);
  expect((await get("/api/v1/conversation/zz/events/count")).status).toBe(404);
});

test("the document describes the routes and has no external references", async () => {
  const { body } = await get("/openapi.json");
  const name = body.paths["/api/settings"].post.requestBody.content["application/json"].schema.$ref
    .split("/")
    .at(-1);
  expect(body.components.schemas[name].properties.llm_api_key).toBeTruthy();
  expect(
    body.paths["/api/v1/conversation/{conversation_id}/events/search"].get.parameters.map(
      (p: { name: string }) => p.name,
    ),
  ).toContain("kind__eq");
  const paging = body.paths["/api/v1/sandboxes/search"].get.parameters.map(
    (p: { required: boolean }) => p.required,
  );
  expect(paging).toEqual([false, false]);
  const page = await (await server.call("GET", "/docs", { key: null })).text();
  const links = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
  expect(links.length).toBeGreaterThan(3);
  for (const link of links) {
    expect(link).not.toMatch(/^(https?:)?\/\//);
    const answer = await fetch(new URL(link, `${server.url}/docs/`));
    expect([link, answer.status, (await answer.text()).length > 0]).toEqual([link, 200, true]);
  }
});
