import type { Content } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import type { Answer } from "../test/support/model-answer.ts";
import { type ModelServer, reply, startModelServer } from "../test/support/model-server.ts";
import type { ModelMessage, ModelRequest, ModelResponse } from "./model.ts";
import { createOpenModel } from "./open.ts";
import { cutMiddle, maxToolChars, toPrompt } from "./prompt.ts";

let server: ModelServer;
afterEach(() => server?.close());

const user = (...content: (string | Content)[]): ModelMessage => ({
  role: "user",
  content: content.map((part) => (typeof part === "string" ? textContent(part) : part)),
});
const call = (id: string, name = "terminal"): ModelMessage => ({
  role: "assistant",
  text: "",
  thinkingBlocks: [],
  toolCalls: [{ id, name, arguments: "{}", origin: "completion" }],
});
const result = (toolCallId: string, text: string, isError = false): ModelMessage => ({
  role: "tool",
  toolCallId,
  toolName: "terminal",
  content: [textContent(text)],
  isError,
});

/** Sends messages to a scripted server; returns the received request and the response. */
async function send(
  model: string,
  messages: ModelMessage[],
  answer: Answer = { text: "ok" },
  request: Partial<ModelRequest> = {},
) {
  server = await startModelServer(() => reply.answer(answer));
  const open = createOpenModel({ env: {}, times: { retryDelays: [] } });
  const opened = open({ model, baseUrl: server.url, apiKey: "key" });
  const response = await opened.complete({
    system: ["one", "two"],
    messages,
    tools: [],
    signal: new AbortController().signal,
    ...request,
  });
  return { seen: server.requests[0]!, body: server.requests[0]!.body, response };
}

/** The turn that a response becomes in the next request. */
const replay = (response: ModelResponse): ModelMessage => ({
  role: "assistant",
  text: response.text,
  ...(response.reasoning && { reasoning: response.reasoning }),
  thinkingBlocks: response.thinkingBlocks,
  toolCalls: response.toolCalls,
});

describe("Anthropic", () => {
  const name = "anthropic/claude-sonnet-4-5";
  const answer: Answer = {
    thinking: { text: "Let me see.", signature: "sig-1" },
    redactedThinking: "ENCRYPTED",
    text: "I list.",
    toolCalls: [{ id: "toolu_1", name: "terminal", arguments: { command: "ls" } }],
  };

  test("thinking comes back with its signature and is replayed before the tool call", async () => {
    const { response } = await send(name, [user("Hi")], answer);
    expect(response.thinkingBlocks).toEqual([
      { type: "thinking", thinking: "Let me see.", signature: "sig-1" },
      { type: "redacted_thinking", data: "ENCRYPTED" },
    ]);
    await server.close();
    const { body } = await send(name, [user("Hi"), replay(response), result("toolu_1", "README")]);
    expect(body.messages[1].content).toEqual([
      { type: "thinking", thinking: "Let me see.", signature: "sig-1" },
      { type: "redacted_thinking", data: "ENCRYPTED" },
      { type: "text", text: "I list." },
      { type: "tool_use", id: "toolu_1", name: "terminal", input: { command: "ls" } },
    ]);
  });

  test("thoughts that Anthropic did not sign are not sent to it", async () => {
    const foreign: ModelMessage = {
      role: "assistant",
      text: "Hello.",
      reasoning: "hm",
      thinkingBlocks: [
        { type: "thinking", thinking: "unsigned" },
        { type: "redacted_thinking", data: "google-thought-signature:abc" },
      ],
      toolCalls: [],
    };
    const { body } = await send(name, [user("Hi"), foreign, user("Go on")]);
    expect(body.messages[1].content).toEqual([{ type: "text", text: "Hello." }]);
  });

  test("the cache ends after the first system block and after the newest content", async () => {
    const { body } = await send(name, [
      user("Hi"),
      call("a"),
      result("a", "first"),
      call("b"),
      result("b", "second"),
    ]);
    const mark = { type: "ephemeral" };
    expect(body.system).toMatchObject([{ text: "one", cache_control: mark }, { text: "two" }]);
    expect(body.system[1].cache_control).toBeUndefined();
    expect(body.messages.at(-1).content.at(-1)).toMatchObject({
      type: "tool_result",
      tool_use_id: "b",
      cache_control: mark,
    });
    expect(JSON.stringify(body).match(/cache_control/g)).toHaveLength(2);
  });

  test("a failed tool call is marked as such, and cache writes are counted and billed", async () => {
    const { seen, response } = await send(name, [user("Hi"), call("a"), result("a", "boom", true)], {
      text: "ok",
      usage: { prompt: 1000, completion: 0, cacheRead: 100, cacheWrite: 500 },
    });
    expect(seen.messages.at(-1)).toMatchObject({ isError: true, text: "boom" });
    expect(response.usage).toMatchObject({
      prompt_tokens: 1000,
      cache_read_tokens: 100,
      cache_write_tokens: 500,
    });
    expect(response.cost).toBeCloseTo((400 * 3 + 100 * 0.3 + 500 * 3.75) / 1e6, 10);
  });
});

describe("Gemini", () => {
  test("the signature of hidden thoughts goes back with the first tool call", async () => {
    const name = "gemini/gemini-3-pro-preview";
    const calls = [
      { id: "c1", name: "terminal", arguments: { command: "ls" }, thoughtSignature: "c2lnbmF0dXJl" },
      { id: "c2", name: "terminal", arguments: { command: "pwd" } },
    ];
    const { response } = await send(name, [user("Hi")], { toolCalls: calls });
    await server.close();
    const { body } = await send(name, [user("Hi"), replay(response), result("c1", "x"), result("c2", "y")]);
    expect(
      body.contents[1].parts.map((part: { thoughtSignature?: string }) => part.thoughtSignature),
    ).toEqual(["c2lnbmF0dXJl", undefined]);
    // Gemini wants the results of parallel calls in one turn.
    expect(
      body.contents[2].parts.map((part: { functionResponse: { id: string } }) => part.functionResponse.id),
    ).toEqual(["c1", "c2"]);
  });
});

describe("chat completions", () => {
  test("valid arguments go back byte for byte", async () => {
    const spaced = '{ "command" :"ls" }';
    const { body } = await send("openai/x", [
      user("Hi"),
      {
        role: "assistant",
        text: "",
        thinkingBlocks: [],
        toolCalls: [{ id: "a", name: "terminal", arguments: spaced, origin: "completion" }],
      },
      result("a", "fine", true),
    ]);
    expect(body.messages.map((message: { role: string }) => message.role)).toEqual([
      "system",
      "user",
      "assistant",
      "tool",
    ]);
    expect(body.messages[2].tool_calls[0].function.arguments).toBe(spaced);
    expect(body.messages[3].content).toBe("fine");
  });

  test("reasoning is replayed only to models that continue from it", async () => {
    const thought: ModelMessage = {
      role: "assistant",
      text: "Yes.",
      reasoning: "because",
      thinkingBlocks: [],
      toolCalls: [],
    };
    const deepseek = await send("deepseek/deepseek-reasoner", [user("Hi"), thought, user("Why?")]);
    expect(deepseek.body.messages[2].reasoning_content).toBe("because");
    await server.close();
    const mistral = await send("mistral/mistral-large", [user("Hi"), thought, user("Why?")]);
    expect(mistral.body.messages[2]).toEqual({ role: "assistant", content: "Yes." });
  });

  test("Claude behind a proxy gets its cache marks in the proxy's form", async () => {
    const { body } = await send("litellm_proxy/claude-sonnet-4-5", [
      user("Hi"),
      call("a"),
      result("a", "out"),
    ]);
    const mark = { cache_control: { type: "ephemeral" } };
    expect(body.messages[0].content).toEqual([{ type: "text", text: "one\n\ntwo", ...mark }]);
    expect(body.messages.at(-1).content).toEqual([{ type: "text", text: "out", ...mark }]);
    expect(body.messages[1].content).toBe("Hi");
  });

  test("the key of the environment is used only for OpenAI's own address", async () => {
    server = await startModelServer([
      reply.text("Hello.", { usage: { prompt: 1000, completion: 0, cacheRead: 200 } }),
    ]);
    const urls: string[] = [];
    const open = createOpenModel({
      env: { OPENAI_API_KEY: "env-key" },
      fetch: (input, init) => {
        urls.push(String(input));
        return fetch(String(input).replace("https://api.openai.com", server.url), init);
      },
    });
    const request = {
      system: ["s"],
      messages: [user("Hi")],
      tools: [],
      signal: new AbortController().signal,
    };
    const response = await open({ model: "gpt-4o" }).complete(request);
    expect(response).toMatchObject({
      text: "Hello.",
      usage: { prompt_tokens: 1000, cache_read_tokens: 200 },
    });
    expect(response.cost).toBeCloseTo((800 * 2.5 + 200 * 1.25) / 1e6, 10);
    expect(urls).toEqual(["https://api.openai.com/v1/chat/completions"]);
    expect(server.requests[0]!.apiKey).toBe("env-key");
  });

  test("an endpoint without a key gets no authorization header", async () => {
    server = await startModelServer([reply.text("Hello.")]);
    const open = createOpenModel({ env: { OPENAI_API_KEY: "env-key" } });
    await open({ model: "openai/local", baseUrl: server.url }).complete({
      system: [],
      messages: [user("Hi")],
      tools: [],
      signal: new AbortController().signal,
    });
    expect(server.requests[0]!.headers.authorization).toBeUndefined();
  });
});

describe.each(["openai/x", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"])("%s", (name) => {
  test("empty texts and empty turns are left out, consecutive user messages are kept", async () => {
    const nothing: ModelMessage = { role: "assistant", text: "", thinkingBlocks: [], toolCalls: [] };
    const { seen } = await send(name, [user("One", " "), nothing, user("Two"), user("Three")]);
    expect(seen.messages.every((message) => message.role === "user")).toBe(true);
    expect(seen.messages.map((message) => message.text).join("\n")).toBe("One\nTwo\nThree");
  });

  test("the middle of a very long tool result is cut, and a tool result without text is marked as empty", async () => {
    const { seen } = await send(name, [
      user("Hi"),
      call("a"),
      call("b"),
      result("a", `<${"x".repeat(50_000)}>`),
      result("b", ""),
    ]);
    const [long, empty] = seen.messages.filter((message) => message.role === "tool");
    expect(long!.text.length).toBeLessThanOrEqual(maxToolChars);
    expect(long!.text).toMatch(/^<x+\n\[\.\.\. \d+ characters left out here \.\.\.\]\nx+>$/);
    expect(empty!.text).toBe("(no output)");
  });
});

test("cutting respects the limit and never splits a character", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", minLength: 150, maxLength: 400 }),
      fc.integer({ min: 100, max: 150 }),
      (text, limit) => {
        const cut = cutMiddle(text, limit);
        expect(cut.length).toBeLessThanOrEqual(limit);
        expect(cut.isWellFormed()).toBe(true);
      },
    ),
  );
});

test("any text and any arguments result in a valid prompt", () => {
  const halves = fc.integer({ min: 0xd7f0, max: 0xe010 }).map((code) => String.fromCharCode(code));
  const anyText = fc.string({
    unit: fc.oneof(halves, fc.constantFrom("a", " ", '"', "\n", "🦩")),
    maxLength: 20,
  });
  fc.assert(
    fc.property(
      anyText,
      anyText,
      fc.oneof(
        anyText,
        fc.dictionary(anyText, anyText).map((value) => JSON.stringify(value)),
      ),
      fc.constantFrom("openai" as const, "anthropic" as const, "google" as const),
      (text, name, args, wire) => {
        const messages: ModelMessage[] = [
          user(text, { type: "image", image_urls: [text] }),
          {
            role: "assistant",
            text,
            thinkingBlocks: [],
            toolCalls: [{ id: name, name, arguments: args, origin: "completion" }],
          },
          { role: "tool", toolCallId: name, toolName: name, content: [textContent(text)], isError: false },
        ];
        const json = JSON.stringify(toPrompt({ system: [text], messages }, { wire, replayReasoning: true }));
        // Half a surrogate pair would be written as an escape, which endpoints refuse.
        expect(json).not.toMatch(/[^\\](\\\\)*\\ud[89a-f]/);
        expect(JSON.parse(json).at(-1).content[0].toolName).toMatch(/^[\w-]{1,64}$/);
      },
    ),
  );
});

test("results are sent in the order of their calls, because some endpoints match them by order", () => {
  const ids = ["a", "b", "c"];
  const calls = ids.map((id) => ({ id, name: "run", arguments: "{}", origin: "completion" as const }));
  const answer: ModelMessage = { role: "assistant", text: "", thinkingBlocks: [], toolCalls: calls };
  const messages = [user("go"), answer, ...["c", "a", "b"].map((id) => result(id, "done"))];
  const prompt = toPrompt({ system: [], messages }, { wire: "google", replayReasoning: false });
  const sent = prompt.at(-1)!.content as { toolCallId: string }[];
  expect(sent.map(({ toolCallId }) => toolCallId)).toEqual(ids);
});
