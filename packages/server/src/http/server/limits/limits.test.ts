import { parseRanges } from "@sandpiper/core/outbound/addresses";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../../test/support/test-server.ts";
import { getClientAddress, RequestLimit, toClientNetwork } from "./request-limit.ts";
import { TokenBucketLimiter } from "./token-bucket-limiter.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ maxRequests: 1 });
  server.sandboxes.add();
});
afterAll(() => server.close());

test("a bucket allows a burst, refills over time, and returns the time to wait", () => {
  let now = 0;
  const buckets = new TokenBucketLimiter({ perSecond: 10, burst: 3 }, { clock: () => now });
  expect([1, 2, 3].map(() => buckets.take("a"))).toEqual([0, 0, 0]);
  expect(buckets.take("a")).toBeCloseTo(0.1);
  expect(buckets.take("b")).toBe(0);
  now = 50;
  expect(buckets.take("a")).toBeCloseTo(0.05);
  now = 100;
  expect(buckets.take("a")).toBe(0);
  now = 1e9;
  expect([1, 2, 3, 4].map(() => buckets.take("a") === 0)).toEqual([true, true, true, false]);
});

test("each of several nodes has a share of the rate, and at least one request", () => {
  let now = 0;
  let nodes = 4;
  const sources = { clock: () => now, countNodes: () => nodes };
  const buckets = new TokenBucketLimiter({ perSecond: 8, burst: 16 }, sources);
  const count = () => Array.from({ length: 30 }, () => buckets.take("a")).filter((wait) => wait === 0).length;
  expect(count()).toBe(4);
  expect(buckets.take("a")).toBeCloseTo(0.5);
  now = 1_000;
  expect(count()).toBe(2);
  // A node whose neighbours end has the whole rate.
  nodes = 1;
  now = 2_000;
  expect(count()).toBe(8);
  nodes = 100;
  now = 3_000;
  expect([buckets.take("a"), buckets.take("a")]).toEqual([0, 1]);
});

test("memory stays bounded under a flood of callers, and callers keep their limits", () => {
  let now = 0;
  const buckets = new TokenBucketLimiter({ perSecond: 1, burst: 1 }, { clock: () => now });
  for (let index = 0; index < 50_000; index++) buckets.take(`caller ${index}`);
  expect(buckets.take("caller 49999")).toBeGreaterThan(0);
  now = 2_000;
  expect(buckets.take("caller 49999")).toBe(0);
});

test("addresses of one IPv6 network count as one caller", () => {
  expect(toClientNetwork("192.0.2.1")).toBe("192.0.2.1");
  expect(toClientNetwork("::ffff:192.0.2.1")).toBe("192.0.2.1");
  expect(toClientNetwork("2001:db8:1:2:3:4:5:6")).toBe(toClientNetwork("2001:DB8:1:2::9"));
  expect(toClientNetwork("2001:db8:1:2::9")).not.toBe(toClientNetwork("2001:db8:1:3::9"));
  expect(toClientNetwork("fe80::1%eth0")).toBe(toClientNetwork("fe80::2"));
  expect(toClientNetwork("::1")).toBe("0:0:0:0::/64");
  expect(toClientNetwork(undefined)).toBe("");
});

test("the client's address is the connection's, or what trusted proxies forward", () => {
  const proxies = parseRanges(["10.0.0.0/8"]);
  const address = (remoteAddress: string, forwarded?: string) =>
    getClientAddress(
      { socket: { remoteAddress }, headers: { "x-forwarded-for": forwarded } } as never,
      proxies,
    );
  expect(address("192.0.2.1", "198.51.100.1")).toBe("192.0.2.1");
  expect(address("::ffff:10.0.0.1", "203.0.113.7, 198.51.100.1, 10.2.3.4")).toBe("198.51.100.1");
  expect(address("10.0.0.1", "forged")).toBe("10.0.0.1");
  expect(address("10.0.0.1")).toBe("10.0.0.1");
});

test("0 disables the limit", () => {
  const limit = new RequestLimit(0);
  for (let index = 0; index < 100; index++)
    expect(() => limit.count(undefined, () => "192.0.2.1")).not.toThrow();
});

test("a key above its rate gets 429 with Retry-After; other keys, sandboxes and addresses are counted separately", async () => {
  const statuses: number[] = [];
  let last: Response | undefined;
  for (let index = 0; index < 4; index++) {
    last = await server.call("GET", "/api/keys");
    statuses.push(last.status);
  }
  expect(statuses).toEqual([200, 200, 429, 429]);
  expect(last!.headers.get("retry-after")).toBe("1");
  expect(await last!.json()).toEqual({
    detail: "This key may send 1 requests per second: wait and try again.",
  });
  expect((await server.call("GET", "/api/keys", { key: strangerKey })).status).toBe(200);

  const socket = new TestSocket(server, `/sockets/events/${"0".repeat(32)}`, { "x-session-api-key": key });
  expect(await socket.refused).toBe(429);

  const wrong = async () => (await server.call("GET", "/api/keys", { key: "wrong" })).status;
  expect([await wrong(), await wrong(), await wrong()]).toEqual([401, 401, 429]);
  expect((await server.call("GET", "/health", { key: null })).status).toBe(429);
});
