import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
let sandboxKey: string;
let otherKey: string;

beforeAll(async () => {
  server = await startServer();
  sandboxKey = server.addSandbox().sessionKey;
  otherKey = server.addSandbox().sessionKey;
});
afterAll(() => server.close());

const report = (body: unknown, key: string | null = sandboxKey) =>
  read(server.call("POST", "/api/v1/webhooks/conversations", { body, key }));
const events = (id: string, body: unknown, key: string | null = sandboxKey) =>
  read(server.call("POST", `/api/v1/webhooks/events/${id}`, { body, key }));
const shown = async (id: string) =>
  (await read(server.call("GET", `/api/v1/app-conversations?ids=${id}`))).body[0];
const stored = async (id: string) =>
  (await read(server.call("GET", `/api/v1/conversation/${id}/events/search`))).body.items;

const said = (id: string, text: string) => ({
  kind: "MessageEvent",
  id,
  timestamp: "2020-01-01T00:00:00.000000",
  source: "user",
  llm_message: {
    role: "user",
    content: [{ type: "text", text, cache_prompt: false }],
    thinking_blocks: [],
    name: null,
  },
  activated_skills: [],
  extended_content: [],
  parent_id: null,
});

test("an agent server's conversation is shown with its model, tags, title, status, cost and events", async () => {
  const id = newId();
  expect(
    await report({ id, agent: { llm: { model: "anthropic/claude-sonnet-4-5" } }, execution_status: "idle" }),
  ).toEqual({
    status: 200,
    body: { success: true },
  });
  expect(await shown(id)).toMatchObject({
    title: null,
    sandbox_id: "sandbox-1",
    llm_model: "anthropic/claude-sonnet-4-5",
  });
  await events(id, [
    said("e1", "Hello"),
    {
      kind: "ConversationStateUpdateEvent",
      id: "s1",
      source: "environment",
      key: "execution_status",
      value: "running",
    },
    {
      kind: "ConversationStateUpdateEvent",
      id: "s2",
      source: "environment",
      key: "stats",
      value: {
        usage_to_metrics: { agent: { model_name: "m", accumulated_cost: 0.5, costs: [{ cost: 0.5 }] } },
      },
    },
    {
      kind: "ConversationStateUpdateEvent",
      id: "s3",
      source: "environment",
      key: "full_state",
      value: { secret: "x" },
    },
    { kind: "KindOfTheFuture", id: "f1" },
  ]);
  await report({ id, title: "A title", tags: { team: "a" }, execution_status: "finished" });
  expect(await shown(id)).toMatchObject({
    title: "A title",
    tags: { team: "a" },
    execution_status: "finished",
    metrics: { accumulated_cost: 0.5 },
  });
  expect((await stored(id)).map(({ kind }: { kind: string }) => kind)).toEqual(["MessageEvent"]);
});

test("events that are known already are ignored, also within one report and at once", async () => {
  const id = newId();
  const all = [said("a", "one"), said("b", "two"), said("a", "one again")];
  const answers = await Promise.all([events(id, all), events(id, all), events(id, [said("c", "three")])]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect((await stored(id)).map(({ id: event }: { id: string }) => event)).toEqual(["a", "b", "c"]);
});

test("events of unknown tools are stored; invalid events reject the whole report", async () => {
  const id = newId();
  const action = {
    kind: "ActionEvent",
    id: "act",
    source: "agent",
    thought: [],
    thinking_blocks: [],
    action: { kind: "ReadFileAction", file_path: "/a.txt" },
    tool_name: "read_file",
    tool_call_id: "c",
    tool_call: { id: "c", name: "read_file", arguments: "{}", origin: "completion" },
    llm_response_id: "r",
    security_risk: "LOW",
  };
  expect((await events(id, [action])).status).toBe(200);
  expect((await stored(id))[0]).toMatchObject({ action: { file_path: "/a.txt" } });
  const { thought: _thought, ...broken } = action;
  const refused = await events(id, [said("fine", "x"), { ...broken, id: "broken" }]);
  expect(refused).toMatchObject({
    status: 422,
    body: { detail: expect.stringContaining("broken is not a valid ActionEvent") },
  });
  expect(await stored(id)).toHaveLength(1);
});

test("a conversation that this server runs takes no reports", async () => {
  const id = await server.addConversation();
  expect((await report({ id, title: "Mine now" })).status).toBe(409);
  expect((await events(id, [said("x", "foreign")])).status).toBe(409);
  expect(await stored(id)).toEqual([]);
  expect((await shown(id)).title).not.toBe("Mine now");
});

test("this server does not work on a reported conversation", async () => {
  const id = newId();
  await report({ id, execution_status: "running" });
  const message = { role: "user", content: [{ type: "text", text: "Go" }], run: true };
  const answer = await read(server.call("POST", `/api/conversations/${id}/events`, { body: message }));
  expect(answer).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining("An agent server inside the sandbox runs") },
  });
  for (const verb of ["run", "pause", "interrupt"]) {
    expect((await server.call("POST", `/api/conversations/${id}/${verb}`, { body: {} })).status).toBe(409);
  }
  expect((await read(server.call("DELETE", `/api/v1/app-conversations/${id}`))).status).toBe(200);
});

test("`deleting` is ignored", async () => {
  const id = newId();
  expect((await report({ id, execution_status: "deleting" })).status).toBe(200);
  expect(await shown(id)).toBeNull();
});

test("only the sandbox's own key opens its conversations", async () => {
  const id = newId();
  await report({ id });
  expect((await report({ id, title: "x" }, otherKey)).status).toBe(404);
  expect((await events(id, [said("x", "y")], otherKey)).status).toBe(404);
  for (const key of [null, "wrong", strangerKey]) expect((await report({ id }, key)).status).toBe(401);
  expect((await read(server.call("POST", "/api/v1/webhooks/conversations", { body: { id } }))).status).toBe(
    401,
  );
});

test.each([
  ["no id", {}],
  ["a malformed id", { id: "x" }],
  ["a status of the future", { id: newId(), execution_status: "dreaming" }],
  ["tags that are no texts", { id: newId(), tags: { a: 1 } }],
  ["a list", []],
])("a report with %s is refused", async (_name, body) => {
  expect((await report(body)).status).toBe(422);
});

test("hostile reports are rejected or limited, and never cause a 5xx", async () => {
  const id = newId();
  const many = Array.from({ length: 1_001 }, (_, index) => said(`m${index}`, "x"));
  expect((await events(id, many)).status).toBe(422);
  expect((await events(id, { kind: "MessageEvent" })).status).toBe(422);
  expect((await events("not-an-id", [])).status).toBe(422);
  expect((await events(id, [{ kind: "MessageEvent", id: "x".repeat(500) }])).status).toBe(422);
  expect((await events(id, [{ ...said("big", "x"), llm_message: "y".repeat(900_000) }])).status).toBe(422);
  const value = {
    usage_to_metrics: {
      a: null,
      b: { accumulated_cost: -5, accumulated_token_usage: { prompt_tokens: "many" } },
    },
  };
  const stats = { kind: "ConversationStateUpdateEvent", id: "s", key: "stats", value };
  expect((await events(id, [stats])).status).toBe(200);
  expect((await shown(id)).metrics).toMatchObject({ accumulated_cost: 0 });
  const tags = Object.fromEntries(
    Array.from({ length: 500 }, (_, index) => [`t${index}`, "v".repeat(1_000)]),
  );
  expect((await report({ id, tags })).status).toBe(200);
  expect(Object.keys((await shown(id)).tags)).toHaveLength(50);
});
