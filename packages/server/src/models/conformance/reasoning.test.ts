import { describe, expect, test } from "vitest";
import { type Answer, reply } from "../../../test/support/model-server.ts";
import type { ModelMessage, ModelResponse } from "../model.ts";
import { ask, modelServers, wires } from "./wires.ts";

const servers = modelServers();

/** The turn that a response becomes in the next request, after it was stored. */
function replay({ text, reasoning, thinkingBlocks, reasoningItems, toolCalls }: ModelResponse): ModelMessage {
  return JSON.parse(JSON.stringify({ role: "assistant", text, reasoning, thinkingBlocks, reasoningItems, toolCalls }));
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
    { id: "toolu_2", name: "terminal", arguments: { command: "pwd" }, thinking: { text: "And where?", signature: "c2Vjb25k" } },
  ],
};

async function think(title: string): Promise<ModelResponse> {
  const model = await servers.open(wires.find((under) => under.title === title)!, [reply.answer(thinker)]);
  return model.complete(ask());
}

// OpenAI tells its models' thoughts by responses only.
describe.each(wires.slice(1))("$title", (under) => {
  test("reasoning is streamed apart from the text", async () => {
    const model = await servers.open(under, [
      reply.text("42.", { thinking: { text: "Six times seven.", signature }, usage: { reasoning: 7 } }),
    ]);
    const thoughts: string[] = [];
    const response = await model.complete(ask({ onDelta: ({ reasoning }) => reasoning && thoughts.push(reasoning) }));
    expect(thoughts.join("")).toBe("Six times seven.");
    expect(response).toMatchObject({ text: "42.", reasoning: "Six times seven." });
  });
});

describe.each(wires)("$title", (under) => {
  test("thoughts come back to who thought them, as it wants them", async () => {
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
      // Claude's signatures hold wherever Claude runs; a Gemini behind a proxy may want its own back.
      if (!own.includes(other.title) && !(under.wire === "openai" && other.title === "Google"))
        expect(sent).not.toContain(signature);
      expect(sent).not.toContain(redacted);
      expect(sent).not.toContain("google-thought-signature");
    }
  });

  test("thoughts that the provider does not take back any more are left out", async () => {
    const response = await think(under.title);
    const words = {
      responses: "The encrypted content for item rs_0_0 could not be verified.",
      bedrock: "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
      anthropic: "messages.1.content.0: Invalid `signature` in `thinking` block",
      google: "Thought signature is not valid.",
      openai: "reasoning_content is not supported; unknown field reasoning content",
    }[under.wire];
    const model = await servers.open(under, [
      reply.error(400, under.wire === "bedrock" ? { message: words } : { error: { message: words, type: "x" }, type: "error" }),
      reply.text("Anyway."),
    ]);
    expect((await model.complete(ask({ messages: [...hello, replay(response), ...results(response)] }))).text).toBe("Anyway.");
    expect(servers.requests[1]!.messages.flatMap(({ thinking }) => thinking)).toEqual([]);
    const { body } = servers.requests[1]!;
    expect(JSON.stringify(body.thinking ?? body.additionalModelRequestFields ?? {})).not.toContain("enabled");
  });
});

test("a thought of responses keeps its parts, and stands before the call that followed it", async () => {
  const { reasoning, reasoningItems, toolCalls } = await think("OpenAI responses");
  expect(reasoning).toBe("Let me see.\n\nI list first.\n\nAnd where?");
  expect(reasoningItems).toEqual([
    { callsBefore: 0, item: { id: "rs_0_0", summary: ["Let me see.", "I list first."], encrypted_content: signature } },
    { callsBefore: 1, item: { id: "rs_0_3", summary: ["And where?"], encrypted_content: "c2Vjb25k" } },
  ]);
  const model = await servers.open(wires[1]!, [reply.text("Done.")]);
  const thought = { role: "assistant", text: "I list.", thinkingBlocks: [], reasoningItems, toolCalls } as ModelMessage;
  await model.complete(ask({ messages: [...hello, thought] }));
  const { input, store, include } = servers.requests[0]!.body;
  const kinds = input.map((item: { type?: string; role?: string }) => item.type ?? item.role);
  expect(kinds).toEqual(["developer", "user", "reasoning", "assistant", "function_call", "reasoning", "function_call"]);
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

test("a thought without its encrypted form is not sent, and thoughts alone are no turn", async () => {
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
  await model.complete(ask({ messages: [...hello, turn("Hm.", bare), ...hello, turn("", sealed), ...hello] }));
  expect(JSON.stringify(servers.requests[0]!.body.input)).not.toContain("reasoning");
});
