import { Client, type Followed, RequestError } from "@sandpiper/client";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { key, message, startServer, strangerKey, type TestServer } from "../support/test-server.ts";
import { CuttingProxy } from "./cutting-proxy.ts";

let server: TestServer;
let proxy: CuttingProxy;
let abort = new AbortController();
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  proxy = await CuttingProxy.start(server.port);
});
afterEach(() => {
  abort.abort();
  abort = new AbortController();
  proxy.nextCut = () => undefined;
});
afterAll(async () => {
  await proxy.close();
  await server.close();
});

const clientOf = (url: string, with_ = key) => new Client({ url, key: with_ });
const texts = (count: number, prefix = "") => Array.from({ length: count }, (_, at) => `${prefix}${at}`);

function textOf(followed: Followed): string | undefined {
  if (followed.type !== "event" || followed.event.kind !== "MessageEvent") return undefined;
  const [part] = followed.event.llm_message.content;
  return part?.type === "text" ? part.text : undefined;
}

/** Follows until there are so many events; gives everything that was followed. */
async function follow(
  client: Client,
  id: string,
  count: number,
  options: { after?: number; silenceMs?: number; onEach?: (each: Followed) => void } = {},
): Promise<Followed[]> {
  const { onEach, ...rest } = options;
  const all: Followed[] = [];
  if (count === 0) return all;
  for await (const each of client.follow(id, { ...rest, maxWaitMs: 200, signal: abort.signal })) {
    all.push(each);
    onEach?.(each);
    if (all.filter(({ type }) => type === "event").length === count) return all;
  }
  return all;
}

const eventTexts = (all: readonly Followed[]) => all.map(textOf).filter((text) => text !== undefined);

test("5,000 stored events arrive in order, and a later follower continues after any of them", async () => {
  const id = await server.addConversation();
  const wanted = texts(5_000);
  await server.addMessages(id, ...wanted);
  const all = await follow(clientOf(server.url), id, 5_000);
  expect(eventTexts(all)).toEqual(wanted);
  const seqs = all.flatMap((each) => (each.type === "event" ? [each.seq] : []));
  expect(seqs).toEqual([...seqs].sort((left, right) => left - right));
  const rest = await follow(clientOf(server.url), id, 1_000, { after: seqs[3_999]! });
  expect(eventTexts(rest)).toEqual(wanted.slice(4_000));
  expect(all.slice(0, 3)).toMatchObject([
    { type: "connection", state: "connecting" },
    { type: "connection", state: "live" },
    { type: "state", key: "full_state" },
  ]);
});

test("connections that are cut at any byte lose nothing and repeat nothing", async () => {
  const id = await server.addConversation();
  const wanted = texts(300, "event ");
  await server.addMessages(id, ...wanted.slice(0, 200));
  const { connections } = proxy;
  // The first cuts are in the handshake and in the first frame.
  const cuts = [1, 60, 150, 400, 1_000, ...texts(25).map(() => 500 + Math.floor(Math.random() * 20_000))];
  proxy.nextCut = () => cuts.shift();
  let isAdding = false;
  const all = await follow(clientOf(proxy.url), id, 300, {
    onEach: (each) => {
      if (each.type !== "event" || isAdding) return;
      isAdding = true;
      void (async () => {
        for (const text of wanted.slice(200)) await server.addMessages(id, text);
      })();
    },
  });
  expect(eventTexts(all)).toEqual(wanted);
  expect(proxy.connections - connections).toBeGreaterThan(8);
  const states = all.flatMap((each) => (each.type === "connection" ? [each.state] : []));
  expect(states).toContain("away");
  expect(states.at(-1)).toBe("live");
});

test("a connection that goes silent without a close is replaced", async () => {
  const id = await server.addConversation();
  const client = clientOf(proxy.url);
  const states: string[] = [];
  const followed = follow(client, id, 2, {
    silenceMs: 400,
    onEach: (each) => {
      if (each.type === "connection") states.push(each.state);
      if (textOf(each) !== "before") return;
      proxy.silence();
      void server.addMessages(id, "during");
    },
  });
  await server.addMessages(id, "before");
  expect(eventTexts(await followed)).toEqual(["before", "during"]);
  expect(states).toContain("away");
});

test("a quiet connection stays, because the server answers", async () => {
  const id = await server.addConversation();
  const { connections } = proxy;
  const followed = follow(clientOf(proxy.url), id, 1, {
    silenceMs: 100,
    onEach: (each) => {
      if (each.type === "state") setTimeout(() => void server.addMessages(id, "late"), 1_500);
    },
  });
  expect(eventTexts(await followed)).toEqual(["late"]);
  expect(proxy.connections - connections).toBe(1);
});

test("a follower of new events only gets those", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "old");
  const followed = follow(clientOf(server.url), id, 1, {
    after: Number.POSITIVE_INFINITY,
    onEach: (each) => {
      if (each.type === "state") void server.addMessages(id, "new");
    },
  });
  expect(eventTexts(await followed)).toEqual(["new"]);
});

test("hostile contents arrive as they are", async () => {
  const id = await server.addConversation();
  const hostile = [
    '{"type":"pong"}',
    '","seq":999999,"kind":"x',
    "<script>alert(1)</script>\u202e\u0007\u001b[2J",
    "\ud800 \u2028 \u2029 \ufeff",
    "é".repeat(100_000),
  ];
  await server.addMessages(id, ...hostile);
  expect(eventTexts(await follow(clientOf(server.url), id, hostile.length))).toEqual(hostile);
});

test("an event that does not fit into a frame says that it is cut, or comes whole", async () => {
  const id = await server.addConversation();
  const long = "x".repeat(3 * 1024 * 1024);
  const parts = Array.from({ length: 35_000 }, (_, at) => ({ type: "text" as const, text: `part ${at}` }));
  await server.addMessages(id, "small", long);
  const event = message("");
  if (event.kind === "MessageEvent") event.llm_message.content = parts;
  await server.store.events.append(id, [{ listed: true, event }]);
  await server.addMessages(id, "last");
  const client = clientOf(server.url);
  const events = (await follow(client, id, 4)).filter((each) => each.type === "event");
  expect(events.map(({ cut }) => cut)).toEqual([false, true, false, false]);
  expect(textOf(events[1]!)!.length).toBeLessThan(1024 * 1024);
  const whole = await client.events.get(id, events[1]!.event.id);
  expect(whole).toMatchObject({ llm_message: { content: [{ text: long }] } });
  expect(events[2]!.event).toMatchObject({ llm_message: { content: parts } });
});

test("an unknown, deleted or foreign conversation and a wrong key end a follower with their error", async () => {
  const id = await server.addConversation();
  const failure = async (client: Client, conversation: string, onState = () => {}) =>
    follow(client, conversation, 1, {
      onEach: ({ type }) => type === "state" && onState(),
    }).catch((error: unknown) => error);
  const missing = { status: 404, code: "ConversationNotFound" };
  const client = clientOf(server.url);
  for (const [from, conversation, error] of [
    [client, "no-id", missing],
    [client, "0".repeat(32), missing],
    [clientOf(server.url, strangerKey), id, missing],
    [clientOf(server.url, "wrong"), id, { status: 401, code: "Unauthorized" }],
  ] as const) {
    const found = await failure(from, conversation);
    expect(found).toBeInstanceOf(RequestError);
    expect(found).toMatchObject(error);
  }
  expect(await failure(client, id, () => void client.conversations.delete(id))).toMatchObject(missing);
});

test("a signal and the end of a loop end the connection", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "one");
  const own = await CuttingProxy.start(server.port);
  const reason = new Error("enough");
  const stopped = follow(clientOf(own.url), id, 2, {
    onEach: ({ type }) => type === "event" && abort.abort(reason),
  });
  await expect(stopped).rejects.toBe(reason);
  abort = new AbortController();
  await follow(clientOf(own.url), id, 1);
  await expect.poll(() => own.openConnections).toBe(0);
  expect(own.connections).toBe(2);
  await own.close();
});
