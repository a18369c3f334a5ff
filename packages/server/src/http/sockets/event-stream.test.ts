import { newId } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  isUserMessage,
  key,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../test/support/test-server.ts";

let server: TestServer;
const streams: EventStream[] = [];
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  server.sandboxes.add();
});
afterEach(() => {
  for (const stream of streams.splice(0)) stream.end();
});
afterAll(() => server.close());

interface Received {
  id: string | undefined;
  data: Record<string, any>;
}

/** Reads a stream by the specification of Server-Sent Events. */
class EventStream {
  readonly received: Received[] = [];
  /** The id that a browser would send when it reconnects. */
  lastId: string | undefined;
  readonly response: Promise<Response>;
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();

  constructor(url: string, headers: Record<string, string> = {}) {
    this.response = fetch(url, { headers, signal: this.#abort.signal });
    this.ended = this.response.then((response) => this.#read(response)).catch(() => {});
    streams.push(this);
  }

  async until(fits: (data: Received["data"]) => boolean): Promise<Received> {
    return expect
      .poll(() => this.received.find(({ data }) => fits(data)), { interval: 5 })
      .toBeDefined()
      .then(() => this.received.find(({ data }) => fits(data))!);
  }

  texts(): string[] {
    return this.received
      .filter(({ data }) => isUserMessage(data))
      .map(({ data }) => data.llm_message.content[0].text);
  }

  end(): void {
    this.#abort.abort();
  }

  async #read(response: Response): Promise<void> {
    let rest = "";
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + chunk).split("\n\n");
      rest = blocks.pop()!;
      for (const block of blocks) {
        const fields = block.split("\n").map((line) => line.split(/:\s?(.*)/s, 2) as [string, string]);
        const id = fields.find(([name]) => name === "id")?.[1];
        const data = fields.find(([name]) => name === "data")?.[1];
        this.lastId = id ?? this.lastId;
        if (data !== undefined) this.received.push({ id, data: JSON.parse(data) });
      }
    }
  }
}

const own = { "x-session-api-key": key };
const open = (id: string, query = "", headers: Record<string, string> = own) =>
  new EventStream(`${server.url}/sockets/events/${id}${query}`, headers);
const isText = (text: string) => (data: Received["data"]) =>
  isUserMessage(data) && data.llm_message.content[0].text === text;

test("a stream starts with the full state, followed by numbered events", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "before");
  const stream = open(id);
  const { headers, status } = await stream.response;
  expect([status, headers.get("content-type"), headers.get("cache-control")]).toEqual([
    200,
    "text/event-stream; charset=utf-8",
    "no-store",
  ]);
  const state = await stream.until(isFullState);
  expect(state.data.value).toMatchObject({ id, execution_status: "idle" });
  expect(state.id).toBe("1");
  await server.addMessages(id, "after");
  expect((await stream.until(isUserMessage)).id).toBe("2");
  expect(stream.texts()).toEqual(["after"]);
});

test("the query selects stored events as for the socket", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "a", "b", "c");
  for (const [query, texts] of [
    ["?resend_mode=all", ["a", "b", "c"]],
    ["?resend_mode=since&after_seq=1", ["b", "c"]],
    ["?resend_mode=since&after_timestamp=2000-01-01T00:00:00", ["a", "b", "c"]],
  ] as const) {
    const stream = open(id, query);
    await stream.until(isText("c"));
    expect([query, stream.texts()]).toEqual([query, texts]);
  }
});

test("a client that reconnects with the last id gets every event exactly once", async () => {
  const id = await server.addConversation();
  const total = 300;
  const writing = (async () => {
    for (let index = 0; index < total; index++) await server.addMessages(id, `${index}`);
  })();
  const texts: string[] = [];
  let lastId: string | undefined;
  for (let round = 0; texts.at(-1) !== `${total - 1}`; round++) {
    const stream = open(id, "?resend_mode=all", {
      ...own,
      ...(lastId !== undefined && { "last-event-id": lastId }),
    });
    await stream.until((data) => isText(`${total - 1}`)(data) || stream.texts().length > 20);
    stream.end();
    await stream.ended;
    texts.push(...stream.texts());
    lastId = stream.lastId;
    expect(round).toBeLessThan(total);
  }
  await writing;
  expect(texts).toEqual(Array.from({ length: total }, (_, index) => `${index}`));
});

test("a key is read from a header or the query; invalid keys and other conversations get nothing", async () => {
  const id = await server.addConversation();
  const status = async (...given: Parameters<typeof open>) => (await open(...given).response).status;
  expect(await status(id, `?session_api_key=${key}`, {})).toBe(200);
  expect(await status(id, `?session_api_key=${server.sessionKey("sandbox-1")}`, {})).toBe(200);
  expect(await status(id, "", { authorization: `Bearer ${key}` })).toBe(200);
  expect(await status(id, "", {})).toBe(401);
  expect(await status(id, "?session_api_key=wrong", {})).toBe(401);
  expect(await status(id, `?session_api_key=${strangerKey}`, {})).toBe(404);
  expect(await status(id, `?session_api_key=${server.sessionKey("sandbox-2")}`, {})).toBe(404);
  expect(await status(newId())).toBe(404);
  expect(await status("no-id")).toBe(404);
  // Other routes ignore a key in the query.
  expect((await fetch(`${server.url}/api/v1/app-conversations/count?session_api_key=${key}`)).status).toBe(
    401,
  );
});

test("below /agent/<sandbox id> a stream shows only that sandbox", async () => {
  const id = await server.addConversation();
  const { sandboxId } = (await server.conversations.reads.get("default", id))!;
  const at = (sandbox: string) =>
    new EventStream(`${server.url}/agent/${sandbox}/sockets/events/${id}?resend_mode=all`, own);
  await at(sandboxId).until(isFullState);
  const other = [...server.sandboxes.rows.keys()].find((one) => one !== sandboxId)!;
  expect((await at(other).response).status).toBe(404);
});

test("the deletion of a conversation ends its streams", async () => {
  const id = await server.addConversation();
  const stream = open(id);
  await stream.until(isFullState);
  expect((await server.call("DELETE", `/api/conversations/${id}`)).status).toBe(200);
  await stream.ended;
  expect((await open(id).response).status).toBe(404);
});

test("an invalid query is rejected with 422", async () => {
  const id = await server.addConversation();
  for (const query of ["?resend_mode=some", "?resend_mode=since", "?after_seq=-1", "?after_seq=1e3"]) {
    expect([query, (await open(id, query).response).status]).toEqual([query, 422]);
  }
  for (const last of ["x", "-1", "1".repeat(40)]) {
    const answer = await open(id, "", { ...own, "last-event-id": last }).response;
    expect([last, answer.status]).toEqual([last, 422]);
  }
  expect((await fetch(`${server.url}/sockets/events/${id}`, { method: "HEAD", headers: own })).status).toBe(
    405,
  );
});

test("a closed stream stops following, and a shutdown ends open streams", async () => {
  const other = await startServer();
  other.sandboxes.add();
  const id = await other.addConversation();
  const [left, stays] = [0, 1].map(() => new EventStream(`${other.url}/sockets/events/${id}`, own)) as [
    EventStream,
    EventStream,
  ];
  await Promise.all([left.until(isFullState), stays.until(isFullState)]);
  expect(other.conversations.live.followers(id)).toBe(2);
  left.end();
  await expect.poll(() => other.conversations.live.followers(id)).toBe(1);
  await other.close();
  await stays.ended;
  expect(stays.received.length).toBeGreaterThan(0);
});
