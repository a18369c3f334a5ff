import { once } from "node:events";
import { connect } from "node:net";
import { maxPageLength } from "@sandpiper/core/paging";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../test/support/test-server.ts";
import { maxMessageLength } from "../../conversations/log/messages.ts";
import { defaultUser } from "../../users/default-user.ts";
import { maxJsonValues, parseJson } from "./json.ts";

/** Requests that are small to send and could block the server for others. */

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ bodyLimit: 32 * 1024 * 1024 });
});
afterAll(() => server.close());

test("a body with millions of values is rejected before it is parsed", async () => {
  const many = "1,".repeat(5_000_000);
  const texts = [
    `{"pr_number":[${many}1]}`,
    `{"tags":{${'"k":1,'.repeat(4_000_000)}"k":1}}`,
    "[".repeat(10_000_000),
    '{"title":"\\\\","pr_number":[[],{},'.concat(many),
  ];
  for (const body of texts) {
    const answer = await read(server.call("POST", "/api/v1/app-conversations", { body }));
    expect(answer.status).toBe(422);
    expect(answer.body.detail[0].msg).toContain(`more than ${maxJsonValues} values`);
  }
});

test("a body without messages has at most 1 MiB", async () => {
  const body = (length: number) => ({ llm_model: "x".repeat(length) });
  const post = async (length: number) =>
    (await server.call("POST", "/api/settings", { body: body(length) })).status;
  expect(await post(2 ** 20)).toBe(413);
  expect(await post(2 ** 20 - 100)).not.toBe(413);
});

test("values are counted outside of strings only", () => {
  const text = `,[{\\"`.repeat(maxJsonValues);
  expect(parseJson(JSON.stringify([text, "\\", text]))).toEqual([text, "\\", text]);
  const list = Array<number>(maxJsonValues).fill(1);
  expect(parseJson(JSON.stringify(list))).toEqual(list);
  expect(() => parseJson(JSON.stringify([...list, 1, 1]))).toThrow(`more than ${maxJsonValues} values`);
});

/**
 * Starts to send a body of 20 MB without a key, then pauses; returns the status, or undefined
 * without a timely response.
 */
async function beginBody(path: string): Promise<number | undefined> {
  const socket = connect(server.port, "127.0.0.1");
  socket.on("error", () => {});
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
  socket.write(`${head}Content-Length: 20000000\r\n\r\n{"key":"`);
  const [answer] = await once(socket, "data", { signal: AbortSignal.timeout(3_000) }).catch(() => []);
  socket.destroy();
  return answer && Number(String(answer).split(" ")[1]);
}

test("a caller without a key cannot make the server buffer a large body", async () => {
  expect(await beginBody("/login")).toBe(413);
  expect(await beginBody("/logout")).toBe(413);
  expect(await beginBody("/nothing")).toBe(404);
  expect(await beginBody("/docs")).toBe(405);
  expect(await beginBody("/api/settings")).toBe(401);
  expect(await beginBody("/api/nothing")).toBe(401);
});

test("a message is refused above a length, images included", async () => {
  server.sandboxes.add();
  const id = await server.addConversation();
  const part = { type: "text", text: "x".repeat(maxMessageLength / 2) };
  const image = { type: "image", image_urls: [part.text, "x"] };
  const send = (path: string, content: unknown[]) =>
    read(server.call("POST", path, { body: { content, run: false } }));
  const long = [part, image];
  for (const path of [
    `/api/conversations/${id}/events`,
    `/api/v1/app-conversations/${id}/send-message`,
    `/api/v1/conversations/${id}/pending-messages`,
  ])
    expect([path, (await send(path, long)).status]).toEqual([path, 422]);
  const body = { initial_message: { content: long } };
  expect((await server.call("POST", "/api/v1/app-conversations", { body })).status).toBe(422);
  expect((await send(`/api/conversations/${id}/events`, [part, part])).status).toBe(200);
});

/** All items of a list, and the size of each page. */
async function pages(path: string): Promise<{ items: { id: string }[]; counts: number[] }> {
  const items = [];
  const counts = [];
  for (let next: string | null = "0"; next !== null; ) {
    const { body } = await read(
      server.call("GET", `${path}${path.includes("?") ? "&" : "?"}limit=100&page_id=${next}`),
    );
    items.push(...body.items);
    counts.push(body.items.length);
    next = body.next_page_id;
  }
  return { items, counts };
}

test("pages of long events end early, and together contain every event in order", async () => {
  const id = await server.addConversation();
  for (let i = 0; i < 7; i++)
    await server.addMessages(id, `${i}`.padEnd(maxPageLength * (i === 3 ? 1.1 : 0.4), "x"), `short ${i}`);
  const all = `/api/v1/conversation/${id}/events/search`;
  const legacy = `/api/conversations/${id}/events/search`;
  const whole = await pages(`${all}?sort_order=TIMESTAMP`);
  expect(new Set(whole.items.map((event) => event.id)).size).toBe(14);
  for (const path of [`${all}?kind__eq=MessageEvent`, legacy, `${legacy}?source=user`, `${legacy}?body=x`]) {
    const { items, counts } = await pages(path);
    const wanted = path.includes("body")
      ? whole.items.filter((_event, index) => index % 2 === 0)
      : whole.items;
    expect([path, items.map((event) => event.id)]).toEqual([path, wanted.map((event) => event.id)]);
    expect(Math.max(...counts)).toBeLessThan(7);
  }
  const down = await pages(`${all}?sort_order=TIMESTAMP_DESC`);
  expect(down.items.map((event) => event.id).reverse()).toEqual(whole.items.map((event) => event.id));
  const ids = whole.items.filter((_event, index) => index % 2 === 0).map((event) => `id=${event.id}`);
  expect(
    (await server.call("GET", `/api/v1/conversation/${id}/events?${ids.slice(0, 2).join("&")}`)).status,
  ).toBe(200);
  const many = Array.from({ length: 4 }, () => ids).flat();
  expect((await server.call("GET", `/api/v1/conversation/${id}/events?${many.join("&")}`)).status).toBe(413);
  const v0 = await read(server.call("GET", `/api/conversations/${id}/events?limit=100`));
  expect([v0.body.events.length < 14, v0.body.has_more]).toEqual([true, true]);
});

test("pages of start tasks with long messages end early too", async () => {
  const text = "x".repeat(maxPageLength * 0.4);
  for (let i = 0; i < 5; i++) {
    const row = {
      id: newId(),
      userId: defaultUser,
      status: "READY",
      detail: null,
      conversationId: newId(),
      sandboxId: null,
    } as const;
    const request = { initial_message: { content: [{ type: "text", text }] } };
    await server.store.startTasks.create({ ...row, request, createdAt: i, updatedAt: i });
  }
  const path = "/api/v1/app-conversations/start-tasks";
  const { items, counts } = await pages(`${path}/search`);
  expect(new Set(items.map(({ id }) => id)).size).toBe(5);
  expect(counts).toEqual([2, 2, 1]);
  const ids = Array.from({ length: 5 }, () => items.map(({ id }) => `ids=${id}`)).flat();
  expect((await server.call("GET", `${path}?${ids.slice(0, 5).join("&")}`)).status).toBe(200);
  expect((await server.call("GET", `${path}?${ids.join("&")}`)).status).toBe(413);
});
