import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
let base: string;
const hook = { kind: "WebhookCallbackProcessor", url: "https://hooks.example/x" };

beforeAll(async () => {
  server = await startServer();
  base = `/api/v1/app-conversations/${await server.addConversation()}/callbacks`;
});
afterAll(() => server.close());

const add = (body: unknown, path = base) => read(server.call("POST", path, { body }));

test("another user's conversation has no callbacks to see, add, retry or remove", async () => {
  const { body } = await add({
    ...hook,
    secret: "not for strangers",
    kinds: ["MessageEvent", "MessageEvent"],
  });
  expect(body).toMatchObject({
    kinds: ["MessageEvent"],
    secret_set: true,
    pending: false,
    server_wide: false,
  });
  expect(JSON.stringify(body)).not.toContain("strangers");
  const own = `${base}/${body.id}`;
  const tries = [
    ["GET", base],
    ["POST", base],
    ["POST", `${own}/retry`],
    ["DELETE", own],
  ] as const;
  for (const [method, path] of tries) {
    const answer = await server.call(method, path, {
      key: strangerKey,
      ...(method === "POST" && { body: hook }),
    });
    expect([method, answer.status]).toEqual([method, 404]);
    expect((await server.call(method, path, { key: null })).status).toBe(401);
  }
  expect((await read(server.call("GET", base))).body).toHaveLength(1);
  expect((await read(server.call("DELETE", own))).status).toBe(200);
  expect((await read(server.call("DELETE", own))).status).toBe(404);
});

test.each([
  ["no kind", { url: hook.url }],
  ["an unknown kind", { ...hook, kind: "SlackV1CallbackProcessor" }],
  ["no url", { kind: hook.kind }],
  ["an empty url", { ...hook, url: "" }],
  ["a long url", { ...hook, url: `https://x.example/${"x".repeat(3_000)}` }],
  ["a url of another scheme", { ...hook, url: "file:///etc/passwd" }],
  ["a url with a password", { ...hook, url: "https://a:b@x.example/" }],
  ["an empty secret", { ...hook, secret: "" }],
  ["a kind of event that there is not", { ...hook, kinds: ["NoEvent"] }],
  ["the title's processor", { kind: "SetTitleCallbackProcessor" }],
  ["a list", [hook]],
])("%s is refused, and nothing is added", async (_name, body) => {
  expect((await add(body)).status).toBe(422);
  expect((await read(server.call("GET", base))).body).toEqual([]);
});

test("a start with an invalid callback processor is rejected as a whole", async () => {
  const start = (processors: unknown) =>
    read(server.call("POST", "/api/v1/app-conversations", { body: { processors } }));
  const count = async () =>
    (await read(server.call("GET", "/api/v1/app-conversations/start-tasks/count"))).body;
  const before = await count();
  for (const processors of [
    [{ ...hook, url: "gopher://x" }],
    [{ kind: "Nothing" }],
    Array.from({ length: 11 }, () => hook),
    "x",
  ]) {
    expect((await start(processors)).status).toBe(422);
  }
  expect(await count()).toBe(before);
});

test("a conversation has ten callbacks at most", async () => {
  for (let count = 0; count < 10; count++)
    expect((await add({ kind: "LoggingCallbackProcessor" })).status).toBe(201);
  expect((await add(hook)).status).toBe(409);
});
