import { describe, expect, test } from "vitest";
import { reply } from "../../test/support/model-server.ts";
import { ask, modelServers, type WireUnderTest, wires } from "../../test/support/wires.ts";
import type { CallOptions } from "../call-options.ts";
import type { ModelMessage } from "../model.ts";

const servers = modelServers();
const [chat, responses, anthropic, google, bedrock] = wires as [
  WireUnderTest,
  WireUnderTest,
  WireUnderTest,
  WireUnderTest,
  WireUnderTest,
];

/** The body of a request with these options. */
async function sent(under: WireUnderTest, options: CallOptions, more: Parameters<typeof ask>[0] = {}) {
  const model = await servers.open(under, [reply.text("Hi.")], { options });
  await model.complete(ask(more));
  return servers.requests[0]!.body;
}

const named = (under: WireUnderTest, name: string): WireUnderTest => ({ ...under, name });

describe("how much a model thinks", () => {
  test("OpenAI's reasoning models get high effort by default, or the requested effort", async () => {
    expect((await sent(responses, {})).reasoning).toEqual({ effort: "high" });
    expect((await sent(responses, { effort: "low", reasoningSummary: "auto" })).reasoning).toEqual({
      effort: "low",
      summary: "auto",
    });
    expect((await sent(responses, { effort: null })).reasoning).toBeUndefined();
    expect(
      (await sent({ ...chat, name: "openai/o3" }, { effort: "medium", apiMode: "chat" })).reasoning_effort,
    ).toBe("medium");
    expect((await sent(wires.at(-1)!, { effort: "low" })).reasoning_effort).toBe("low");
  });

  test("models that are not known to reason get no reasoning parameters", async () => {
    for (const under of [chat, wires[5]!, wires[6]!])
      expect(await sent(under, { effort: "high" })).not.toHaveProperty("reasoning_effort");
    expect(await sent(named(anthropic, "anthropic/claude-3-5-haiku-latest"), {})).not.toHaveProperty(
      "thinking",
    );
    expect((await sent(named(google, "gemini/gemini-2.0-flash"), {})).generationConfig).not.toHaveProperty(
      "thinkingConfig",
    );
  });

  test("Claude models before 4.6 get a thinking budget that leaves room for the answer", async () => {
    const body = await sent(anthropic, {});
    expect(body.thinking).toEqual({ type: "enabled", budget_tokens: 32_000 });
    expect(body.max_tokens).toBeGreaterThan(body.thinking.budget_tokens);
    expect(servers.requests[0]!.headers["anthropic-beta"]).toContain("interleaved-thinking");
    expect((await sent(anthropic, { thinkingBudget: 2_000 })).thinking.budget_tokens).toBe(2_000);
    expect(
      (await sent(named(anthropic, "anthropic/claude-opus-4-1"), { thinkingBudget: 200_000 })).thinking
        .budget_tokens,
    ).toBe(16_000);
    const onBedrock = await sent(bedrock, {});
    expect(onBedrock.additionalModelRequestFields.thinking).toEqual({
      type: "enabled",
      budget_tokens: 32_000,
    });
    expect(onBedrock.inferenceConfig.maxTokens).toBe(48_000);
  });

  test("Claude models since 4.6 get an effort", async () => {
    const body = await sent(named(anthropic, "anthropic/claude-opus-4-6"), {
      effort: "medium",
      thinkingBudget: 200_000,
    });
    expect(body.thinking).toMatchObject({ type: "adaptive" });
    expect(body.output_config).toEqual({ effort: "medium" });
  });

  test.each<[string, CallOptions]>([
    ["no effort", { effort: "none" }],
    ["an effort that the endpoint decides", { effort: null }],
    ["no budget", { thinkingBudget: 0 }],
    ["a temperature, which Claude takes only without", { temperature: 0.2 }],
  ])("%s means no thinking", async (_, options) => {
    expect((await sent(anthropic, options)).thinking).toBeUndefined();
    expect((await sent(bedrock, options)).additionalModelRequestFields).toBeUndefined();
  });

  test("Gemini is asked to include its thoughts", async () => {
    const { thinkingConfig } = (await sent(google, { effort: "low" })).generationConfig;
    expect(thinkingConfig).toMatchObject({ includeThoughts: true, thinkingBudget: expect.any(Number) });
    expect((await sent(google, { effort: null })).generationConfig?.thinkingConfig).toBeUndefined();
  });
});

describe("prompt caching", () => {
  const later: ModelMessage[] = [
    ...ask().messages,
    { role: "assistant", text: "Yes?", thinkingBlocks: [], toolCalls: [] },
    { role: "user", content: [{ type: "text", text: "More" }] },
  ];

  test("Claude models get a cache mark after the first system block and after the newest content", async () => {
    const claude = await sent(anthropic, {}, { messages: later });
    expect(claude.system.map((block: object) => "cache_control" in block)).toEqual([true, false]);
    expect(claude.messages.at(-1).content.at(-1)).toHaveProperty("cache_control");
    expect(JSON.stringify(claude).match(/cache_control/g)).toHaveLength(2);
    const onBedrock = await sent(bedrock, {}, { messages: later });
    expect(onBedrock.system.map((block: object) => "cachePoint" in block)).toEqual([false, true, false]);
    expect(onBedrock.messages.at(-1).content.at(-1)).toEqual({ cachePoint: { type: "default" } });
    expect(
      JSON.stringify(await sent(wires[7]!, {}, { messages: later })).match(/cache_control/g),
    ).toHaveLength(2);
  });

  test.each([anthropic, bedrock, wires[7]!, responses, chat])("$title: off means off", async (under) => {
    const body = await sent(under, { caching: false }, { cacheKey: "conversation-1" });
    expect(JSON.stringify(body)).not.toMatch(/cache_control|cachePoint|prompt_cache/);
  });

  test("OpenAI caches prompts under the conversation's id, for some models for a day", async () => {
    const request = { cacheKey: "conversation-1" };
    expect(await sent(responses, {}, request)).toMatchObject({
      prompt_cache_key: "conversation-1",
      prompt_cache_retention: "24h",
    });
    const mini = await sent(named(responses, "openai/gpt-5-mini"), {}, request);
    expect(mini).toMatchObject({ prompt_cache_key: "conversation-1" });
    expect(mini).not.toHaveProperty("prompt_cache_retention");
    expect(await sent(named(chat, "openai/gpt-4.1"), { cacheRetention: null }, request)).not.toHaveProperty(
      "prompt_cache_retention",
    );
    expect(await sent(named(chat, "openai/gpt-4.1"), {}, request)).toMatchObject({
      prompt_cache_retention: "24h",
    });
    // Elsewhere the fields are unknown, or refused.
    expect(JSON.stringify(await sent(wires.at(-1)!, {}, request))).not.toContain("prompt_cache");
  });

  test.each([
    ["cached content is too small: at least 1024 tokens are needed", anthropic],
    [
      "You invoked an unsupported model or your request did not allow prompt caching. See cachePoint.",
      bedrock,
    ],
    ["Unknown parameter: 'prompt_cache_retention'", responses],
    ["messages.0.content.0.cache_control: Extra inputs are not permitted", wires[7]!],
  ])("a refused reasoning parameter is left out in a second call: %s", async (words, under) => {
    const body =
      under.wire === "bedrock"
        ? { message: words }
        : { type: "error", error: { type: "invalid_request_error", message: words } };
    const model = await servers.open(under, [reply.error(400, body), reply.text("Fine.")]);
    expect((await model.complete(ask({ cacheKey: "c" }))).text).toBe("Fine.");
    expect(servers.requests).toHaveLength(2);
    expect(JSON.stringify(servers.requests[1]!.body)).not.toMatch(/cache_control|cachePoint|prompt_cache/);
  });

  test("cache writes are counted and billed on Bedrock, too", async () => {
    const model = await servers.open(bedrock, [
      reply.text("ok", { usage: { prompt: 1000, completion: 0, cacheRead: 100, cacheWrite: 500 } }),
    ]);
    const { usage, cost } = await model.complete(ask());
    expect(usage).toMatchObject({ prompt_tokens: 1000, cache_read_tokens: 100, cache_write_tokens: 500 });
    expect(cost).toBeCloseTo((400 * 3 + 100 * 0.3 + 500 * 3.75) / 1e6, 10);
  });
});

describe.each(wires)("$title", (under) => {
  test("a client's extra fields are sent and do not replace fields of the request", async () => {
    const extraBody = { guardrail: { id: "g1" }, model: "another", messages: [], stream: false };
    const body = await sent(under, { extraBody });
    expect(body.guardrail ?? body.additionalModelRequestFields.guardrail).toEqual({ id: "g1" });
    expect(body.model).not.toBe("another");
    expect(servers.requests[0]!.messages).toHaveLength(1);
  });

  test("the middle of tool texts longer than max_message_chars is left out", async () => {
    const messages: ModelMessage[] = [
      ...ask().messages,
      {
        role: "assistant",
        text: "",
        thinkingBlocks: [],
        toolCalls: [{ id: "a", name: "terminal", arguments: "{}", origin: "completion" }],
      },
      {
        role: "tool",
        toolCallId: "a",
        toolName: "terminal",
        content: [{ type: "text", text: "y".repeat(5000) }],
        isError: false,
      },
    ];
    await sent(under, { maxToolChars: 500 }, { messages });
    expect(servers.requests[0]!.messages.at(-1)!.text).toHaveLength(500);
    await sent(under, { maxToolChars: 1 }, { messages });
    expect(servers.requests[0]!.messages.at(-1)!.text).toContain("4999 characters left out");
  });
});
