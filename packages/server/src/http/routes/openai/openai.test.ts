import { textContent } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";
import { parseChat } from "./messages.ts";
import { Turn } from "./turn.ts";

let server: TestServer;
let conversation: string;

beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  server.sandboxes.add({ userId: "stranger" });
  conversation = await server.addConversation();
  await server.call("POST", "/api/settings", { body: { llm_model: "openai/one" } });
  await server.call("POST", "/api/v1/settings/profiles/named", { body: { llm: { model: "openai/two" } } });
});
afterAll(() => server.close());

const header = "x-openhands-serverconversation-id";
const user = (content: unknown) => ({ role: "user", content });
const ask = (body: object, headers: Record<string, string> = {}, caller: string | null = key) =>
  read(
    server.call("POST", "/v1/chat/completions", {
      body: { model: "default", messages: [user("Hello")], ...body },
      headers,
      key: caller,
    }),
  );
const row = async () => (await server.conversations.reads.get("default", conversation))!;

test("a chat continues in a conversation, named by its id in either form", async () => {
  for (const id of [conversation, conversation.replaceAll("-", "").toUpperCase()]) {
    const { status, body } = await ask({}, { [header]: id });
    expect([status, body.choices[0].message.content]).toEqual([200, "done"]);
  }
  const parts = [
    { type: "text", text: "See" },
    { type: "image_url", image_url: "https://example.com/a.png" },
  ];
  expect((await ask({ messages: [user(parts)], stream: null }, { [header]: conversation })).status).toBe(200);
  const stored = (await server.events.search(conversation, { kind: "MessageEvent", limit: 10 })).items.map(
    (text) => JSON.parse(text),
  );
  expect(stored.findLast(({ source }) => source === "user").llm_message.content).toEqual([
    { type: "text", text: "See", cache_prompt: false },
    { type: "image", image_urls: ["https://example.com/a.png"], cache_prompt: false },
  ]);
});

test.each<[string, object, number, string | null, string | null]>([
  ["an unknown model", { model: "gpt-5" }, 404, "model_not_found", null],
  ["a profile that does not exist", { model: "openhands_none" }, 404, "model_not_found", null],
  ["a name of the object's own", { model: "openhands___proto__" }, 404, "model_not_found", null],
  ["no message of the user", { messages: [{ role: "system", content: "x" }] }, 400, "bad_request", null],
  [
    "a message that says nothing",
    { messages: [user([{ type: "text", text: "" }])] },
    400,
    "bad_request",
    null,
  ],
  ["a message without content", { messages: [user(null)] }, 400, "bad_request", null],
  ["a part that is no text", { messages: [user([{ type: "input_audio" }])] }, 422, "invalid_parameter", null],
  ["an unknown role", { messages: [{ role: "root", content: "x" }] }, 422, null, "messages.0.role"],
  ["no messages", { messages: [] }, 422, null, "messages"],
  [
    "a long system text",
    { messages: [{ role: "system", content: "x".repeat(40_000) }, user("x")] },
    422,
    "invalid_parameter",
    null,
  ],
])("%s is refused with an error in OpenAI's format", async (_what, body, status, code, param) => {
  const before = server.sandboxes.rows.size;
  expect(await ask(body)).toEqual({
    status,
    body: { error: { message: expect.any(String), type: "invalid_request_error", param, code } },
  });
  expect(server.sandboxes.rows.size).toBe(before);
});

test("a user without a model gets an error that says to store one", async () => {
  const { status, body } = await ask({}, {}, strangerKey);
  expect([status, body.error.code, body.error.message]).toEqual([
    404,
    "model_not_found",
    expect.stringMatching(/POST \/api\/settings/),
  ]);
});

test("only callers with write access can chat in a conversation; others get 404", async () => {
  const refused = async (caller: string | null, path = "/v1/chat/completions", id = conversation) => {
    const init = {
      body: { model: "default", messages: [user("x")] },
      headers: { [header]: id },
      key: caller,
    };
    const { status, body } = await read(server.call("POST", path, init));
    return [status, body.error.code];
  };
  expect(await refused(null)).toEqual([401, "invalid_api_key"]);
  expect(await refused(server.sessionKey("sandbox-1"), "/agent/sandbox-2/v1/chat/completions")).toEqual([
    401,
    "invalid_api_key",
  ]);
  expect(await refused(key, "/agent/sandbox-2/v1/chat/completions")).toEqual([404, "sandbox_not_found"]);
  for (const id of [await server.addConversation("stranger", "sandbox-2"), "none", "../x"])
    expect(await refused(key, undefined, id)).toEqual([404, "conversation_not_found"]);
  expect(await refused(server.sessionKey("sandbox-2"))).toEqual([404, "model_not_found"]);
  const readOnly = await read(
    server.call("POST", "/api/keys", { body: { name: "reader", read_only: true } }),
  );
  expect(await refused(readOnly.body.key)).toEqual([403, "read_only_key"]);
  const listed = await read(
    server.call("GET", "/agent/sandbox-1/v1/models", { key: server.sessionKey("sandbox-1") }),
  );
  expect(listed.body.data.map(({ id }: { id: string }) => id)).toEqual(["default", "openhands_named"]);
});

test("a failed start is reported and leaves nothing behind", async () => {
  const list = async () =>
    (await read(server.call("GET", "/api/v1/app-conversations/search"))).body.items.length;
  const before = [await list(), server.sandboxes.rows.size];
  expect(await ask({})).toEqual({
    status: 503,
    body: {
      error: {
        message: "There is no engine in this test.",
        type: "server_error",
        param: null,
        code: "sandbox_failed",
      },
    },
  });
  expect([await list(), server.sandboxes.rows.size]).toEqual(before);
});

test("a turn that times out or is stopped ends the request; later messages are not its answer", async () => {
  server.model.thinking = true;
  const slow = new Turn(server.conversations, await row(), 20);
  await slow.start([textContent("Think")]);
  await expect(slow.answer()).rejects.toMatchObject({ code: "TurnTimeout", status: 504 });
  const paused = ask({}, { [header]: conversation });
  const messages = async () =>
    (await server.events.search(conversation, { kind: "MessageEvent", limit: 100 })).items.length;
  const before = await messages();
  while ((await messages()) === before) await new Promise((resolve) => setTimeout(resolve, 5));
  await server.conversations.commands.interrupt(conversation);
  expect(await paused).toMatchObject({ status: 409, body: { error: { code: "turn_unfinished" } } });
  server.model.thinking = false;
  expect(server.conversations.live.followers(conversation)).toBe(0);
});

test("a message to a running agent is answered after the current turn", async () => {
  const [one, two] = await Promise.all([1, 2].map(() => ask({}, { [header]: conversation })));
  expect([one!.status, two!.status]).toEqual([200, 200]);
});

test("a stream sends comments while silent, and ends with its turn", async () => {
  server.model.thinking = true;
  const turn = new Turn(server.conversations, await row(), 60_000);
  await turn.start([textContent("Think")]);
  const pieces = turn.deltas(10);
  expect(await pieces.next()).toEqual({ value: undefined, done: false });
  await server.conversations.commands.interrupt(conversation);
  server.model.thinking = false;
  let last = await pieces.next();
  while (!last.done) last = await pieces.next();
  await expect(turn.answer()).rejects.toMatchObject({ code: "TurnUnfinished" });
});

test("the user's last message is sent, with the earlier chat as context", () => {
  const { message, before, system } = parseChat([
    { role: "developer", content: "Be brief." },
    { role: "user", content: "One" },
    { role: "assistant", content: null },
    { role: "tool", content: [{ type: "text", text: "result" }] },
    { role: "user", content: "Two" },
    { role: "assistant", content: "said later" },
    { role: "system", content: [{ type: "text", text: "Be kind." }] },
  ]);
  expect(message).toEqual([textContent("Two")]);
  expect(system).toBe("Be brief.\n\nBe kind.");
  expect(before).toEqual([
    textContent(
      'What was said before this message:\n\n<message role="user">\nOne\n</message>\n<message role="tool">\nresult\n</message>\n\nThe message:',
    ),
  ]);
});
