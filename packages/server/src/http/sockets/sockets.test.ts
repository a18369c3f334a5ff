import { once } from "node:events";
import { hexId, newId } from "@sandpiper/wire";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  isUserMessage,
  key,
  message,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../test/support/test-server.ts";

let server: TestServer;
const sockets: TestSocket[] = [];
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  server.sandboxes.add();
});
afterEach(() => {
  for (const { socket } of sockets.splice(0)) socket.terminate();
});
afterAll(() => server.close());

function connect(
  id: string,
  query = "",
  headers: Record<string, string> = { "x-session-api-key": key },
): TestSocket {
  const socket = new TestSocket(server, `/sockets/events/${id}${query}`, headers);
  sockets.push(socket);
  return socket;
}

const auth = (text: string) => ({ type: "auth", session_api_key: text });

test("a key in the query or a header opens the socket, and the first frame is the full state", async () => {
  const id = await server.addConversation();
  for (const socket of [
    connect(id),
    connect(hexId(id), `?session_api_key=${key}`, {}),
    connect(id, `?session_api_key=${server.sessionKey("sandbox-1")}`, {}),
    connect(id, "", { authorization: `Bearer ${key}` }),
  ]) {
    await socket.until(() => true);
    expect(socket.frames[0]).toMatchObject({
      kind: "ConversationStateUpdateEvent",
      source: "environment",
      key: "full_state",
    });
    expect(socket.frames[0]!.value).toMatchObject({ id, execution_status: "idle" });
    expect(socket.frames[0]!.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);
  }
});

test("a wrong key, a wrong query and another path refuse the handshake", async () => {
  const id = await server.addConversation();
  expect(await connect(id, "?session_api_key=wrong", {}).refused).toBe(403);
  expect(await connect(id, "", { "x-session-api-key": "wrong" }).refused).toBe(403);
  expect(await connect(id, "?resend_mode=some").refused).toBe(422);
  expect(await connect(id, "?resend_mode=since").refused).toBe(422);
  expect(await connect(id, "?resend_mode=since&after_timestamp=yesterday").refused).toBe(422);
  expect(await connect(id, "?after_seq=x").refused).toBe(422);
  expect(await connect("a/b").refused).toBe(404);
});

test("without a key in the handshake the first frame must bring one; later auth frames are ignored", async () => {
  const id = await server.addConversation();
  const socket = connect(id, "", {});
  await once(socket.socket, "open");
  expect(socket.frames).toEqual([]);
  socket.send(auth(server.sessionKey("sandbox-1")));
  await socket.until(isFullState);
  socket.send(auth("whatever"));
  await server.addMessages(id, "live");
  await socket.until(isUserMessage);
  expect(socket.frames.some((frame) => frame.kind === "ServerErrorEvent")).toBe(false);

  for (const first of [auth("wrong"), { type: "other" }, "not json", { role: "user", content: [] }]) {
    const refused = connect(id, "", {});
    await once(refused.socket, "open");
    refused.send(first);
    expect(await refused.closed).toEqual({ code: 4001, reason: "Authentication failed" });
  }
});

test("sockets of an unknown conversation, another user's or another sandbox's close with 4004 after the handshake", async () => {
  const id = await server.addConversation();
  for (const socket of [
    connect(newId()),
    connect("not-a-uuid"),
    connect(id, "", { "x-session-api-key": strangerKey }),
    connect(id, "", { "x-session-api-key": server.sessionKey("sandbox-2") }),
  ]) {
    expect(await socket.closed).toEqual({ code: 4004, reason: "Conversation not found" });
  }
});

test("the deletion of a conversation closes its sockets with 4004, and no others", async () => {
  const [id, other] = [await server.addConversation(), await server.addConversation()];
  const [first, second, stays] = [connect(id), connect(id), connect(other)];
  for (const socket of [first, second, stays]) await socket.until(isFullState);
  expect((await server.call("DELETE", `/api/conversations/${id}`)).status).toBe(200);
  for (const socket of [first, second])
    expect(await socket.closed).toEqual({ code: 4004, reason: "The conversation has been deleted" });
  await server.addMessages(other, "still there");
  await stays.until(isUserMessage);
});

test("without a resend only new events are sent", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "before");
  const socket = connect(id);
  await socket.until(isFullState);
  await server.addMessages(id, "after");
  await socket.until(isUserMessage);
  expect(socket.texts()).toEqual(["after"]);
});

test("a resend sends the stored events in order, all or since a time, and no state updates", async () => {
  const id = await server.addConversation();
  const status = {
    kind: "ConversationStateUpdateEvent",
    source: "environment",
    key: "execution_status",
    value: "idle",
  } as const;
  for (let index = 0; index < 250; index++) await server.addMessages(id, `m${index}`);
  await server.events.append(id, [{ listed: false, event: status }]);
  const texts = Array.from({ length: 250 }, (_, index) => `m${index}`);
  const at = async (index: number) => (await server.events.read(id, index, 1))[0]!.event.timestamp;

  const last = (frame: Record<string, any>) =>
    isUserMessage(frame) && frame.llm_message.content[0].text === "m249";
  const since = async (from: number) =>
    [`?resend_mode=since&after_timestamp=${await at(from)}`, texts.slice(from)] as const;
  for (const [query, expected] of [
    ["?resend_all=true", texts],
    ["?resend_mode=all", texts],
    ...(await Promise.all([0, 1, 2, 3, 120, 247, 248, 249].map(since))),
    [`?resend_mode=since&after_timestamp=${await at(120)}Z`, texts.slice(120)],
    [`?resend_mode=since&after_timestamp=2000-01-01T00:00:00`, texts],
    ["?after_seq=248", texts.slice(248)],
  ] as const) {
    const socket = connect(id, query);
    await socket.until(last);
    expect([query, socket.texts()]).toEqual([query, expected]);
    expect(isFullState(socket.frames[0]!)).toBe(true);
    expect(socket.frames.filter((frame) => frame.kind === "ConversationStateUpdateEvent")).toHaveLength(1);
  }
  const late = connect(id, "?resend_mode=since&after_timestamp=2100-01-01T00:00:00%2B02:00");
  await late.until(isFullState);
  await server.addMessages(id, "m250");
  await late.until(isUserMessage);
  expect(late.texts()).toEqual(["m250"]);
});

test("between resend and live frames no event is lost or repeated", async () => {
  const id = await server.addConversation();
  for (let index = 0; index < 150; index++) await server.addMessages(id, `${index}`);
  const total = 450;
  const writing = (async () => {
    for (let index = 150; index < total; index++) await server.addMessages(id, `${index}`);
  })();
  const clients: TestSocket[] = [];
  for (let index = 0; index < 20; index++) {
    clients.push(connect(id, "?resend_mode=all"));
    await clients.at(-1)!.until(isFullState);
  }
  await writing;
  const expected = Array.from({ length: total }, (_, index) => `${index}`);
  for (const client of clients) {
    await client.until(
      (frame) => isUserMessage(frame) && frame.llm_message.content[0].text === `${total - 1}`,
    );
    expect(client.texts()).toEqual(expected);
  }
});

test("a message from the client is stored, answered by the agent, and echoed to every socket", async () => {
  const id = await server.addConversation();
  const [sender, other] = [connect(id), connect(id)];
  await Promise.all([sender.until(isFullState), other.until(isFullState)]);
  sender.send({
    role: "user",
    content: [
      { type: "text", text: "hello" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
    ],
  });
  for (const socket of [sender, other]) {
    const echo = await socket.until(isUserMessage);
    expect(echo.llm_message.content).toMatchObject([
      { type: "text", text: "hello" },
      { type: "image", image_urls: ["data:image/png;base64,AA"] },
    ]);
    await socket.until((frame) => frame.kind === "MessageEvent" && frame.source === "agent");
    await socket.until((frame) => isFullState(frame) && frame.value.execution_status === "finished");
  }
});

test("invalid frames get an error frame and the socket stays open", async () => {
  const id = await server.addConversation();
  const socket = connect(id);
  await socket.until(isFullState);
  const errors = () => socket.frames.filter((frame) => frame.kind === "ServerErrorEvent");
  const bad = [
    "not json",
    "[]",
    "7",
    "null",
    {},
    { role: "assistant", content: [{ type: "text", text: "x" }] },
    { role: "user", content: [] },
  ];
  for (const [index, frame] of bad.entries()) {
    socket.send(frame);
    await socket.until(() => errors().length > index);
    expect(errors()[index]).toMatchObject({
      kind: "ServerErrorEvent",
      source: "environment",
      code: "InvalidFrame",
      detail: expect.any(String),
    });
  }
  socket.socket.send(Buffer.from([1, 2, 3]), { binary: true });
  await socket.until(() => errors().length > bad.length);
  expect(errors().at(-1)!.detail).toContain("Binary");
  socket.send({ role: "user", content: [{ type: "text", text: "x".repeat(1_100_000) }] });
  await socket.until((frame) => frame.code === "FrameTooLarge");
  socket.send({ role: "user", content: [{ type: "text", text: "still here" }] });
  await socket.until(isUserMessage);
  expect(socket.texts()).toEqual(["still here"]);
});

test("no frame and no handshake query crashes the socket or the server", async () => {
  const id = await server.addConversation();
  const socket = connect(id);
  await socket.until(isFullState);
  const answers = () =>
    socket.frames.filter((frame) => frame.kind === "ServerErrorEvent" || isUserMessage(frame)).length;
  const part = fc.record(
    { type: fc.constantFrom("text", "image", "image_url", "auth"), text: fc.anything() },
    { requiredKeys: ["type"] },
  );
  const frames = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({ role: fc.constantFrom("user", "tool"), content: fc.array(part), sender: fc.anything() })
      .map((frame) => JSON.stringify(frame)),
    fc.constantFrom(
      "[".repeat(100_000),
      '{"__proto__":1}',
      '{"role":"user","content":[{"type":"text","text":"\\u0000"}]}',
    ),
  );
  await fc.assert(
    fc.asyncProperty(frames, async (frame) => {
      const before = answers();
      socket.send(frame);
      await socket.until(() => answers() > before);
    }),
    { numRuns: 150 },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.webQueryParameters(),
      fc.constantFrom("resend_mode", "after_timestamp", "resend_all", "after_seq", "x"),
      async (query, name) => {
        const other = connect(id, `?${name}=${query}`);
        await Promise.race([
          other.refused.then((status) => expect(status).toBeLessThan(500)),
          other.until(isFullState),
        ]);
        other.socket.terminate();
      },
    ),
    { numRuns: 60 },
  );
  expect(socket.socket.readyState).toBe(socket.socket.OPEN);
});

test("messages are processed in the order in which they were sent", async () => {
  const id = await server.addConversation();
  const socket = connect(id);
  await socket.until(isFullState);
  const texts = Array.from({ length: 50 }, (_, index) => `m${index}`);
  for (const text of texts) socket.send({ role: "user", content: [{ type: "text", text }] });
  await socket.until((frame) => isUserMessage(frame) && frame.llm_message.content[0].text === "m49");
  expect(socket.texts()).toEqual(texts);
});

test("an event that is too large for clients is shortened for the socket and complete over REST", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, `begin${"é".repeat(1_000_000)}end`);
  const socket = new TestSocket(server, `/sockets/events/${id}?resend_mode=all`, {
    "x-session-api-key": key,
  });
  sockets.push(socket);
  const frame = await socket.until(isUserMessage);
  expect(Buffer.byteLength(JSON.stringify(frame))).toBeLessThan(1024 * 1024);
  expect(frame.llm_message.content[0].text).toMatch(/^begin[\s\S]*characters are left out\][\s\S]*end$/);
  const { items } = (await (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).json()) as {
    items: Record<string, any>[];
  };
  expect(items[0]!.llm_message.content[0].text).toHaveLength(1_000_008);
  expect(items[0]!.id).toBe(frame.id);
});

test("a socket that closes stops following", async () => {
  const id = await server.addConversation();
  const socket = connect(id);
  await socket.until(isFullState);
  expect(server.conversations.live.followers(id)).toBe(1);
  socket.socket.close();
  await socket.closed;
  await expect.poll(() => server.conversations.live.followers(id)).toBe(0);
});

test("a session has one cursor: stored events are durable with numbers from 0, and all else is transient", async () => {
  const id = await server.addConversation();
  const session = (query = "", headers: Record<string, string> = { "x-session-api-key": key }) => {
    const socket = new TestSocket(server, `/sockets/session/${id}${query}`, headers);
    sockets.push(socket);
    return socket;
  };
  const texts = ({ frames }: TestSocket) =>
    frames.filter(({ type }) => type === "durable").map(({ event }) => event.llm_message.content[0].text);
  await server.addMessages(id, "zero", "one", "two");

  const live = session();
  await live.until(({ event }) => event?.key === "full_state");
  expect(live.frames[0]).toEqual({ type: "sync" });
  expect(live.frames[1]).toMatchObject({ type: "transient", event: { key: "full_state" } });

  const all = session("?after_seq=-1");
  await all.until(({ seq }) => seq === 2);
  expect(all.frames[0]).toEqual({ type: "sync", from_seq: 0, through_seq: 2 });
  expect(texts(all)).toEqual(["zero", "one", "two"]);
  const later = session("?after_seq=0");
  await later.until(({ seq }) => seq === 2);
  expect(later.frames[0]).toEqual({ type: "sync", from_seq: 1, through_seq: 2 });
  expect(later.frames.filter(({ type }) => type === "durable").map(({ seq }) => seq)).toEqual([1, 2]);

  await server.addMessages(id, "three");
  for (const socket of [live, all, later]) {
    expect(await socket.until(({ seq }) => seq === 3)).toMatchObject({
      type: "durable",
      event: message("three"),
    });
  }
  expect(texts(live)).toEqual(["three"]);
  const resumed = session(`?after_seq=99&session_api_key=${key}`, {});
  await resumed.until(({ type }) => type === "transient");
  expect(resumed.frames[0]).toEqual({ type: "sync", from_seq: 4, through_seq: 3 });

  live.send("no JSON");
  expect(await live.until(({ type }) => type === "error")).toEqual({
    type: "error",
    code: expect.any(String),
    detail: expect.any(String),
  });
  expect(await session("?after_seq=x").refused).toBe(422);
  expect(await session("", { "x-session-api-key": "wrong" }).refused).toBe(403);
  expect(await session("", { "x-session-api-key": strangerKey }).closed).toMatchObject({ code: 4004 });
});

test("deltas and states that are not stored arrive live", async () => {
  const id = await server.addConversation();
  const socket = connect(id);
  await socket.until(isFullState);
  await server.events.append(id, [
    {
      listed: false,
      event: {
        kind: "ConversationStateUpdateEvent",
        source: "environment",
        key: "execution_status",
        value: "paused",
      },
    },
    { listed: true, event: message("x") },
  ]);
  expect(await socket.until((frame) => frame.key === "execution_status")).toMatchObject({ value: "paused" });
});
