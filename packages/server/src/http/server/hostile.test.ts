import { request } from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { key, read, startServer, type TestServer } from "../../../test/support/test-server.ts";

let server: TestServer;
let routes: { method: string; path: string; query: string[]; statuses: string[] }[];
let conversation: string;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  conversation = await server.addConversation();
  await server.addMessages(conversation, "one", "two");
  const document = (await read(server.call("GET", "/openapi.json"))).body;
  type Operation = { parameters?: { in: string; name: string }[]; responses: object };
  routes = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], responses }]) => ({
      method: method.toUpperCase(),
      path,
      query: parameters.filter((parameter) => parameter.in === "query").map((parameter) => parameter.name),
      statuses: Object.keys(responses),
    })),
  );
});
afterAll(() => server.close());

/**
 * Sends a request that `fetch` would normalise; returns its status. Fails without a response within
 * five seconds.
 */
function send(
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(
      { host: "127.0.0.1", port: server.port, method, path, headers, timeout: 5_000 },
      (answer) => {
        answer.resume();
        answer.on("end", () => resolve(answer.statusCode ?? 0));
        answer.on("error", reject);
      },
    );
    call.on("timeout", () => call.destroy(new Error(`${method} ${path}: no answer`)));
    call.on("error", reject);
    call.end(body);
  });
}

const nasty = fc.oneof(
  fc.constantFrom(
    "",
    "0",
    "-1",
    "1",
    "100",
    "null",
    "true",
    "%00",
    "%zz",
    "%",
    "..%2f..",
    "__proto__",
    "constructor",
    "2026-01-01",
    "%F0%9F%98%80",
    "999999999999999999999",
    "';--",
    "%25",
    "%C0%AF",
  ),
  fc.string({ maxLength: 40 }).map(encodeURIComponent),
  fc.string({ unit: "binary", maxLength: 20 }).map((text) => encodeURIComponent(text.toWellFormed())),
  fc.constant("x".repeat(2000)),
);

const body = fc.oneof(
  fc.json({ maxDepth: 4 }),
  fc.string({ maxLength: 60 }),
  fc
    .record(
      {
        title: fc.anything(),
        tags: fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer())),
        initial_message: fc.record({ role: fc.constantFrom("user", "system", 1), content: fc.anything() }),
        content: fc.array(
          fc.oneof(
            fc.record({ type: fc.constantFrom("text", "image", "image_url"), text: fc.string() }),
            fc.anything(),
          ),
        ),
        llm_model: fc.oneof(fc.string(), fc.anything()),
        max_iterations: fc.oneof(fc.double(), fc.integer(), fc.string()),
        max_budget_per_task: fc.double(),
        mcp_config: fc.anything(),
        accept: fc.anything(),
        conversation_id: fc.oneof(fc.uuid(), fc.string()),
        sandbox_id: fc.string(),
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value) ?? ""),
  fc.constantFrom(
    '{"a":',
    "[".repeat(50_000),
    '{"__proto__":{}}',
    '"\\ud800"',
    '{"title":"\\ud800"}',
    '{"tags":{"\\ud800":"\\udfff"}}',
    '{"max_budget_per_task":1e999}',
    "\ufeff{}",
  ),
);

test("no input to any route causes a 5xx or no response", async () => {
  const hostile = fc.record({
    route: fc.nat().map((number) => routes[number % routes.length]!),
    method: fc.option(
      fc.constantFrom("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"),
      { freq: 4 },
    ),
    id: fc.oneof(fc.constant(""), fc.constant(null), nasty),
    query: fc.array(fc.tuple(fc.nat(), nasty), { maxLength: 4 }),
    body: fc.option(body),
    type: fc.constantFrom(
      "application/json",
      "application/json; charset=utf-8",
      "text/plain",
      "application/x-tar",
      "",
      ";;;",
      "application/json;;",
    ),
    keyed: fc.nat(9).map((number) => number > 0),
  });
  const seen = new Set<number>();
  await fc.assert(
    fc.asyncProperty(hostile, async ({ route, method, id, query, body: text, type, keyed }) => {
      const path = route.path.replace(/\{\w+\}/, () => id ?? conversation);
      const names = route.query.length > 0 ? route.query : ["x"];
      const search = query.map(([number, value]) => `${names[number % names.length]}=${value}`).join("&");
      const headers = {
        ...(keyed && { "x-session-api-key": key }),
        ...(text !== null && {
          "content-length": String(Buffer.byteLength(text)),
          ...(type && { "content-type": type }),
        }),
      };
      const status = await send(method ?? route.method, `${path}?${search}`, headers, text ?? undefined);
      seen.add(status);
      // Without an engine, every use of a sandbox fails with its route's own error.
      const engine =
        [502, 503].includes(status) &&
        routes.some((one) => one.path === route.path && one.statuses.includes(`${status}`));
      expect(engine || (status >= 200 && status < 500)).toBe(true);
    }),
    { numRuns: 3000 },
  );
  expect([...seen]).toEqual(expect.arrayContaining([200, 400, 401, 404, 405, 415, 422]));
  expect(server.logs.filter((line) => line.includes("request failed"))).toEqual([]);
});

test("afterwards the server works as before", async () => {
  expect((await server.call("GET", "/alive")).status).toBe(200);
  expect((await read(server.call("GET", "/api/settings"))).body).toHaveProperty("llm_api_key_set");
});
