import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  removeSandboxes,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

/** Agents as models of OpenAI's API, over a real sandbox and with a client of that API. */

let server: TestPlatform;
let models: ModelServer;
let script: Script;
let sandbox: { id: string; session_api_key: string };

function say(...replies: Reply[]): void {
  const first = models.requests.length;
  script = ({ index }) => replies[index - first] ?? reply.error(400, "the script has ended");
}

/** A running sandbox: before, its key is not shown. */
async function newSandbox(): Promise<typeof sandbox> {
  const { id } = (await server.call("POST", "/api/v1/sandboxes")).body;
  return until(async () => {
    const [row] = (await server.call("GET", `/api/v1/sandboxes?id=${id}`)).body;
    return row.session_api_key ? row : undefined;
  });
}

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
  const llm = { model: "openai/other", api_key: "sk-other", base_url: models.url };
  expect((await server.call("POST", "/api/v1/settings/profiles/fast", { llm })).status).toBe(201);
  sandbox = await newSandbox();
});
afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const header = "x-openhands-serverconversation-id";
const client = (key = sandbox.session_api_key, base = server.url) =>
  createOpenAICompatible({ name: "sandpiper", baseURL: `${base}/v1`, apiKey: key, includeUsage: true });
const prompt = (text: string) => [{ role: "user" as const, content: [{ type: "text" as const, text }] }];

function complete(body: Json, headers: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${sandbox.session_api_key}`,
      "content-type": "application/json",
      ...headers,
    },
    body: JSON.stringify({ model: "default", ...body }),
    ...(signal && { signal }),
  });
}

const bodyOf = (answer: Response): Promise<any> => answer.json();

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

test("a client of OpenAI's API lists the models, starts an agent in a sandbox, and continues the conversation", async () => {
  const listed = await fetch(`${server.url}/v1/models`, {
    headers: { authorization: `Bearer ${sandbox.session_api_key}` },
  });
  expect(await bodyOf(listed)).toEqual({
    object: "list",
    data: ["default", "openhands_fast"].map((id) => ({
      id,
      object: "model",
      created: 0,
      owned_by: "openhands",
    })),
  });

  say(
    reply.toolCalls([terminal("echo 42 > answer.txt")], {
      text: "I write it down.",
      usage: { prompt: 100, completion: 10 },
    }),
    finish("It is 42."),
  );
  const first = await client()
    .chatModel("default")
    .doGenerate({ prompt: prompt("Write down the answer") });
  expect(first.content).toEqual([{ type: "text", text: "It is 42." }]);
  expect(first.finishReason.unified).toBe("stop");
  expect(first.usage.inputTokens.total).toBeGreaterThan(100);
  const id = first.response!.headers![header]!;
  expect(id).toMatch(/^[0-9a-f-]{36}$/);

  say(
    reply.toolCalls([terminal("cat answer.txt")]),
    reply.text("Still 42.", { usage: { prompt: 7, completion: 3 } }),
  );
  const again = { prompt: prompt("And now?"), headers: { [header]: id } };
  const second = await client().chatModel("openhands_fast").doGenerate(again);
  expect(second.content).toEqual([{ type: "text", text: "Still 42." }]);
  expect(second.response!.headers![header]).toBe(id);
  expect(models.requests.at(-1)).toMatchObject({ apiKey: "sk-other", body: { model: "other" } });
  const stored = await events(id);
  expect(stored.filter(({ kind, source }) => kind === "MessageEvent" && source === "user")).toHaveLength(2);
  expect(stored.findLast(({ kind }) => kind === "ObservationEvent")!.observation.content[0].text).toContain(
    "42",
  );
  const [shown] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
  expect(shown.sandbox_id).toBe(sandbox.id);
});

test("a client of the responses API continues a conversation by the id of a response, also as a stream", async () => {
  const key = sandbox.session_api_key;
  const model = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: key }).responses("default");
  say(reply.text("It is 42.", { usage: { prompt: 7, completion: 3 } }));
  const system = { role: "system" as const, content: "Be brief." };
  const first = await model.doGenerate({ prompt: [system, ...prompt("What is the answer?")] });
  expect(first.content).toMatchObject([{ type: "text", text: "It is 42." }]);
  expect(first.usage).toMatchObject({ inputTokens: { total: 7 }, outputTokens: { total: 3 } });
  expect(models.requests.at(-1)!.system).toContain("Be brief.");
  const previousResponseId = first.response!.id!;

  say(reply.toolCalls([terminal("true")], { text: "I look." }), reply.text("Still 42."));
  const { stream } = await model.doStream({
    prompt: prompt("And now?"),
    providerOptions: { openai: { previousResponseId } },
  });
  const parts: LanguageModelV4StreamPart[] = await Array.fromAsync(stream);
  const said = parts.flatMap((part) => (part.type === "text-delta" ? part.delta : [])).join("");
  expect(said).toBe("I look.\n\nStill 42.");
  expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: { unified: "stop" } });
  const conversation = previousResponseId.slice("resp_".length, 37);
  const asked = (await events(conversation)).filter(({ source }) => source === "user");
  expect(asked.map(({ llm_message }) => llm_message.content[0].text)).toEqual([
    "What is the answer?",
    "And now?",
  ]);

  const post = (body: Json) =>
    fetch(`${server.url}/v1/responses`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "default", input: "x", ...body }),
    }).then(async (answer) => [answer.status, (await bodyOf(answer)).error?.code]);
  expect(await post({ previous_response_id: "resp_unknown" })).toEqual([404, "conversation_not_found"]);
  expect(await post({ previous_response_id: `resp_${"0".repeat(64)}` })).toEqual([
    404,
    "conversation_not_found",
  ]);
  expect(await post({ input: [{ type: "reasoning" }] })).toEqual([400, "bad_request"]);
  expect(await post({ input: [] })).toEqual([422, null]);
  expect(await post({ model: "gpt-5" })).toEqual([404, "model_not_found"]);
  say(reply.error(401), reply.error(401));
  expect(await post({})).toEqual([400, "model_refused"]);
});

test("a streaming client gets the agent's text as it is generated, without repetition", async () => {
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
  const first = models.requests.length;
  script = async ({ index }) => {
    if (index === first)
      return reply.toolCalls([terminal("true")], { text: "First I look at everything.", deltaSize: 4 });
    await mayEnd;
    return index === first + 1
      ? reply.toolCalls([terminal("true"), terminal("true")])
      : finish("All is well.");
  };
  const { stream } = await client()
    .chatModel("default")
    .doStream({ prompt: prompt("Look around") });
  const parts: LanguageModelV4StreamPart[] = [];
  let text = "";
  for await (const part of stream) {
    parts.push(part);
    if (part.type === "text-delta") text += part.delta;
    if (text === "First I look at everything.") end();
  }
  expect(text).toBe("First I look at everything.\n\nAll is well.");
  expect(parts.filter(({ type }) => type === "text-delta").length).toBeGreaterThan(1);
  const last = parts.find((part) => part.type === "finish")!;
  expect(last.finishReason.unified).toBe("stop");
  expect(last.usage.outputTokens.total).toBeGreaterThan(0);
  expect(parts.filter(({ type }) => type === "error")).toEqual([]);
});

test("earlier messages and the system prompt are sent with the first message", async () => {
  say(reply.text("Seven."));
  const messages = [
    { role: "system", content: "Answer in one word." },
    { role: "user", content: "Remember seven." },
    { role: "assistant", content: [{ type: "text", text: "I do." }] },
    { role: "user", content: [{ type: "text", text: "Which number?" }], name: "somebody" },
  ];
  const answer = await complete({
    messages,
    temperature: 0.2,
    tools: [{ type: "function", function: { name: "x" } }],
    n: null,
  });
  expect([answer.status, (await bodyOf(answer)).choices]).toEqual([
    200,
    [{ index: 0, message: { role: "assistant", content: "Seven." }, finish_reason: "stop" }],
  ]);
  const seen = models.requests.at(-1)!;
  expect(seen.system).toContain("Answer in one word.");
  const sent = JSON.stringify(seen.body.messages);
  for (const text of ["Remember seven.", "I do.", "Which number?"]) expect(sent).toContain(text);
});

test("a failed turn gets a clear error that clients do not retry", async () => {
  say(reply.error(401, { error: { message: "bad key" } }));
  const failed = await complete({ messages: [{ role: "user", content: "Try" }] });
  expect([failed.status, failed.headers.get("x-should-retry")]).toEqual([400, "false"]);
  expect(await bodyOf(failed)).toEqual({
    error: {
      message: expect.stringMatching(/key/i),
      type: "invalid_request_error",
      param: null,
      code: "model_refused",
    },
  });
  say(reply.error(401, { error: { message: "bad key" } }));
  const streamed = await complete({ stream: true, messages: [{ role: "user", content: "Try" }] });
  const text = await streamed.text();
  expect([streamed.status, streamed.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  expect(text).toContain('"code":"model_refused"');
  expect(text).not.toContain("[DONE]");

  await server.call("POST", "/api/settings", { confirmation_mode: true });
  say(reply.toolCalls([terminal("true")]));
  const waiting = await complete({ messages: [{ role: "user", content: "Act" }] });
  await server.call("POST", "/api/settings", { confirmation_mode: false });
  expect([waiting.status, (await bodyOf(waiting)).error]).toEqual([
    409,
    expect.objectContaining({
      code: "turn_unfinished",
      message: expect.stringMatching(/waits for a confirmation/),
    }),
  ]);
  expect(waiting.headers.get(header)).toMatch(/^[0-9a-f-]{36}$/);
});

test("the agent continues after its client disconnects, and deleting the conversation ends the request", async () => {
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
  script = async () => {
    await mayEnd;
    return reply.text("Done anyway.");
  };
  const leaving = new AbortController();
  const gone = await complete(
    { stream: true, messages: [{ role: "user", content: "Work on" }] },
    {},
    leaving.signal,
  );
  const id = gone.headers.get(header)!;
  leaving.abort();
  await until(() => server.platform.conversations.live.followers(id) === 0);
  end();
  await until(async () =>
    (await events(id)).find((event) => event.llm_message?.content[0].text === "Done anyway."),
  );

  script = () => reply.hang();
  const asked = models.requests.length;
  const waiting = complete({ messages: [{ role: "user", content: "Wait" }] }, { [header]: id });
  await until(() => models.requests.length > asked);
  expect((await server.call("DELETE", `/api/v1/app-conversations/${id.replaceAll("-", "")}`)).status).toBe(
    200,
  );
  const answer = await waiting;
  expect([answer.status, (await bodyOf(answer)).error.code]).toEqual([404, "conversation_not_found"]);
  sandbox = await newSandbox();
});

test("a user's key starts in a new sandbox, or in the sandbox of the URL", async () => {
  const before = (await server.call("GET", "/api/v1/sandboxes/search")).body.items.length;
  const ask = (base: string) =>
    client(server.key, base)
      .chatModel("default")
      .doGenerate({ prompt: prompt("Hello") });
  say(reply.text("Hello."), reply.text("Hello."));
  await ask(`${server.url}/agent/${sandbox.id}`);
  expect((await server.call("GET", "/api/v1/sandboxes/search")).body.items).toHaveLength(before);
  const { response } = await ask(server.url);
  expect((await server.call("GET", "/api/v1/sandboxes/search")).body.items).toHaveLength(before + 1);
  const other = await complete(
    { messages: [{ role: "user", content: "x" }] },
    { [header]: response!.headers![header]! },
  );
  expect([other.status, (await bodyOf(other)).error.code]).toEqual([404, "conversation_not_found"]);
  await removeSandboxes(server.call);
});
