import { afterEach, describe, expect, test } from "vitest";
import {
  type Answer,
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "../../test/support/model-server.ts";
import { PlatformError } from "../errors.ts";
import { isContextExceeded } from "./failure.ts";
import type { Model, ModelRequest, ModelTool, RetryNotice } from "./model.ts";
import { makeOpenModel } from "./open.ts";
import type { CallTimes } from "./provider-model.ts";

const key = "sk-secret/0123456789+abc";
const names = { openai: "openai/gpt-5", anthropic: "anthropic/claude-sonnet-4-5", google: "gemini/gemini-2.5-flash" };
const tool: ModelTool = {
  name: "terminal",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

let server: ModelServer;
afterEach(() => server?.close());

async function open(
  name: string,
  script: Script | Reply[],
  times: Partial<CallTimes> = {},
  onRetry?: (notice: RetryNotice) => void,
): Promise<Model> {
  server = await startModelServer(script);
  const openModel = makeOpenModel({ env: {}, times: { retryDelays: [1, 1, 1, 1], ...times }, ...(onRetry && { onRetry }) });
  return openModel({ model: name, apiKey: key, baseUrl: server.url });
}

function ask(more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    system: ["You are an agent.", "Today is Monday."],
    messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
    tools: [tool],
    signal: new AbortController().signal,
    ...more,
  };
}

async function failure(promise: Promise<unknown>): Promise<PlatformError> {
  const error = await promise.then(
    () => expect.fail("the call was expected to fail"),
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(PlatformError);
  return error as PlatformError;
}

describe.each(Object.entries(names))("over the %s wire", (wire, name) => {
  test("text is streamed piece by piece and the whole is returned with usage and cost", async () => {
    const usage = { prompt: 1000, completion: 100, cacheRead: 600 };
    const model = await open(name, [reply.text("The quick brown fox jumps over the lazy dog.", { usage, id: "answer-1" })]);
    const deltas: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") }));

    expect(deltas.length).toBeGreaterThan(2);
    expect(deltas.join("")).toBe("The quick brown fox jumps over the lazy dog.");
    expect(response).toMatchObject({
      id: "answer-1",
      text: deltas.join(""),
      toolCalls: [],
      thinkingBlocks: [],
      finishReason: "stop",
    });
    expect(response.usage).toEqual({
      model: name,
      prompt_tokens: 1000,
      completion_tokens: 100,
      cache_read_tokens: 600,
      cache_write_tokens: 0,
      reasoning_tokens: 0,
      context_window: model.contextWindow,
      per_turn_token: 1100,
      response_id: "answer-1",
    });
    const [input, output, cacheRead] = { openai: [1.25, 10, 0.125], anthropic: [3, 15, 0.3], google: [0.3, 2.5, 0.03] }[wire]!;
    expect(response.cost).toBeCloseTo((400 * input! + 600 * cacheRead! + 100 * output!) / 1e6, 10);
  });

  test("the request carries the system prompt, the tools and the key", async () => {
    const model = await open(name, [reply.text("Hi.")]);
    await model.complete(ask());
    const [request] = server.requests;
    expect(request).toMatchObject({ wire, system: "You are an agent.\n\nToday is Monday.", tools: ["terminal"], apiKey: key });
    expect(request!.messages).toMatchObject([{ role: "user", text: "Hello" }]);
    expect(JSON.stringify(request!.body)).toContain("Runs a command.");
  });

  test("parallel tool calls come back in order, with text before them", async () => {
    const calls = [
      { id: "call_a", name: "terminal", arguments: { command: "ls -la" } },
      { id: "call_b", name: "terminal", arguments: { command: "echo 'ü'" } },
    ];
    const model = await open(name, [reply.toolCalls(calls, { text: "I look around." })]);
    const response = await model.complete(ask());
    expect(response.text).toBe("I look around.");
    expect(response.finishReason).toBe("tool-calls");
    expect(response.toolCalls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))).toEqual(
      calls.map((call) => ({ ...call, origin: "completion" })),
    );
  });

  test("arguments stay the text that the model wrote, broken JSON included", async () => {
    const broken = '{"command": "echo \\"unfinished';
    const spaced = '{ "command" : "ls" ,  "command": "pwd" }';
    const model = await open(name, [
      reply.toolCalls([
        { name: "terminal", arguments: broken },
        { name: "terminal", arguments: spaced },
      ]),
    ]);
    const response = await model.complete(ask());
    expect(response.toolCalls.map((call) => call.arguments)).toEqual([broken, spaced]);
  });

  test("a call whose arguments were broken is replayed in a form that the endpoint accepts", async () => {
    const model = await open(name, [reply.text("Sorry.")]);
    await model.complete(
      ask({
        messages: [
          { role: "user", content: [{ type: "text", text: "Go" }] },
          {
            role: "assistant",
            text: "",
            thinkingBlocks: [],
            toolCalls: [{ id: "functions.terminal:0", name: "terminal", arguments: '{"command": ', origin: "completion" }],
          },
          {
            role: "tool",
            toolCallId: "functions.terminal:0",
            toolName: "terminal",
            content: [{ type: "text", text: "invalid JSON" }],
            isError: true,
          },
        ],
      }),
    );
    const [, assistant, result] = server.requests[0]!.messages;
    const sent = assistant!.toolCalls[0]!;
    expect(typeof sent.arguments === "string" ? JSON.parse(sent.arguments) : sent.arguments).toEqual({
      malformed_arguments: '{"command": ',
    });
    expect(result!.text).toContain("invalid JSON");
    expect(result!.toolCallId).toBe(sent.id);
  });

  test("images of a tool result reach the model", async () => {
    const model = await open(name, [reply.text("A dot.")]);
    const pixel = "data:image/png;base64,iVBORw0KGgo=";
    await model.complete(
      ask({
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "Look" },
              { type: "image", image_urls: [pixel] },
            ],
          },
          {
            role: "assistant",
            text: "",
            thinkingBlocks: [],
            toolCalls: [{ id: "call_1", name: "view", arguments: "{}", origin: "completion" }],
          },
          {
            role: "tool",
            toolCallId: "call_1",
            toolName: "view",
            content: [
              { type: "text", text: "the picture" },
              { type: "image", image_urls: [pixel] },
            ],
            isError: false,
          },
        ],
      }),
    );
    const { messages } = server.requests[0]!;
    expect(messages[0]).toMatchObject({ role: "user", text: "Look", images: 1 });
    expect(messages.find((message) => message.role === "tool")!.text).toContain("the picture");
    expect(messages.slice(2).reduce((sum, message) => sum + message.images, 0)).toBe(1);
    expect(messages.find((message) => message.role === "tool")!.text).not.toContain("iVBOR");
  });

  test("characters survive being split across packets", async () => {
    const text = "Grüße – 日本語 🦩🏳️‍🌈 fin";
    const model = await open(name, [reply.text(text, { writeBytes: 3, deltaSize: 2 })]);
    const deltas: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") }));
    expect(response.text).toBe(text);
    expect(deltas.join("")).toBe(text);
  });

  test("after 429 it waits as long as Retry-After says, then goes on", async () => {
    const notices: RetryNotice[] = [];
    const model = await open(
      name,
      [reply.error(429, { error: { message: "slow down" } }, { "retry-after": "1" }), reply.text("Now.")],
      { retryDelays: [60_000] },
      (notice) => notices.push(notice),
    );
    const start = Date.now();
    expect((await model.complete(ask())).text).toBe("Now.");
    expect(Date.now() - start).toBeGreaterThanOrEqual(990);
    expect(notices).toMatchObject([{ model: name, attempt: 1, delayMs: 1000, reason: expect.stringContaining("slow down") }]);
  });

  test("a server that keeps failing ends in ModelFailed with its words after five attempts", async () => {
    const model = await open(name, () =>
      reply.error(503, { error: { message: "we are moving house", type: "overloaded_error" } }),
    );
    const error = await failure(model.complete(ask()));
    expect(error.code).toBe("ModelFailed");
    expect(error.message).toBe(`The model ${name} failed after 5 attempts (HTTP 503): we are moving house`);
    expect(server.requests).toHaveLength(5);
  });

  test.each([400, 401, 403, 404])("status %i is not tried again", async (status) => {
    const model = await open(name, () => reply.error(status, { error: { message: "no" } }));
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain(`HTTP ${status}`);
    expect(server.requests).toHaveLength(1);
  });

  test("a refused key is never part of the message, however the endpoint echoes it", async () => {
    const echo = `bad key ${key}, ${encodeURIComponent(key)} or ${Buffer.from(key).toString("base64")}`;
    const model = await open(name, () => reply.error(401, { error: { message: echo } }));
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain("bad key ***, *** or ***");
    expect(error.message).toContain("check llm_api_key");
    expect(`${error.stack} ${JSON.stringify(error)} ${error.cause}`).not.toContain(key);
  });

  test("a key that no header can carry is told as that", async () => {
    server = await startModelServer([]);
    const model = makeOpenModel({ env: {} })({ model: name, apiKey: "sk-…", baseUrl: server.url });
    expect((await failure(model.complete(ask()))).message).toContain("the API key or a header holds a character");
    expect(server.requests).toEqual([]);
  });

  test("a stream that breaks off after text was shown fails without a second attempt", async () => {
    const model = await open(name, () => reply.text("This sentence has an end.", { cutAfter: 3 }));
    const deltas: string[] = [];
    const error = await failure(model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") })));
    expect(error.code).toBe("ModelFailed");
    expect(deltas.join("")).not.toBe("");
    expect(server.requests).toHaveLength(1);
  });

  test("a stream that ends properly but too early is no answer", async () => {
    const model = await open(name, () => reply.text("This sentence has an end.", { endAfter: 3 }));
    const error = await failure(model.complete(ask({ onDelta: () => {} })));
    expect(error.code).toBe("ModelFailed");
    expect(server.requests).toHaveLength(1);
  });

  test("a stream that breaks off before anything was shown is tried again", async () => {
    const model = await open(name, ({ index }) =>
      index === 0
        ? reply.toolCalls([{ name: "terminal", arguments: { command: "ls" } }], { cutAfter: 1 })
        : reply.text("Second."),
    );
    expect((await model.complete(ask())).text).toBe("Second.");
    expect(server.requests).toHaveLength(2);
  });

  test("a connection that is closed without an answer is tried again", async () => {
    const model = await open(name, [reply.disconnect(), reply.text("Here.")]);
    expect((await model.complete(ask())).text).toBe("Here.");
  });

  test("a stream that goes silent in the middle is given up", async () => {
    const model = await open(name, () => reply.text("This sentence has an end.", { stallAfter: 3 }), { idle: 60 });
    const error = await failure(model.complete(ask({ onDelta: () => {} })));
    expect(error.message).toContain("sent nothing for 0.06 s");
    expect(await server.requests[0]!.finished).toBe(false);
  });

  test("an endpoint that never answers is given up and tried again", async () => {
    const model = await open(name, [reply.hang(), reply.text("At last.")], { attempt: 60 });
    expect((await model.complete(ask())).text).toBe("At last.");
    expect(await server.requests[0]!.finished).toBe(false);
  });

  test("an abort in the middle closes the connection at once and throws the signal's reason", async () => {
    const model = await open(name, () => reply.text("This sentence has an end.", { stallAfter: 3 }));
    const controller = new AbortController();
    const reason = new Error("interrupted by the user");
    const call = model.complete(ask({ signal: controller.signal, onDelta: () => controller.abort(reason) }));
    await expect(call).rejects.toBe(reason);
    expect(await server.requests[0]!.finished).toBe(false);
    expect(server.requests).toHaveLength(1);
  });

  test("an abort ends the wait before another attempt", async () => {
    const controller = new AbortController();
    const model = await open(
      name,
      () => reply.error(500),
      { retryDelays: [60_000] },
      () => controller.abort(new Error("stop")),
    );
    await expect(model.complete(ask({ signal: controller.signal }))).rejects.toThrow("stop");
  });

  test("an aborted signal sends nothing", async () => {
    const model = await open(name, () => reply.text("?"));
    await expect(model.complete(ask({ signal: AbortSignal.abort(new Error("early")) }))).rejects.toThrow("early");
    expect(server.requests).toHaveLength(0);
  });

  test("garbage instead of an event is tried again", async () => {
    const model = await open(name, [reply.text("lost", { malformedAt: 0 }), reply.text("Found.")]);
    expect((await model.complete(ask())).text).toBe("Found.");
  });

  test("an error inside the stream is told in the provider's words", async () => {
    const model = await open(name, () => reply.answer({ streamError: { message: "the engine caught fire" } }));
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain("the engine caught fire");
    expect(server.requests).toHaveLength(5);
  });

  test.each(["Hm.", ""])(
    "an error inside the stream, after the text %j, closes the connection, whatever the endpoint does",
    async (text) => {
      const model = await open(name, () => reply.text(text, { streamError: { message: "broken" }, stallAfter: 99 }), {
        retryDelays: [],
      });
      await failure(model.complete(ask({ onDelta: () => {} })));
      expect(await server.requests[0]!.finished).toBe(false);
    },
  );

  test("an empty answer is tried again", async () => {
    const nothing: Answer = { usage: { completion: 0 } };
    const model = await open(name, [reply.answer(nothing), reply.text("Something.")]);
    expect((await model.complete(ask())).text).toBe("Something.");
  });

  test("a model that chooses to say nothing is returned as it is", async () => {
    const model = await open(name, [reply.answer({ usage: { completion: 3 } })]);
    expect(await model.complete(ask())).toMatchObject({ text: "", toolCalls: [], finishReason: "stop" });
  });

  test("a prompt that is too long is recognisable", async () => {
    const words = {
      openai: { error: { message: "This model's maximum context length is 8192 tokens.", code: "context_length_exceeded" } },
      anthropic: {
        type: "error",
        error: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum" },
      },
      google: {
        error: {
          code: 400,
          message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
          status: "INVALID_ARGUMENT",
        },
      },
    }[wire];
    const model = await open(name, () => reply.error(400, words));
    const error = await failure(model.complete(ask()));
    expect(isContextExceeded(error)).toBe(true);
    expect(server.requests).toHaveLength(1);
  });

  test("a rate limit on tokens is not taken for a prompt that is too long", async () => {
    const model = await open(name, () => reply.error(429, { error: { message: "too many tokens per minute" } }), {
      retryDelays: [],
    });
    expect(isContextExceeded(await failure(model.complete(ask())))).toBe(false);
  });

  test("a redirect is refused, so that the key stays with its host", async () => {
    const model = await open(name, () => reply.error(307, "moved", { location: "/elsewhere/v1/chat/completions" }));
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain("HTTP 307");
    expect(server.requests).toHaveLength(1);
  });

  test("reasoning is streamed apart from the text", async () => {
    const model = await open(name, [
      reply.text("42.", { thinking: { text: "Six times seven.", signature: "sig" }, usage: { reasoning: 7 } }),
    ]);
    const thoughts: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ reasoning }) => reasoning && thoughts.push(reasoning) }));
    expect(thoughts.join("")).toBe("Six times seven.");
    expect(response).toMatchObject({ text: "42.", reasoning: "Six times seven." });
  });
});
