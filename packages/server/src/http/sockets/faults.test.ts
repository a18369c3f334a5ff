import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  isUserMessage,
  key,
  startServer,
  type TestServer,
  TestSocket,
} from "../../../test/support/test-server.ts";
import { createAuthenticator } from "../server/auth.ts";
import { attachSockets, type SocketOptions } from "./server.ts";

const own = { "x-session-api-key": key };
const mebibyte = 1024 * 1024;
let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
});
afterAll(() => server.close());

/** A server whose sockets have other limits. */
async function startWith(options: Partial<SocketOptions>) {
  const other = await startServer();
  other.sandboxes.add();
  other.app.server.removeAllListeners("upgrade");
  const attached = attachSockets(other.app.server, other, createAuthenticator(other), options);
  const close = async () => {
    await attached.close();
    await other.close();
  };
  return Object.assign(other, { closeAll: close });
}

/** Sends a raw request, optionally a handshake; the response is not read without a listener. */
async function rawRequest(url: string, path: string, upgrade: boolean): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  const connection = connect(Number(port), hostname);
  await once(connection, "connect");
  const handshake =
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: c2FuZHBpcGVyLWJlbmNoMQ==\r\n";
  connection.write(
    `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nx-session-api-key: ${key}\r\n${upgrade ? handshake : ""}\r\n`,
  );
  return connection;
}

test("100 reconnects, half of them without a close frame, leak no descriptor, follower or quota", async () => {
  const quota = new KeyedSemaphore([3]);
  const other = await startWith({ quota });
  const id = await other.addConversation();
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const round = async (index: number) => {
    const socket = new TestSocket(other, `/sockets/events/${id}?resend_mode=all`, own);
    await socket.until(isFullState);
    if (index % 2 === 0) socket.socket.close();
    else socket.socket.terminate();
    await socket.closed;
    const stream = await rawRequest(other.url, `/sockets/events/${id}`, false);
    await once(stream, "data");
    if (index % 2 === 0) stream.end();
    else stream.resetAndDestroy();
    stream.resume();
    await expect.poll(() => other.conversations.live.followers(id), { interval: 1 }).toBe(0);
  };
  for (let index = 0; index < 5; index++) await round(index);
  const before = descriptors();
  for (let index = 0; index < 100; index++) await round(index);
  await expect.poll(descriptors).toBeLessThanOrEqual(before + 2);
  const leave = [0, 1, 2].map(() => quota.tryAcquire(["default"]));
  expect(leave.every((one) => one !== undefined)).toBe(true);
  await other.closeAll();
});

test("a client that vanishes is disconnected after the next ping, and others stay connected", async () => {
  const other = await startWith({ pingMs: 100 });
  const id = await other.addConversation();
  const stays = new TestSocket(other, `/sockets/events/${id}`, own);
  await stays.until(isFullState);
  const gone = await rawRequest(other.url, `/sockets/events/${id}`, true);
  // Reads until its end, and answers nothing.
  let received = "";
  gone.on("data", (data) => {
    received += data;
  });
  await once(gone, "close");
  expect(received).toContain("full_state");
  await expect.poll(() => other.conversations.live.followers(id)).toBe(1);
  await other.addMessages(id, "still here");
  await stays.until(isUserMessage);
  stays.socket.terminate();
  await other.closeAll();
});

test("no frame reaches 1 MiB, live or resent, numbered or not, however large its event is", async () => {
  const id = await server.addConversation();
  const live = [
    new TestSocket(server, `/sockets/events/${id}`, own),
    new TestSocket(server, `/sockets/events/${id}?after_seq=0`, own),
  ];
  await Promise.all(live.map((socket) => socket.until(isFullState)));
  const around = [mebibyte - 16 * 1024, mebibyte];
  await server.addMessages(id, "x");
  const [empty] = await server.events.read(id, 0, 1);
  const rest = empty!.json.length - 1;
  const lengths = around.flatMap((size) => [-12, -1, 0, 1].map((more) => size + more - rest));
  for (const length of lengths) await server.addMessages(id, "x".repeat(length));
  const resent = ["?resend_mode=all", "?after_seq=0"].map(
    (query) => new TestSocket(server, `/sockets/events/${id}${query}`, own),
  );
  for (const socket of [...live, ...resent]) {
    await socket.until(() => socket.texts().length === lengths.length + 1);
    for (const frame of socket.frames)
      expect(Buffer.byteLength(JSON.stringify(frame))).toBeLessThan(mebibyte);
    // Smaller events are whole.
    expect(socket.texts()[1]).toHaveLength(lengths[0]!);
    socket.socket.terminate();
  }
});

test("a client that does not read its resend is disconnected, and loses nothing when it reconnects", async () => {
  const other = await startWith({ maxUnsentBytes: 512 * 1024, maxBufferedBytes: 64 * 1024 });
  const id = await other.addConversation();
  const long = "x".repeat(100_000);
  for (let index = 0; index < 150; index++) await other.addMessages(id, `${index} ${long}`);
  const slow = new TestSocket(other, `/sockets/events/${id}?after_seq=0`, own);
  await slow.until(isFullState);
  slow.socket.pause();
  let sent = 150;
  while (!other.logs.some((line) => line.includes("cut off")) && sent < 400)
    await other.addMessages(id, `${sent++} ${long}`);
  expect(sent).toBeLessThan(400);
  slow.socket.resume();
  const { code, reason } = await slow.closed;
  expect(code).toBe(1013);
  const seq = Number(/after_seq=(\d+)/.exec(reason)![1]);
  // The number of the last received frame.
  expect(slow.frames.at(-1)!.seq).toBe(seq);
  const again = new TestSocket(other, `/sockets/events/${id}?after_seq=${seq}`, own);
  await again.until((frame) => frame.seq === sent);
  const numbers = [...slow.texts(), ...again.texts()].map((text) => Number(text.split(" ")[0]));
  expect(numbers).toEqual(Array.from({ length: sent }, (_, index) => index));
  again.socket.terminate();
  await other.closeAll();
});

test("an unread event stream is ended, and resumes exactly at its last id", async () => {
  const id = await server.addConversation();
  const stream = await rawRequest(server.url, `/sockets/events/${id}`, false);
  await expect.poll(() => server.conversations.live.followers(id)).toBe(1);
  let sent = 0;
  while (server.conversations.live.followers(id) === 1 && sent < 100)
    await server.addMessages(id, `${sent++} ${"x".repeat(500_000)}`);
  expect(sent).toBeLessThan(100);
  const chunks: Buffer[] = [];
  stream.on("error", () => {});
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(stream, "close");
  const whole = [
    ...Buffer.concat(chunks)
      .toString()
      .matchAll(/id: (\d+)\ndata: \{[^\n]*\}\n\n/g),
  ];
  const last = Number(whole.at(-1)![1]);
  expect(last).toBeLessThan(sent);
  const again = new TestSocket(server, `/sockets/events/${id}?after_seq=${last}`, own);
  await again.until(() => again.texts().length === sent - last);
  expect(again.texts().map((text) => Number(text.split(" ")[0]))).toEqual(
    Array.from({ length: sent - last }, (_, index) => last + index),
  );
  again.socket.terminate();
});

test("events carry their number only on sockets opened with after_seq", async () => {
  const id = await server.addConversation();
  await server.addMessages(id, "a", "b");
  const [usual, counted, later] = [
    "?resend_mode=all",
    "?resend_mode=since&after_seq=1",
    "?after_seq=999999999",
  ].map((query) => new TestSocket(server, `/sockets/events/${id}${query}`, own)) as [
    TestSocket,
    TestSocket,
    TestSocket,
  ];
  await Promise.all([usual, counted, later].map((socket) => socket.until(isFullState)));
  await server.addMessages(id, "c");
  for (const socket of [usual, counted, later])
    await socket.until((frame) => frame.llm_message?.content[0].text === "c");
  const numbers = ({ frames }: TestSocket) => frames.map(({ seq }) => seq);
  expect(numbers(usual)).toEqual([undefined, undefined, undefined, undefined]);
  expect(numbers(counted)).toEqual([1, 2, 3]);
  // Beyond the end of the log: only new events.
  expect(numbers(later)).toEqual([2, 3]);
  for (const { socket } of [usual, counted, later]) socket.terminate();
});
