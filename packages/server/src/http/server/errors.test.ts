import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { key, read, startServer, type TestServer } from "../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

/** Sends raw bytes that no HTTP library would; returns the whole response. */
function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(server.port, "127.0.0.1", () => socket.write(text));
    let answer = "";
    socket.setTimeout(5000, () => socket.destroy(new Error("no answer")));
    socket.on("data", (data) => {
      answer += data;
    });
    socket.on("error", (error: NodeJS.ErrnoException) =>
      error.code === "ECONNRESET" ? resolve(answer) : reject(error),
    );
    socket.on("close", () => resolve(answer));
  });
}
const auth = `Host: localhost\r\nX-Session-API-Key: ${key}\r\nConnection: close\r\n`;

test("an unknown path gets 404, and a wrong method 405 with the allowed methods", async () => {
  expect(await read(server.call("GET", "/api/v1/nothing"))).toEqual({
    status: 404,
    body: { detail: "Not Found" },
  });
  expect((await server.call("GET", "/nothing", { key: null })).status).toBe(404);
  const wrong = await server.call("PUT", "/api/v1/sandboxes/x/pause/");
  expect(wrong.status).toBe(405);
  expect(wrong.headers.get("allow")).toBe("POST");
  expect(await wrong.json()).toEqual({ detail: "Method Not Allowed" });
});

test("malformed JSON gets 422 without a quote of the body", async () => {
  const { status, body } = await read(
    server.call("POST", "/api/v1/app-conversations", { body: '{"title": "se-cret" oops' }),
  );
  expect(status).toBe(422);
  expect(body.detail).toEqual([
    { loc: ["body", 20], msg: "JSON decode error: malformed JSON", type: "json_invalid" },
  ]);
  const settings = await read(server.call("POST", "/api/settings", { body: '{"llm_api_key": "se-cret' }));
  expect(settings.status).toBe(422);
  expect(settings.body.error).toBe("body: JSON decode error: malformed JSON");
  expect(JSON.stringify(settings.body)).not.toContain("se-cret");
});

test("JSON that is too deep, or contains NUL characters or prototype keys, gets 422", async () => {
  const deep = `{"unknown":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`;
  for (const body of [
    deep,
    '{"title":"a\\u0000b"}',
    '{"a\\u0000":1}',
    '{"__proto__":{"x":1}}',
    '{"tags":{"__proto__":"x"}}',
    "null",
    "[]",
    "7",
  ]) {
    expect([
      body.slice(0, 30),
      (await server.call("POST", "/api/v1/app-conversations", { body })).status,
    ]).toEqual([body.slice(0, 30), 422]);
  }
});

test("values of wrong types are listed with their place, and their inputs are not echoed", async () => {
  const body = { llm_api_key: 12345678, max_iterations: 0, language: ["se-cret"] };
  const answer = await read(server.call("POST", "/api/settings", { body }));
  expect(answer.status).toBe(422);
  expect(answer.body.error).toContain("llm_api_key: Input should be a valid string");
  expect(answer.body.detail).toContainEqual({
    loc: ["body", "llm_api_key"],
    msg: "Input should be a valid string",
    type: "string_type",
  });
  expect(answer.body.detail).toContainEqual({
    loc: ["body", "max_iterations"],
    msg: "Input must be >= 1",
    type: "greater_than_equal",
  });
  const nested = await read(
    server.call("POST", "/api/settings", { body: { mcp_config: { sse_servers: [{ url: 5 }] } } }),
  );
  expect(nested.body.detail).toEqual([
    {
      loc: ["body", "mcp_config", "sse_servers", 0, "url"],
      msg: "Input should be a valid string",
      type: "string_type",
    },
  ]);
  expect(JSON.stringify(answer.body)).not.toMatch(/12345678|se-cret/);
  expect((await read(server.call("GET", "/api/settings"))).body.max_iterations).toBe(null);
});

test("query texts are coerced, bodies are not", async () => {
  expect((await server.call("POST", "/api/settings", { body: { confirmation_mode: "true" } })).status).toBe(
    422,
  );
  expect((await server.call("POST", "/api/settings", { body: { max_iterations: "5" } })).status).toBe(422);
  expect((await server.call("GET", "/api/v1/sandboxes/search?limit=5")).status).toBe(200);
  expect(
    (
      await server.call(
        "GET",
        "/api/v1/app-conversations/search?include_sub_conversations=yes&sort_order=UPDATED_AT_DESC",
      )
    ).status,
  ).toBe(200);
});

test("limits out of range and unreadable query values get 422", async () => {
  for (const query of [
    "limit=0",
    "limit=101",
    "limit=-1",
    "limit=abc",
    "limit=1.5",
    "limit=",
    "limit=1e1",
    "created_at__gte=yesterday",
    "title__contains=%00",
  ]) {
    const { status, body } = await read(server.call("GET", `/api/v1/app-conversations/search?${query}`));
    expect([query, status]).toEqual([query, 422]);
    expect(body.detail[0].loc[0]).toBe("query");
  }
});

test("the last value of a repeated query key counts", async () => {
  expect((await server.call("GET", "/api/v1/sandboxes/search?limit=0&limit=1")).status).toBe(200);
  expect((await server.call("GET", "/api/v1/sandboxes/search?limit=1&limit=0")).status).toBe(422);
});

test("a content type other than JSON gets 415, and a missing body 422", async () => {
  const form = await read(
    server.call("POST", "/api/settings", {
      body: "a=b",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    }),
  );
  expect(form.status).toBe(415);
  expect(form.body.error).toContain("application/json");
  expect(
    (await server.call("POST", "/api/settings", { body: "<a/>", headers: { "content-type": "nonsense" } }))
      .status,
  ).toBe(415);
  expect((await server.call("POST", "/api/settings")).status).toBe(422);
  expect(
    (
      await server.call("POST", "/api/settings", {
        body: "",
        headers: { "content-type": "application/json" },
      })
    ).status,
  ).toBe(422);
});

test("a route without a body ignores the client's body", async () => {
  const { id } = server.sandboxes.add();
  for (const [body, type] of [
    ["{}", "application/json"],
    ["not json", "application/json"],
    ["a=b", "application/x-www-form-urlencoded"],
  ] as const) {
    expect(
      (
        await server.call("POST", `/api/v1/sandboxes/${id}/pause`, {
          body,
          headers: { "content-type": type },
        })
      ).status,
    ).toBe(200);
  }
});

test("a body over the limit gets 413", async () => {
  const { status, body } = await read(
    server.call("POST", "/api/v1/app-conversations", { body: { title: "x".repeat(1_200_000) } }),
  );
  expect([status, body]).toEqual([413, { detail: "Payload Too Large" }]);
});

test("bad percent encoding, huge headers and malformed HTTP get a 4xx in JSON", async () => {
  const badUrl = await raw(`GET /api/v1/conversation/%zz/events/search HTTP/1.1\r\n${auth}\r\n`);
  expect(badUrl).toMatch(/^HTTP\/1.1 400 [\s\S]*\{"detail":"Bad Request"\}$/);
  expect(await raw(`GET /api/settings?a=%zz&%=%00 HTTP/1.1\r\n${auth}\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  expect(await raw(`GET /alive HTTP/1.1\r\nX-Long: ${"x".repeat(70_000)}\r\n${auth}\r\n`)).toMatch(
    /^HTTP\/1.1 431 [\s\S]*"detail"/,
  );
  expect(await raw("complete nonsense\r\n\r\n")).toMatch(/^HTTP\/1.1 400 [\s\S]*"detail"/);
});

test("an offer of HTTP/2 is answered in HTTP/1.1", async () => {
  const answer = await raw(
    "GET /alive HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
  );
  expect(answer).toMatch(/^HTTP\/1.1 200 OK/);
});

test("an unexpected error gets 500 with an id that the log explains", async () => {
  server.sandboxes.specs = () => {
    throw new Error("an internal detail");
  };
  const { status, body } = await read(server.call("GET", "/api/v1/sandbox-specs/search"));
  expect(status).toBe(500);
  expect(body).toEqual({ detail: "Internal Server Error", error_id: expect.any(String) });
  const line = server.logs.find((text) => text.includes(body.error_id));
  expect(line).toContain("an internal detail");
});

test("browsers may call from localhost and from configured origins, also when the answer is an error", async () => {
  const origin = async (text: string) =>
    (await server.call("GET", "/api/settings", { key: null, headers: { origin: text } })).headers.get(
      "access-control-allow-origin",
    );
  expect(await origin("http://localhost:5173")).toBe("http://localhost:5173");
  expect(await origin("http://127.0.0.1:3001")).toBe("http://127.0.0.1:3001");
  expect(await origin("https://gui.example")).toBe("https://gui.example");
  expect(await origin("https://evil.example")).toBe(null);
  expect(await origin("http://localhost.evil.example")).toBe(null);
  const preflight = await server.call("OPTIONS", "/api/conversations/x/pause", {
    key: null,
    headers: {
      origin: "http://localhost:3001",
      "access-control-request-method": "POST",
      "access-control-request-headers": "x-session-api-key,content-type",
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("access-control-allow-headers")).toBe("x-session-api-key,content-type");
  expect(preflight.headers.get("access-control-allow-methods")).toContain("POST");
});
