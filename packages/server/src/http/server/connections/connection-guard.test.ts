import { EventEmitter, once } from "node:events";
import { connect, type Socket } from "node:net";
import { parseRanges } from "@sandpiper/core/outbound/addresses";
import { afterAll, expect, test } from "vitest";
import { key, startServer, TestSocket } from "../../../../test/support/test-server.ts";
import { ConnectionGuard } from "./connection-guard.ts";
import { connectionLimits } from "./connection-limits.ts";

const server = await startServer();
afterAll(() => server.close());

class FakeConnection extends EventEmitter {
  destroyed = false;
  /** How often the address was read, which is a system call. */
  reads = 0;
  readonly #address: string;

  constructor(address: string) {
    super();
    this.#address = address;
  }
  get remoteAddress() {
    this.reads++;
    return this.#address;
  }
  destroy() {
    if (!this.destroyed) this.emit("close");
    this.destroyed = true;
    return this;
  }
}

function makeGuard() {
  const warnings: object[] = [];
  const guard = new ConnectionGuard({
    limits: { total: 10, anonymous: 6, networkShare: 3, perUser: 2 },
    trustedProxies: parseRanges(["10.0.0.0/8", "fd00::/8"]),
    logger: { warn: (facts) => void warnings.push(facts) },
  });
  const open = (address: string, userId?: string) => {
    const connection = new FakeConnection(address);
    guard.admit(connection as never);
    if (userId !== undefined) guard.identify(connection as never, userId);
    return connection;
  };
  const destroyed = (connections: FakeConnection[]) => connections.map((one) => one.destroyed);
  return { open, destroyed, warnings, guard };
}

test("a network may have all places until others need them: then its oldest one is closed", () => {
  const { open, destroyed, warnings } = makeGuard();
  const crowd = Array.from({ length: 6 }, () => open("192.0.2.1"));
  expect(destroyed(crowd)).not.toContain(true);
  const others = ["192.0.2.9", "192.0.2.8", "192.0.2.7"].map((address) => open(address));
  expect(destroyed(crowd)).toEqual([true, true, true, false, false, false]);
  // The crowd has its share of three now, so the oldest of all is the next one.
  others.push(open("192.0.2.6"));
  expect(destroyed(crowd)).toEqual([true, true, true, true, false, false]);
  expect(destroyed(others)).not.toContain(true);
  expect(warnings).toEqual([{ displaced: 1, address: "192.0.2.9" }]);
});

test("addresses of one IPv6 network count together", () => {
  const { open, destroyed } = makeGuard();
  const first = open("192.0.2.1");
  const six = [1, 2, 3, 4, 5].map((index) => open(`2001:db8::${index}`));
  open("192.0.2.2");
  expect(destroyed([first, ...six])).toEqual([false, true, false, false, false, false]);
});

test("connections of trusted proxies are displaced only as the oldest of all", () => {
  const { open, destroyed } = makeGuard();
  const proxied = ["10.1.1.1", "::ffff:10.1.1.1", "fd00::1", "10.1.1.1"].map((address) => open(address));
  const flood = ["a", "b", "c"].map((_, index) => open(`192.0.2.${index}`));
  expect(destroyed(proxied)).toEqual([true, false, false, false]);
  expect(destroyed(flood)).toEqual([false, false, false]);
});

test("a connection that showed a credential is never closed for others", () => {
  const { open, destroyed } = makeGuard();
  const known = [open("192.0.2.1", "ann"), open("192.0.2.1", "ann"), open("192.0.2.1", "bob")];
  const flood = Array.from({ length: 50 }, (_, index) => open(`192.0.2.${index % 20}`));
  expect(destroyed(known)).toEqual([false, false, false]);
  expect(destroyed(flood).filter((gone) => !gone)).toHaveLength(6);
});

test("over a user's limit, and beyond all places, connections with a credential can be closed", () => {
  const { open, destroyed } = makeGuard();
  const third = ["ann", "ann", "ann"].map((user) => open("192.0.2.1", user))[2]!;
  const more = ["bob", "eve", "joe"].map((user) => open("192.0.2.2", user));
  const flood = Array.from({ length: 6 }, (_, index) => open(`198.51.100.${index}`));
  expect(destroyed([third, ...more])).toEqual([true, false, false, true]);
  // Places of closed connections are free again.
  more[0]!.destroy();
  flood[0]!.destroy();
  const next = open("192.0.2.3", "joe");
  for (let index = 0; index < 10; index++) open(`203.0.113.${index}`);
  expect(next.destroyed).toBe(false);
});

test("addresses are read only when there are too many connections, and once each", () => {
  const { open, destroyed } = makeGuard();
  for (let index = 0; index < 100; index++) {
    const connection = open("192.0.2.1");
    connection.destroy();
    expect(connection.reads).toBe(0);
  }
  const six = Array.from({ length: 6 }, () => open("192.0.2.1"));
  expect(six.map(({ reads }) => reads)).toEqual([0, 0, 0, 0, 0, 0]);
  const more = [open("192.0.2.1"), open("192.0.2.1")];
  expect(destroyed([...six, ...more])).toEqual([true, true, ...Array(6).fill(false)]);
  // The newcomer that the warning names was read twice.
  expect([...six, ...more].map(({ reads }) => reads)).toEqual([1, 1, 1, 1, 1, 1, 2, 1]);
});

test("half of the process's descriptors stay free for other things than connections", () => {
  expect(connectionLimits(1_000_000)).toEqual({
    total: 10_000,
    anonymous: 2_048,
    networkShare: 512,
    perUser: 2_000,
  });
  expect(connectionLimits(1_024)).toEqual({
    total: 512,
    anonymous: 104,
    networkShare: 26,
    perUser: 102,
  });
});

test("six hundred clients of one address that connect before one sends its key all get in", async () => {
  const id = await server.addConversation();
  const clients = Array.from({ length: 600 }, () => connect(server.port, "127.0.0.1"));
  // Connections are accepted in order: an answer on the last one says that all are open.
  const last = connect(server.port, "127.0.0.1");
  last.write("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  await once(last, "data");
  const answers = await Promise.all(
    clients.map(async (client) => {
      const first = once(client, "data");
      client.write(
        `GET /sockets/events/${id} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n`,
      );
      return String((await first)[0]).slice(0, 12);
    }),
  );
  for (const client of [...clients, last]) client.destroy();
  expect(answers).toEqual(Array(600).fill("HTTP/1.1 101"));
});

test("a flood of silent, slow and keyless connections keeps nobody out", async () => {
  const id = await server.addConversation();
  const mine = new TestSocket(server, `/sockets/events/${id}`, { "x-session-api-key": key });
  await mine.until((frame) => frame.key === "full_state");
  const beginnings = [
    "",
    "GET /api/keys HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{",
    "POST /api/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{",
    "GET /sockets/terminal HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
    `GET / HTTP/1.1\r\nHost: 8000-sandbox-1.localhost:${server.port}\r\n\r\n`,
  ];
  let open = 0;
  const flood: Socket[] = [];
  for (let index = 0; index < 2_300; index++) {
    const socket = connect(server.port, "127.0.0.1", () => socket.write(beginnings[index % 6]!));
    open++;
    socket
      .on("error", () => {})
      .on("close", () => open--)
      .resume();
    flood.push(socket);
    if (index % 300 === 299) {
      expect((await server.call("GET", "/health", { key: null })).status).toBe(200);
      expect((await server.call("GET", "/api/keys")).status).toBe(200);
    }
  }
  await expect.poll(() => open).toBeLessThanOrEqual(2_048);
  expect(mine.socket.readyState).toBe(mine.socket.OPEN);
  expect(server.logs.join("")).toContain("Many connections without a key are open");
  for (const socket of flood) socket.destroy();
  mine.socket.close();
});

test("the connection of another node takes no place and is never closed for others", () => {
  const { open, destroyed, guard } = makeGuard();
  const ofNode = open("192.0.2.1");
  guard.exempt(ofNode as never);
  guard.identify(ofNode as never, "ann");
  const users = [open("192.0.2.2", "ann"), open("192.0.2.3", "ann")];
  const crowd = Array.from({ length: 6 }, () => open("192.0.2.4"));
  expect(destroyed([ofNode, ...users, ...crowd])).not.toContain(true);
  open("192.0.2.5");
  expect(destroyed([ofNode, ...crowd])).toEqual([false, true, false, false, false, false, false]);
});
