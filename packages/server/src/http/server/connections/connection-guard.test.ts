import { EventEmitter } from "node:events";
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
    limits: { total: 10, anonymous: 6, anonymousPerNetwork: 3, perUser: 2 },
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

test("over a network's limit, its oldest connection without a credential is closed", () => {
  const { open, destroyed, warnings } = makeGuard();
  const others = [open("192.0.2.9")];
  const flood = Array.from({ length: 5 }, () => open("192.0.2.1"));
  expect(destroyed(flood)).toEqual([true, true, false, false, false]);
  expect(destroyed(others)).toEqual([false]);
  const six = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8::4"].map((address) => open(address));
  expect(destroyed(six)).toEqual([true, false, false, false]);
  expect(warnings).toEqual([{ displaced: 1, address: "192.0.2.1" }]);
});

test("over the limit of all networks, the oldest of all is closed; trusted proxies have only this limit", () => {
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

test("addresses are read only when one network can have too many connections, and once each", () => {
  const { open, destroyed } = makeGuard();
  for (let index = 0; index < 100; index++) {
    const connection = open("192.0.2.1");
    connection.destroy();
    expect(connection.reads).toBe(0);
  }
  const three = [open("192.0.2.1"), open("192.0.2.1"), open("192.0.2.2")];
  expect(three.map(({ reads }) => reads)).toEqual([0, 0, 0]);
  // The connections from before the first count are counted too.
  const fourth = open("192.0.2.1");
  expect(destroyed([...three, fourth])).toEqual([false, false, false, false]);
  const fifth = open("192.0.2.1");
  expect(destroyed([...three, fourth, fifth])).toEqual([true, false, false, false, false]);
  expect([...three, fourth].map(({ reads }) => reads)).toEqual([1, 1, 1, 1]);
});

test("half of the process's descriptors stay free for other things than connections", () => {
  expect(connectionLimits(1_000_000)).toEqual({
    total: 10_000,
    anonymous: 2_048,
    anonymousPerNetwork: 512,
    perUser: 2_000,
  });
  expect(connectionLimits(1_024)).toEqual({
    total: 512,
    anonymous: 104,
    anonymousPerNetwork: 26,
    perUser: 102,
  });
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
  for (let index = 0; index < 700; index++) {
    const socket = connect(server.port, "127.0.0.1", () => socket.write(beginnings[index % 6]!));
    open++;
    socket
      .on("error", () => {})
      .on("close", () => open--)
      .resume();
    flood.push(socket);
    if (index % 100 === 99) {
      expect((await server.call("GET", "/health", { key: null })).status).toBe(200);
      expect((await server.call("GET", "/api/keys")).status).toBe(200);
    }
  }
  await expect.poll(() => open).toBeLessThanOrEqual(512);
  expect(mine.socket.readyState).toBe(mine.socket.OPEN);
  expect(server.logs.join("")).toContain("Many connections without a key are open");
  for (const socket of flood) socket.destroy();
  mine.socket.close();
});
