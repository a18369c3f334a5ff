import { once } from "node:events";
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ bodyLimit: 16 * 1024 });
  server.sandboxes.add();
});
afterAll(() => server.close());

test("a user's unfinished bodies are bounded together, and others are not affected", async () => {
  const own = await startServer({ bodyLimit: 16 * 2 ** 20 });
  const open = Array.from({ length: 8 }, async () => {
    const headers = {
      "x-session-api-key": key,
      "content-type": "application/json",
      "content-length": 2 ** 24,
    };
    const call = request(`${own.url}/api/v1/app-conversations`, { method: "POST", headers });
    call.on("error", () => {}).write("{");
    await once(call, "socket");
    return call;
  });
  const calls = await Promise.all(open);
  const start = (as: string) => own.call("POST", "/api/v1/app-conversations", { key: as, body: {} });
  await expect.poll(async () => (await start(key)).status).toBe(429);
  expect((await start(strangerKey)).status).not.toBe(429);
  for (const call of calls) call.destroy();
  await expect.poll(async () => (await start(key)).status).not.toBe(429);
  await own.close();
});

/** Sends a chunked body without Content-Length; returns the status. */
function sendChunked(method: string, path: string, bytes: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      "x-session-api-key": key,
      "content-type": "application/json",
      "transfer-encoding": "chunked",
    };
    const call = request(server.url + path, { method, headers, timeout: 10_000 }, (answer) => {
      answer.resume();
      call.destroy();
      resolve(answer.statusCode!);
    });
    call.on("error", reject);
    call.write('{"name":"');
    call.write("x".repeat(bytes));
    call.end('"}');
  });
}

test("every JSON route rejects a body above the limit, with and without Content-Length", async () => {
  const document = (await read(server.call("GET", "/openapi.json", { key: null }))).body;
  const operations = Object.entries<any>(document.paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods)
      .filter(([, { requestBody }]) => requestBody?.content?.["application/json"] !== undefined)
      .map(([method]) => ({ method: method.toUpperCase(), path: path.replaceAll(/\{\w+\}/g, "sandbox-1") })),
  );
  expect(operations.length).toBeGreaterThan(15);
  const body = JSON.stringify({ name: "x".repeat(20_000) });
  for (const { method, path } of operations) {
    expect([method, path, (await server.call(method, path, { body })).status]).toEqual([method, path, 413]);
    expect([method, path, await sendChunked(method, path, 20_000)]).toEqual([method, path, 413]);
  }
});
