import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import type { Principal } from "../server/principal.ts";
import { authenticateSocket, type Credential } from "./authenticate.ts";

const caller: Principal = { userId: "default", source: "k0" };

let server: WebSocketServer;
let client: WebSocket;
/** Look-ups that wait for their answer. */
let lookUps: ((found: Principal | undefined) => void)[];
/** Frames after the authentication. */
let received: string[];
let errors: unknown[];
const slow = () => new Promise<Principal | undefined>((resolve) => lookUps.push(resolve));
const message = (text: string) => JSON.stringify({ text });
const auth = JSON.stringify({ type: "auth", session_api_key: "key" });

beforeEach(async () => {
  server = new WebSocketServer({ port: 0, host: "127.0.0.1", allowSynchronousEvents: false });
  await once(server, "listening");
  [lookUps, received, errors] = [[], [], []];
});
afterEach(() => {
  client.terminate();
  server.close();
});

/** Connects a client, and authenticates its socket. */
async function connect(options: {
  known?: Principal;
  serve?: () => Promise<void>;
  credential?: Credential;
  checkMs?: number;
}): Promise<WebSocket> {
  const { known, serve = async () => {}, credential = slow, checkMs = 60_000 } = options;
  server.once("connection", (socket) =>
    authenticateSocket(socket, {
      caller: known,
      byHandshake: credential,
      byKey: credential,
      authMs: 10_000,
      checkMs,
      serve: async () => {
        await serve();
        socket.on("message", (data) => received.push(String(data)));
      },
      onError: (error) => errors.push(error),
    }),
  );
  client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [[socket]] = (await Promise.all([once(server, "connection"), once(client, "open")])) as [
    [WebSocket],
    unknown,
  ];
  return socket;
}

test("frames behind the auth frame wait for the look-up of its key, and arrive in order", async () => {
  await connect({});
  const texts = Array.from({ length: 50 }, (_, index) => message(`m${index}`));
  for (const text of [auth, ...texts]) client.send(text);
  await expect.poll(() => lookUps.length).toBe(1);
  // Frames that the server has read already come one in each round of the event loop.
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(received).toEqual([]);
  lookUps[0]!(caller);
  await expect.poll(() => received).toEqual(texts);
  client.send(message("later"));
  await expect.poll(() => received.at(-1)).toBe(message("later"));
  expect(received).toHaveLength(51);
});

test("frames of a known caller wait until its socket is served", async () => {
  const served = Promise.withResolvers<void>();
  await connect({ known: caller, serve: () => served.promise });
  client.send(message("early"));
  await new Promise((resolve) => setTimeout(resolve, 50));
  served.resolve();
  await expect.poll(() => received).toEqual([message("early")]);
});

test("a wrong key in the first frame closes with 4001, and nothing behind it is read", async () => {
  await connect({});
  for (const text of [auth, message("behind")]) client.send(text);
  await expect.poll(() => lookUps.length).toBe(1);
  lookUps[0]!(undefined);
  const [code] = await once(client, "close");
  expect(code).toBe(4001);
  expect(received).toEqual([]);
});

test("a failing look-up or service closes with 1011", async () => {
  const broken = new Error("broken");
  await connect({ known: caller, serve: () => Promise.reject(broken) });
  expect((await once(client, "close"))[0]).toBe(1011);
  await connect({ credential: () => Promise.reject(broken) });
  client.send(auth);
  expect((await once(client, "close"))[0]).toBe(1011);
  await connect({ known: caller, credential: () => Promise.reject(broken), checkMs: 10 });
  expect((await once(client, "close"))[0]).toBe(1011);
  expect(errors).toContain(broken);
});

test("a socket that closes during the look-up is not served and not checked again", async () => {
  let checks = 0;
  const socket = await connect({
    credential: () => (++checks === 1 ? slow() : Promise.resolve(caller)),
    checkMs: 10,
  });
  client.send(auth);
  await expect.poll(() => lookUps.length).toBe(1);
  const closed = once(socket, "close");
  socket.terminate();
  await closed;
  lookUps[0]!(caller);
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(checks).toBe(1);
});
