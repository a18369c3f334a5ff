import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { NetworkPolicy, SandboxSpec } from "@sandpiper/sandbox/driver";
import { portOf } from "@sandpiper/sandbox/test/support/egress";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const network: NetworkPolicy = {
  mode: "allowlist",
  allow: [{ host: "*.example.com", ports: [443], methods: ["GET"] }],
  credentials: [{ name: "TOKEN", hosts: ["api.example.com"], fromEnv: "SECRET_OF_THE_SERVER" }],
};

test("the network of a sandbox is shown only to its user, without secrets", async () => {
  const spec: SandboxSpec = { ...server.sandboxes.specs()[0]!, network };
  const { id, sessionKey } = server.addSandbox({ spec });
  const url = `/api/v1/sandboxes/${id}/network`;
  expect(await read(server.call("GET", url))).toEqual({
    status: 200,
    body: {
      mode: "allowlist",
      allow: network.allow,
      credentials: [{ name: "TOKEN", hosts: ["api.example.com"] }],
      private: [],
    },
  });
  for (const path of [url, `${url}/decisions`]) {
    expect((await server.call("GET", path, { key: strangerKey })).status).toBe(404);
    expect((await server.call("GET", path, { key: sessionKey })).status).toBe(401);
    expect((await server.call("GET", path, { key: null })).status).toBe(401);
    expect((await server.call("GET", path.replace(id, "..%2F..%2Fsandbox-1"))).status).toBe(404);
  }
});

test("decisions are listed by page, newest first, until the sandbox is deleted", async () => {
  const { id } = server.addSandbox();
  const url = `/api/v1/sandboxes/${id}/network/decisions`;
  expect(await read(server.call("GET", url))).toEqual({
    status: 200,
    body: { items: [], next_page_id: null },
  });
  let port = 0;
  await server.egress.attach({ id, policy: network, token: "token" }, async (_port, accept) => {
    const listener = createServer(accept).listen(0, "127.0.0.1");
    await once(listener, "listening");
    port = portOf(listener);
    return listener;
  });
  const authorization = `Basic ${Buffer.from("sandbox:token").toString("base64")}`;
  for (let number = 1; number <= 5; number++) {
    const socket = connect(port, "127.0.0.1");
    socket.write(
      `CONNECT host-${number}.test:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: ${authorization}\r\n\r\n`,
    );
    await once(socket.resume(), "close");
  }
  const pages: string[][] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { body } = await read(server.call("GET", `${url}?limit=2&page_id=${next}`));
    pages.push(body.items.map((item: { host: string }) => item.host));
    next = body.next_page_id;
  }
  expect(pages).toEqual([["host-5.test", "host-4.test"], ["host-3.test", "host-2.test"], ["host-1.test"]]);
  const { body } = await read(server.call("GET", `${url}?limit=1`));
  expect(body.items[0]).toEqual({
    seq: 5,
    at: expect.stringMatching(/^\d{4}-.*Z$/),
    method: "CONNECT",
    host: "host-5.test",
    port: 443,
    address: null,
    decision: "refused",
    reason: expect.stringContaining("it would need a rule for host-5.test:443"),
    bytes_up: 0,
    bytes_down: 0,
    duration_ms: expect.any(Number),
  });
  await server.egress.forget(id);
  expect((await read(server.call("GET", url))).body.items).toEqual([]);
});
