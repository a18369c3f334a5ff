import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
});
afterAll(() => server.close());
const get = (path: string) => read(server.call("GET", path));
const post = (path: string, body?: unknown) => read(server.call("POST", path, { body }));

test("a conversation shows its state with a dashed id", async () => {
  const id = await server.addConversation();
  const { status, body } = await get(`/api/conversations/${hexId(id)}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    id,
    execution_status: "idle",
    title: `Conversation ${id.slice(0, 5)}`,
    stats: { usage_to_metrics: {} },
  });
  expect(body).toMatchObject({
    agent: { kind: "Agent" },
    workspace: { kind: "LocalWorkspace" },
    tags: {},
    parent_conversation_id: null,
  });
  expect(Date.parse(body.created_at)).toBeGreaterThan(0);
  expect(Date.parse(body.updated_at)).toBeGreaterThan(0);
});

test("a message is stored, with images in both formats, and does not start the agent by itself", async () => {
  const id = await server.addConversation();
  const content = [
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
    { type: "image", image_urls: ["https://x.example/a.png"] },
  ];
  expect(await post(`/api/conversations/${id}/events`, { role: "user", content, sender: "me" })).toEqual({
    status: 200,
    body: { success: true },
  });
  const { items } = (await get(`/api/conversations/${id}/events/search?kind=MessageEvent`)).body;
  expect(items).toHaveLength(1);
  expect(await get(`/api/conversations/${id}/events/${items[0].id}`)).toEqual({
    status: 200,
    body: { ...items[0], parent_id: expect.any(String) },
  });
  for (const unknown of [newId(), "no-id"])
    expect(await get(`/api/conversations/${id}/events/${unknown}`)).toEqual({
      status: 404,
      body: { detail: "Event not found" },
    });
  expect(items[0]).toMatchObject({
    kind: "MessageEvent",
    source: "user",
    sender: "me",
    llm_message: {
      role: "user",
      content: [
        { type: "text", text: "look" },
        { type: "image", image_urls: ["data:image/png;base64,AAAA"] },
        { type: "image", image_urls: ["https://x.example/a.png"] },
      ],
    },
  });
  expect((await get(`/api/conversations/${id}`)).body.execution_status).toBe("idle");
});

test("invalid messages get 422, and nothing is stored", async () => {
  const id = await server.addConversation();
  for (const body of [
    {},
    { content: [] },
    { content: "hi" },
    { role: "assistant", content: [{ type: "text", text: "x" }] },
    { content: [{ type: "text" }] },
  ]) {
    expect([body, (await post(`/api/conversations/${id}/events`, body)).status]).toEqual([body, 422]);
  }
  expect((await get(`/api/conversations/${id}/events/count`)).body).toBe(0);
});

test("a run is started once, and pause and interrupt end it", async () => {
  server.model.thinking = true;
  const id = await server.addConversation();
  await post(`/api/conversations/${id}/events`, { content: [{ type: "text", text: "go" }] });
  expect(await post(`/api/conversations/${id}/run`, {})).toEqual({ status: 200, body: { success: true } });
  expect((await get(`/api/conversations/${id}`)).body.execution_status).toBe("running");
  const again = await post(`/api/conversations/${id}/run`, {});
  expect(again).toEqual({
    status: 409,
    body: { detail: "Conversation already running. Wait for completion or pause first." },
  });
  expect(
    (await post(`/api/conversations/${id}/events/respond_to_confirmation`, { accept: true })).status,
  ).toBe(200);
  expect((await post(`/api/conversations/${id}/interrupt`)).status).toBe(200);
  expect((await get(`/api/conversations/${id}`)).body.execution_status).toBe("paused");
  const kinds = (await get(`/api/conversations/${id}/events/search`)).body.items.map(
    (event: { kind: string }) => event.kind,
  );
  expect(kinds).toContain("InterruptEvent");

  const other = await server.addConversation();
  expect((await post(`/api/conversations/${other}/pause`, {})).status).toBe(200);
  expect((await get(`/api/conversations/${other}`)).body.execution_status).toBe("paused");
  server.model.thinking = false;
});

test("events are filtered by kind, as a class name or as the reference's path of the class", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "one", "two");
  await post(`/api/conversations/${id}/pause`);
  const count = async (query: string) => (await get(`/api/conversations/${id}/events/count?${query}`)).body;
  expect(await count("kind=MessageEvent")).toBe(2);
  expect(await count("kind=openhands.sdk.event.llm_convertible.message.MessageEvent")).toBe(2);
  expect(await count("kind=PauseEvent")).toBe(1);
  expect(await count("kind=NoSuchEvent")).toBe(0);
  const first = (await get(`/api/conversations/${id}/events/search?limit=2`)).body;
  const second = (await get(`/api/conversations/${id}/events/search?limit=2&page_id=${first.next_page_id}`))
    .body;
  expect([first.items.length, second.items.length, second.next_page_id]).toEqual([2, 1, null]);
});

test("unknown and malformed conversations get 404 on every route", async () => {
  for (const id of [newId(), "zz"]) {
    const base = `/api/conversations/${id}`;
    for (const path of [base, `${base}/events/search`, `${base}/events/count`])
      expect([path, (await get(path)).status]).toEqual([path, 404]);
    for (const verb of ["run", "pause", "interrupt"])
      expect((await post(`${base}/${verb}`)).status).toBe(404);
    expect((await post(`${base}/events`, { content: [{ type: "text", text: "x" }] })).status).toBe(404);
  }
});

test("events are found by their source and by text in messages, page by page", async () => {
  const id = await server.addConversation();
  for (const text of ["Fix the Parser", "thanks", "and the parser's tests", "PARSER again"]) {
    await post(`/api/conversations/${id}/events`, { role: "user", content: [{ type: "text", text }] });
  }
  const search = async (query: string) => (await get(`/api/conversations/${id}/events/search?${query}`)).body;
  const texts = (page: { items: { llm_message: { content: { text: string }[] } }[] }) =>
    page.items.map((event) => event.llm_message.content[0]!.text);

  const first = await search("body=parser&limit=2");
  expect(texts(first)).toEqual(["Fix the Parser", "and the parser's tests"]);
  expect(texts(await search(`body=parser&limit=2&page_id=${first.next_page_id}`))).toEqual(["PARSER again"]);
  expect(texts(await search("body=parser&sort_order=TIMESTAMP_DESC&limit=1"))).toEqual(["PARSER again"]);
  expect((await get(`/api/conversations/${id}/events/count?body=parser&source=user`)).body).toBe(3);
  expect((await search("source=environment")).items).toEqual([]);
  expect((await search("source=agent")).items.map(({ kind }: { kind: string }) => kind)).toEqual([
    "SystemPromptEvent",
  ]);
  expect((await get(`/api/conversations/${id}/events/search?source=nobody`)).status).toBe(422);
});
