import { describe, expect, test } from "vitest";
import type { Answer } from "../../test/support/model-answer.ts";
import { reply } from "../../test/support/model-server.ts";
import { ask, keyOf, modelServers, wires } from "../../test/support/wires.ts";
import { maxAnswerChars } from "../answer-bound.ts";
import type { ModelMessage } from "../model.ts";

const servers = modelServers();

const assistant = (call: { id: string; name: string; arguments: string }): ModelMessage => ({
  role: "assistant",
  text: "",
  thinkingBlocks: [],
  toolCalls: [{ ...call, origin: "completion" }],
});

describe.each(wires)("$title", (under) => {
  test("text is streamed in chunks and returned as a whole with usage and cost", async () => {
    const text = "The quick brown fox jumps over the lazy dog.";
    const usage = { prompt: 1000, completion: 100, cacheRead: 600, reasoning: 40 };
    const model = await servers.open(under, [reply.text(text, { usage, id: "answer-1" })]);
    const deltas: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") }));
    expect(deltas.length).toBeGreaterThan(2);
    expect(deltas.join("")).toBe(text);
    expect(response).toMatchObject({
      id: "answer-1",
      text,
      toolCalls: [],
      thinkingBlocks: [],
      finishReason: "stop",
    });
    expect(response.usage).toEqual({
      model: under.name,
      prompt_tokens: 1000,
      completion_tokens: 100,
      cache_read_tokens: 600,
      cache_write_tokens: 0,
      // Anthropic and Bedrock count thoughts with the rest of the answer.
      reasoning_tokens: ["anthropic", "bedrock"].includes(under.wire) ? 0 : 40,
      context_window: model.contextWindow,
      per_turn_token: 1100,
      response_id: "answer-1",
    });
    const [input, output, cacheRead] = under.price;
    expect(response.cost).toBeCloseTo((400 * input + 600 * cacheRead + 100 * output) / 1e6, 10);
  });

  test("the request carries the system prompt, the tools and the key", async () => {
    const model = await servers.open(under, [reply.text("Hi.")]);
    await model.complete(ask());
    const [request] = servers.requests;
    const { wire } = under;
    expect(request).toMatchObject({
      wire,
      system: "You are an agent.\n\nToday is Monday.",
      tools: ["terminal"],
      apiKey: keyOf(under),
    });
    expect(request!.messages).toMatchObject([{ role: "user", text: "Hello" }]);
    expect(JSON.stringify(request!.body)).toContain("Runs a command.");
  });

  test("parallel tool calls come back in order, with text before them", async () => {
    const calls = [
      { id: "call_a", name: "terminal", arguments: { command: "ls -la" } },
      { id: "call_b", name: "terminal", arguments: { command: "echo 'ü'" } },
    ];
    const model = await servers.open(under, [reply.toolCalls(calls, { text: "I look around." })]);
    const response = await model.complete(ask());
    expect(response.text).toBe("I look around.");
    expect(response.finishReason).toBe("tool-calls");
    const origin = under.wire === "responses" ? "responses" : "completion";
    expect(response.toolCalls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))).toEqual(
      calls.map((call, index) => ({
        ...call,
        origin,
        ...(origin === "responses" && { responses_item_id: `fc_0_${index}` }),
      })),
    );
  });

  test("arguments are returned as the model wrote them, broken JSON included", async () => {
    const broken = '{"command": "echo \\"unfinished';
    const spaced = '{ "command" : "ls" ,  "command": "pwd" }';
    const calls = [broken, spaced].map((text) => ({ name: "terminal", arguments: text }));
    const model = await servers.open(under, [reply.toolCalls(calls)]);
    const response = await model.complete(ask());
    expect(response.toolCalls.map((call) => call.arguments)).toEqual([broken, spaced]);
  });

  test("a call whose arguments were broken is replayed in a form that the endpoint accepts", async () => {
    const model = await servers.open(under, [reply.text("Sorry.")]);
    const id = "functions.terminal:0";
    await model.complete(
      ask({
        messages: [
          { role: "user", content: [{ type: "text", text: "Go" }] },
          assistant({ id, name: "terminal", arguments: '{"command": ' }),
          {
            role: "tool",
            toolCallId: id,
            toolName: "terminal",
            content: [{ type: "text", text: "invalid JSON" }],
            isError: true,
          },
        ],
      }),
    );
    const [, called, result] = servers.requests[0]!.messages;
    const sent = called!.toolCalls[0]!;
    expect(typeof sent.arguments === "string" ? JSON.parse(sent.arguments) : sent.arguments).toEqual({
      malformed_arguments: '{"command": ',
    });
    expect(result!.text).toContain("invalid JSON");
    expect(result!.toolCallId).toBe(sent.id);
  });

  const pixel = "data:image/png;base64,iVBORw0KGgo=";
  const pictures = (url: string): ModelMessage[] => [
    {
      role: "user",
      content: [
        { type: "text", text: "Look" },
        { type: "image", image_urls: [url] },
      ],
    },
    assistant({ id: "call_1", name: "view", arguments: "{}" }),
    {
      role: "tool",
      toolCallId: "call_1",
      toolName: "view",
      content: [
        { type: "text", text: "the picture" },
        { type: "image", image_urls: [url] },
      ],
      isError: false,
    },
  ];

  test("images of the user and of a tool result reach the model", async () => {
    const model = await servers.open(under, [reply.text("A dot.")]);
    await model.complete(ask({ messages: pictures(pixel) }));
    const { messages } = servers.requests[0]!;
    expect(messages[0]).toMatchObject({ role: "user", text: "Look", images: 1 });
    const result = messages.find((message) => message.role === "tool")!;
    expect(result.text).toContain("the picture");
    expect(result.text).not.toContain("iVBOR");
    expect(messages.slice(2).reduce((sum, message) => sum + message.images, 0)).toBe(1);
  });

  test.each([
    [
      "a format that none reads",
      "data:image/svg+xml;base64,PHN2Zz4=",
      {},
      "models do not read image/svg+xml",
    ],
    ["base64 that is none", "data:image/png;base64,iVBO%0", {}, "it is no valid base64"],
    ["a file of the server", "file:///etc/passwd", {}, "its address is neither"],
    ["a model without vision", pixel, { vision: false }, "this model does not read images"],
  ])("%s is left out with a note", async (_, url, options, note) => {
    const model = await servers.open(under, [reply.text("I see nothing.")], { options });
    await model.complete(ask({ messages: pictures(url) }));
    const { messages } = servers.requests[0]!;
    expect(messages.every((message) => message.images === 0)).toBe(true);
    expect(messages[0]!.text).toContain(note);
    expect(messages.find((message) => message.role === "tool")!.text).toContain(note);
  });

  test.each([
    [404, "No endpoints found that support image input"],
    [
      400,
      "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
    ],
    [400, "At least one of the image dimensions exceed max allowed size: 8000 pixels"],
    [400, "Could not process image"],
  ])("an endpoint that refuses images is asked again without them: %i %s", async (status, message) => {
    const model = await servers.open(under, [
      reply.error(status, { error: { message }, message }),
      reply.text("Tell me."),
    ]);
    expect((await model.complete(ask({ messages: pictures(pixel) }))).text).toBe("Tell me.");
    expect(servers.requests[1]!.messages[0]!.text).toContain("endpoint refused it");
  });

  test("characters survive being split across packets", async () => {
    const text = "Grüße – 日本語 🦩🏳️‍🌈 fin";
    const model = await servers.open(under, [reply.text(text, { writeBytes: 5, deltaSize: 9 })]);
    const deltas: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ content }) => deltas.push(content ?? "") }));
    expect(response.text).toBe(text);
    expect(deltas.join("")).toBe(text);
  });

  test("lone surrogates of a conversation are replaced before they are sent", async () => {
    const half = "\ud83d";
    const model = await servers.open(under, [reply.text("Fine.")]);
    await model.complete(
      ask({
        system: [`s${half}`],
        messages: [
          { role: "user", content: [{ type: "text", text: `u${half}` }] },
          {
            ...assistant({
              id: "a",
              name: `t${half}`,
              arguments: JSON.stringify({ command: `c${half}`, [half]: 1 }),
            }),
            text: `a${half}`,
          },
          {
            role: "tool",
            toolCallId: "a",
            toolName: "t",
            content: [{ type: "text", text: `r${half}` }],
            isError: false,
          },
        ] as ModelMessage[],
      }),
    );
    expect(JSON.stringify(servers.requests[0]!.body)).not.toMatch(/\\ud83d/i);
    expect(JSON.stringify(servers.requests[0]!.body)).toContain("u\ufffd");
  });

  test("lone surrogates of an answer are harmless", async () => {
    const model = await servers.open(under, [reply.text("a\ud83db", { deltaSize: 99 })]);
    expect((await model.complete(ask())).text).toBe("a\ud83db");
  });

  test("a refusal is reported with its text", async () => {
    const model = await servers.open(under, [reply.answer({ refusal: "I cannot help with that." })]);
    expect(await model.complete(ask())).toMatchObject({
      text: "I cannot help with that.",
      finishReason: "content-filter",
    });
  });

  test("a withheld answer is returned and not requested again", async () => {
    const model = await servers.open(under, [
      reply.answer({ finish: "content_filter", usage: { completion: 0 } }),
    ]);
    expect(await model.complete(ask())).toMatchObject({ text: "", finishReason: "content-filter" });
  });

  test("an answer that was cut off by its limit is marked as cut", async () => {
    const model = await servers.open(under, [reply.text("This goes on and", { finish: "length" })]);
    expect(await model.complete(ask())).toMatchObject({ text: "This goes on and", finishReason: "length" });
  });

  test("an empty answer is requested again, without a temperature of 0", async () => {
    const nothing: Answer = { usage: { completion: 0 } };
    const model = await servers.open(under, [reply.answer(nothing), reply.text("Something.")], {
      options: { temperature: 0 },
    });
    expect((await model.complete(ask())).text).toBe("Something.");
    const [first, second] = servers.requests.map(
      ({ body }) => (body.generationConfig ?? body.inferenceConfig ?? body).temperature,
    );
    const takesNone = under.wire === "responses" || under.title === "LiteLLM proxy";
    expect([first, second]).toEqual(takesNone ? [undefined, undefined] : [0, 1]);
  });

  test("a deliberately empty answer is returned as it is", async () => {
    const model = await servers.open(under, [reply.answer({ usage: { completion: 3 } })]);
    expect(await model.complete(ask())).toMatchObject({ text: "", toolCalls: [], finishReason: "stop" });
  });

  test("500 tool calls in one answer all come back", async () => {
    const calls = Array.from({ length: 500 }, (_, at) => ({
      name: "terminal",
      arguments: { command: `echo ${at}` },
    }));
    const model = await servers.open(under, [reply.toolCalls(calls, { deltaSize: 100 })]);
    const { toolCalls } = await model.complete(ask());
    expect(toolCalls).toHaveLength(500);
    expect(toolCalls.at(-1)!.arguments).toBe('{"command":"echo 499"}');
    expect(new Set(toolCalls.map(({ id }) => id)).size).toBe(500);
  });

  test("arguments of nearly the maximum answer length come back complete", async () => {
    const command = "x".repeat(maxAnswerChars - 100);
    const model = await servers.open(under, [
      reply.toolCalls([{ name: "terminal", arguments: { command } }], { deltaSize: 100_000 }),
    ]);
    const { toolCalls } = await model.complete(ask());
    expect(toolCalls[0]!.arguments.length).toBe(command.length + '{"command":""}'.length);
  });
});
