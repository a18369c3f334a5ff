import type { Socket } from "node:net";
import { EventLoopScheduler, type TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { newId } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  isUserMessage,
  key,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../test/support/test-server.ts";
import { createAuthenticator } from "../server/auth.ts";
import { attachSockets, type SocketOptions } from "./server.ts";

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

const auth = (text: string) => ({ type: "auth", session_api_key: text });

/** A separate server whose sockets have other limits. */
async function startWith(options: Partial<SocketOptions>, scheduler?: EventLoopScheduler) {
  const own = await startServer();
  own.sandboxes.add();
  own.app.server.removeAllListeners("upgrade");
  const { config, logger } = own;
  const authenticator = createAuthenticator(own);
  const attached = attachSockets(
    own.app.server,
    {
      config,
      logger,
      conversations: own.conversations,
      events: own.events,
      sandboxes: own.sandboxes,
      bash: own.bash,
      scheduler: scheduler ?? own.scheduler,
    },
    authenticator,
    options,
  );
  return { ...own, attached };
}

test("a handshake with a key counts at once, and does not wait for those without one", async () => {
  const waiting = new Map<string, (() => void)[]>();
  const scheduler = new EventLoopScheduler();
  const held = scheduler.queue.bind(scheduler);
  scheduler.queue = (name) => {
    const works = waiting.get(name) ?? [];
    if (name !== "requests" && name !== "handshakes of users") return held(name);
    waiting.set(name, works);
    return { add: (work: () => void) => void works.push(work) } as TimeSlicedQueue;
  };
  const users: string[] = [];
  const identify = (_connection: unknown, user: string) => void users.push(user);
  const own = await startWith({ connections: { identify } }, scheduler);
  const id = await own.addConversation();
  const path = `/sockets/events/${id}`;
  const connect = (query: string) => sockets[sockets.push(new TestSocket(own, path + query)) - 1]!;
  const until = async (name: string, count: number) => {
    while (waiting.get(name)!.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  for (let index = 0; index < 3; index++) connect("");
  connect("?session_api_key=wrong");
  await until("requests", 4);
  const mine = connect(`?session_api_key=${key}`);
  await until("handshakes of users", 1);
  expect(users).toEqual(["default"]);
  waiting.get("handshakes of users")!.shift()!();
  await mine.until(isFullState);
  expect(waiting.get("requests")).toHaveLength(4);
  for (const work of waiting.get("requests")!) work();
  for (const { socket } of sockets.splice(0)) socket.terminate();
  await own.close();
});

test("sockets per user are limited; other users and later sockets are not affected", async () => {
  const own = await startWith({ quota: new KeyedSemaphore([2]) });
  const id = await own.addConversation();
  const strangers = await own.addConversation("stranger", "none");
  const path = `/sockets/events/${id}`;
  const byFrame = () => {
    const socket = new TestSocket(own, path);
    socket.socket.on("open", () => socket.send(auth(key)));
    return socket;
  };
  const open = [new TestSocket(own, `${path}?session_api_key=${key}`), byFrame()];
  await Promise.all(open.map((socket) => socket.until(isFullState)));
  for (const socket of [
    new TestSocket(own, `${path}?session_api_key=${own.sessionKey("sandbox-1")}`),
    byFrame(),
  ]) {
    expect((await socket.closed).code).toBe(1013);
    expect(socket.frames).toEqual([]);
  }
  const other = new TestSocket(own, `/sockets/events/${strangers}?session_api_key=${strangerKey}`);
  await other.until(isFullState);
  open[0]!.socket.close();
  await open[0]!.closed;
  const again = async (): Promise<unknown> => {
    const socket = new TestSocket(own, `${path}?session_api_key=${key}`);
    return (await Promise.race([socket.until(isFullState), socket.closed.then(() => undefined)])) ?? again();
  };
  await again();
  await own.attached.close();
  await own.close();
});

test("a socket that never authenticates is closed with 4001 after the time for it", async () => {
  const own = await startWith({ authMs: 50 });
  const socket = new TestSocket(own, `/sockets/events/${newId()}`);
  expect(await socket.closed).toEqual({ code: 4001, reason: "Authentication failed" });
  await own.attached.close();
  await own.close();
});

test("a socket that only follows is closed with 4001 when its key ends", async () => {
  const own = await startWith({ checkMs: 20 });
  const { key: short } = await own.apiKeys.add("default", {
    name: "short",
    expiresAt: Date.now() + 1_500,
    readOnly: true,
  });
  const id = await own.addConversation();
  const ending = new TestSocket(own, `/sockets/events/${id}`, { "x-session-api-key": short });
  const lasting = new TestSocket(own, `/sockets/events/${id}`, { "x-session-api-key": key });
  await Promise.all([ending.until(isFullState), lasting.until(isFullState)]);
  expect(await ending.closed).toEqual({ code: 4001, reason: "Authentication failed" });
  await own.addMessages(id, "still here");
  await lasting.until(isUserMessage);
  lasting.socket.terminate();
  await own.attached.close();
  await own.close();
});

test("a client that does not read is disconnected with the number to resume from, and does not slow others", async () => {
  const own = await startWith({ maxUnsentBytes: 512 * 1024, maxBufferedBytes: 64 * 1024 });
  const id = await own.addConversation();
  const path = `/sockets/events/${id}`;
  const headers = { "x-session-api-key": key };
  const slow = new TestSocket(own, path, headers);
  const quick = new TestSocket(own, path, headers);
  await Promise.all([slow.until(isFullState), quick.until(isFullState)]);
  slow.socket.pause();
  let sent = 0;
  while (own.conversations.live.followers(id) === 2 && sent < 2000) {
    await own.addMessages(id, `${sent++} ${"x".repeat(100_000)}`);
    // The server notices the end when its kernel buffers are full; the disconnect uses the close.
    if (own.logs.some((line) => line.includes("cut off"))) break;
  }
  expect(sent).toBeLessThan(2000);
  await quick.until(
    (frame) => isUserMessage(frame) && frame.llm_message.content[0].text.startsWith(`${sent - 1} `),
  );
  slow.socket.resume();
  const { code, reason } = await slow.closed;
  expect(code).toBe(1013);
  const seq = Number(/after_seq=(\d+)/.exec(reason)![1]);
  expect(slow.texts()).toHaveLength(seq);

  const again = new TestSocket(own, `${path}?after_seq=${seq}`, headers);
  await again.until(
    (frame) => isUserMessage(frame) && frame.llm_message.content[0].text.startsWith(`${sent - 1} `),
  );
  expect(again.texts().map((text) => Number(text.split(" ")[0]))).toEqual(
    Array.from({ length: sent - seq }, (_, index) => seq + index),
  );
  for (const { socket } of [slow, quick, again]) socket.terminate();
  await own.attached.close();
  await own.close();
});

test("a client that does not answer pings is disconnected", async () => {
  const own = await startWith({ pingMs: 50 });
  const id = await own.addConversation();
  const headers = { "x-session-api-key": key };
  const alive = new TestSocket(own, `/sockets/events/${id}`, headers);
  const dead = new TestSocket(own, `/sockets/events/${id}`, headers);
  await Promise.all([alive.until(isFullState), dead.until(isFullState)]);
  dead.socket.pong = () => {};
  Object.assign(dead.socket, { _autoPong: false });
  expect((await dead.closed).code).toBe(1006);
  await own.addMessages(id, "hello");
  await alive.until(isUserMessage);
  alive.socket.terminate();
  await own.attached.close();
  await own.close();
});

test("a server that shuts down closes its sockets with 1001, also those that do not answer", async () => {
  const own = await startServer();
  const id = await own.addConversation();
  const headers = { "x-session-api-key": key };
  const socket = new TestSocket(own, `/sockets/events/${id}`, headers);
  const stuck = new TestSocket(own, `/sockets/events/${id}`, headers);
  await Promise.all([socket.until(isFullState), stuck.until(isFullState)]);
  stuck.socket.pause();
  await own.close();
  expect(await socket.closed).toEqual({ code: 1001, reason: "The server is shutting down" });
  stuck.socket.terminate();
});

test("a client that sends pings and never reads the answers loses its socket", async () => {
  const own = await startWith({ maxUnsentBytes: 64 * 1024 });
  const id = await own.addConversation();
  const client = new TestSocket(own, `/sockets/events/${id}?session_api_key=${key}`);
  await client.until(isFullState);
  const { _socket: connection } = client.socket as unknown as { _socket: Socket };
  connection.pause();
  connection.on("error", () => {});
  const ping = Buffer.concat([Buffer.from([0x89, 0xfd, 0, 0, 0, 0]), Buffer.alloc(125)]);
  const pings = Buffer.concat(Array.from({ length: 1_000 }, () => ping));
  const send = () => {
    while (connection.writable && connection.write(pings));
  };
  connection.on("drain", send);
  send();
  await new Promise((resolve) => connection.once("close", resolve));
  await own.attached.close();
  await own.close();
});
