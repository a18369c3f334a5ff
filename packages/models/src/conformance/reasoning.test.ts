import { describe, expect, test } from "vitest";
import type { Answer } from "../../test/support/model-answer.ts";
import { reply } from "../../test/support/model-server.ts";
import { ask, modelServers, wires } from "../../test/support/wires.ts";
import type { ModelMessage, ModelResponse } from "../model.ts";

const servers = modelServers();

/** The turn that a response becomes in the next request, after it was stored. */
function replay({ text, reasoning, thinkingBlocks, reasoningItems, toolCalls }: ModelResponse): ModelMessage {
  return JSON.parse(
    JSON.stringify({ role: "assistant", text, reasoning, thinkingBlocks, reasoningItems, toolCalls }),
  );
}

const results = ({ toolCalls }: ModelResponse): ModelMessage[] =>
  toolCalls.map(({ id, name }) => ({
    role: "tool",
    toolCallId: id,
    toolName: name,
    content: [{ type: "text", text: "fine" }],
    isError: false,
  }));

const hello = ask().messages;
const signature = "c2lnbmF0dXJl";
const redacted = "RU5DUllQVEVE";

/** A thinking answer with two calls, with everything that some provider wants to see again. */
const thinker: Answer = {
  thinking: { text: "Let me see.\n\nI list first.", signature },
  redactedThinking: redacted,
  text: "I list.",
  toolCalls: [
    { id: "toolu_1", name: "terminal", arguments: { command: "ls" }, thoughtSignature: signature },
    {
      id: "toolu_2",
      name: "terminal",
      arguments: { command: "pwd" },
      thinking: { text: "And where?", signature: "c2Vjb25k" },
    },
  ],
};

async function think(title: string): Promise<ModelResponse> {
  const model = await servers.open(wires.find((under) => under.title === title)!, [reply.answer(thinker)]);
  return model.complete(ask());
}

// OpenAI reports its models' reasoning only in the Responses API.
describe.each(wires.slice(1))("$title", (under) => {
  test("reasoning is streamed separately from the text", async () => {
    const model = await servers.open(under, [
      reply.text("42.", { thinking: { text: "Six times seven.", signature }, usage: { reasoning: 7 } }),
    ]);
    const thoughts: string[] = [];
    const response = await model.complete(
      ask({ onDelta: ({ reasoning }) => reasoning && thoughts.push(reasoning) }),
    );
    expect(thoughts.join("")).toBe("Six times seven.");
    expect(response).toMatchObject({ text: "42.", reasoning: "Six times seven." });
  });
});

describe.each(wires)("$title", (under) => {
  test("thoughts are sent back to their provider in its format", async () => {
    const response = await think(under.title);
    const model = await servers.open(under, [reply.text("Done.")]);
    await model.complete(ask({ messages: [...hello, replay(response), ...results(response)] }));
    const turns = servers.requests[0]!.messages.filter(({ role }) => role === "assistant");
    const signed = { text: "Let me see.\n\nI list first.", signature };
    expect(turns.flatMap(({ thinking }) => thinking)).toEqual(
      {
        "OpenAI responses": [signed, { text: "And where?", signature: "c2Vjb25k" }],
        Anthropic: [signed, { text: "", signature: redacted }],
        Bedrock: [signed, { text: "", signature: redacted }],
        Google: [{ text: "", signature }],
      }[under.title] ?? [],
    );
    expect(turns.flatMap(({ toolCalls }) => toolCalls)).toHaveLength(2);
  });

  test("thoughts of another provider are not sent", async () => {
    const own = { Anthropic: ["Bedrock"], Bedrock: ["Anthropic"] }[under.title] ?? [];
    for (const other of wires.slice(1, 5)) {
      if (other.title === under.title) continue;
      const response = await think(other.title);
      const model = await servers.open(under, [reply.text("Done.")]);
      await model.complete(ask({ messages: [...hello, replay(response), ...results(response)] }));
      const sent = JSON.stringify(servers.requests[0]!.body);
      // Claude's signatures hold wherever Claude runs; a Gemini behind a proxy may want its own
      // back.
      if (!own.includes(other.title) && !(under.wire === "openai" && other.title === "Google"))
        expect(sent).not.toContain(signature);
      expect(sent).not.toContain(redacted);
      expect(sent).not.toContain("google-thought-signature");
    }
  });

  test("thoughts that the provider no longer accepts are left out", async () => {
    const response = await think(under.title);
    const words = {
      responses: "The encrypted content for item rs_0_0 could not be verified.",
      bedrock:
        "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
      anthropic: "messages.1.content.0: Invalid `signature` in `thinking` block",
      google: "Thought signature is not valid.",
      openai: "reasoning_content is not supported; unknown field reasoning content",
    }[under.wire];
    const model = await servers.open(under, [
      reply.error(
        400,
        under.wire === "bedrock"
          ? { message: words }
          : { error: { message: words, type: "x" }, type: "error" },
      ),
      reply.text("Anyway."),
    ]);
    expect(
      (await model.complete(ask({ messages: [...hello, replay(response), ...results(response)] }))).text,
    ).toBe("Anyway.");
    expect(servers.requests[1]!.messages.flatMap(({ thinking }) => thinking)).toEqual([]);
    const { body } = servers.requests[1]!;
    expect(JSON.stringify(body.thinking ?? body.additionalModelRequestFields ?? {})).not.toContain("enabled");
  });
});

test("a reasoning item of the Responses API keeps its parts, and precedes the call that followed it", async () => {
  const { reasoning, reasoningItems, toolCalls } = await think("OpenAI responses");
  expect(reasoning).toBe("Let me see.\n\nI list first.\n\nAnd where?");
  expect(reasoningItems).toEqual([
    {
      callsBefore: 0,
      item: { id: "rs_0_0", summary: ["Let me see.", "I list first."], encrypted_content: signature },
    },
    { callsBefore: 1, item: { id: "rs_0_3", summary: ["And where?"], encrypted_content: "c2Vjb25k" } },
  ]);
  const model = await servers.open(wires[1]!, [reply.text("Done.")]);
  const thought = {
    role: "assistant",
    text: "I list.",
    thinkingBlocks: [],
    reasoningItems,
    toolCalls,
  } as ModelMessage;
  await model.complete(ask({ messages: [...hello, thought] }));
  const { input, store, include } = servers.requests[0]!.body;
  const kinds = input.map((item: { type?: string; role?: string }) => item.type ?? item.role);
  expect(kinds).toEqual([
    "developer",
    "user",
    "reasoning",
    "assistant",
    "function_call",
    "reasoning",
    "function_call",
  ]);
  expect(input[2]).toEqual({
    type: "reasoning",
    id: "rs_0_0",
    encrypted_content: signature,
    summary: [
      { type: "summary_text", text: "Let me see." },
      { type: "summary_text", text: "I list first." },
    ],
  });
  expect([store, include]).toEqual([false, ["reasoning.encrypted_content"]]);
});

test("a thought without its encrypted form is not sent, and thoughts alone do not form a turn", async () => {
  const bare = { callsBefore: 0, item: { id: "rs_1", summary: ["hm"] } };
  const sealed = { callsBefore: 0, item: { id: "rs_2", summary: [], encrypted_content: "x" } };
  const model = await servers.open(wires[1]!, [reply.text("Done.")]);
  const turn = (text: string, item: typeof bare | typeof sealed): ModelMessage => ({
    role: "assistant",
    text,
    thinkingBlocks: [],
    reasoningItems: [item],
    toolCalls: [],
  });
  await model.complete(
    ask({ messages: [...hello, turn("Hm.", bare), ...hello, turn("", sealed), ...hello] }),
  );
  expect(JSON.stringify(servers.requests[0]!.body.input)).not.toContain("reasoning");
});

const router = wires.find(({ title }) => title === "OpenRouter")!;
const text = (text: string, more: object = {}) => ({
  type: "reasoning.text",
  text,
  format: "anthropic-claude-v1",
  index: 0,
  ...more,
});
const sealed = {
  type: "reasoning.encrypted",
  data: "c2VhbGVk",
  id: "rs_1",
  format: "openai-responses-v1",
  index: 1,
};

test("the details of OpenRouter's thoughts are sent back complete, with their turn, to their own model", async () => {
  const details = [
    [text("Let me ", { signature: null })],
    [text("see."), sealed],
    [text("Then.", { index: 2, signature: "c2ln" })],
  ];
  const calls = [{ name: "terminal", arguments: { command: "ls" } }];
  const first = await servers.open(router, [
    reply.toolCalls(calls, { reasoningDetails: details, thinking: { text: "Let me see." } }),
  ]);
  const response = await first.complete(ask());
  expect(response.reasoning).toBe("Let me see.");
  const messages = [...hello, replay(response), ...results(response)];
  const whole = [
    text("Let me see.", { signature: null }),
    sealed,
    text("Then.", { index: 2, signature: "c2ln" }),
  ];

  const model = await servers.open(router, [reply.text("Done.")]);
  await model.complete(ask({ messages }));
  const turns = servers.requests[0]!.body.messages.filter(
    ({ role }: { role: string }) => role === "assistant",
  );
  expect(turns).toMatchObject([
    { reasoning_details: whole, tool_calls: [{ function: { name: "terminal" } }] },
  ]);
  expect(turns[0]).not.toHaveProperty("reasoning_content");

  for (const other of [
    ...wires.filter((one) => one !== router),
    { ...router, name: "openrouter/openai/gpt-5" },
  ]) {
    const stranger = await servers.open(other, [reply.text("Done.")]);
    await stranger.complete(ask({ messages }));
    expect(JSON.stringify(servers.requests[0]!.body)).not.toMatch(
      /c2ln|c2VhbGVk|reasoning_details|openrouter-reasoning/,
    );
  }
});

test("details that OpenRouter refuses are left out; unfinished or malformed details are not stored", async () => {
  const given = await servers.open(router, [
    reply.text("Hm.", { reasoningDetails: [[text("Let me see.")]] }),
  ]);
  const response = await given.complete(ask());
  const messages = [...hello, replay(response), ...hello];
  const words = "Invalid reasoning_details in messages.1";
  const model = await servers.open(router, [
    reply.error(400, { error: { message: words } }),
    reply.text("Anyway."),
  ]);
  expect((await model.complete(ask({ messages }))).text).toBe("Anyway.");
  expect(JSON.stringify(servers.requests[1]!.body)).not.toContain("reasoning_details");

  const nonsense = [
    [7, null, "x", {}, { type: 7 }, { type: "reasoning.text", text: { deep: [] } }],
  ] as object[][];
  const endless = Array.from({ length: 30 }, () => [text("x".repeat(50_000))]);
  for (const reasoningDetails of [nonsense, endless]) {
    const one = await servers.open(router, [reply.text("Hm.", { reasoningDetails })]);
    const { text: said, thinkingBlocks } = await one.complete(ask());
    expect(said).toBe("Hm.");
    expect(JSON.stringify(thinkingBlocks).length).toBeLessThan(200);
  }
  for (const data of ["", "{", "null", "[]", '{"model":7,"details":[[]]}', '{"details":"x"}']) {
    const block = { type: "redacted_thinking" as const, data: `openrouter-reasoning:${data}` };
    const turn = { role: "assistant" as const, text: "Hm.", thinkingBlocks: [block], toolCalls: [] };
    const one = await servers.open(router, [reply.text("Done.")]);
    expect((await one.complete(ask({ messages: [...hello, turn, ...hello] }))).text).toBe("Done.");
  }
});

test("the phase of a Responses API text is sent back with it, to the same model", async () => {
  const calls = [{ name: "terminal", arguments: { command: "ls" } }];
  const first = await servers.open(wires[1]!, [
    reply.toolCalls(calls, { text: "I look.", phase: "commentary" }),
  ]);
  const response = await first.complete(ask());
  const messages = [...hello, replay(response), ...results(response)];
  const said = () =>
    servers.requests[0]!.body.input.filter(({ role }: { role?: string }) => role === "assistant");
  const model = await servers.open(wires[1]!, [reply.text("Done.", { phase: "final_answer" })]);
  const last = await model.complete(ask({ messages }));
  expect(said()).toMatchObject([{ content: "I look.", phase: "commentary" }]);
  const more = await servers.open(wires[1]!, [reply.text("Done.")]);
  await more.complete(ask({ messages: [...messages, replay(last), ...hello] }));
  expect(said()).toMatchObject([{ phase: "commentary" }, { content: "Done.", phase: "final_answer" }]);
  for (const other of [
    ...wires.filter((_, index) => index !== 1),
    { ...wires[1]!, name: "openai/gpt-5-mini" },
  ]) {
    const stranger = await servers.open(other, [reply.text("Done.")]);
    await stranger.complete(ask({ messages }));
    expect(JSON.stringify(servers.requests[0]!.body)).not.toMatch(/commentary|openai-phase/);
  }
});
