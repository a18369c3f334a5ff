import type { PlatformError } from "@sandpiper/core/errors";
import { afterEach, describe, expect, test } from "vitest";
import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "../test/support/model-server.ts";
import { parseAwsAccess } from "./aws.ts";
import { parseCallOptions, retryDelaysMs } from "./call-options.ts";
import type { Model, RetryNotice } from "./model.ts";
import { createOpenModel } from "./open.ts";

/** A client's fields for a model, except its address, and the resulting request. */

let server: ModelServer;
afterEach(() => server?.close());

const key = "sk-of-the-client";

async function open(
  model: string,
  llm: object,
  script: Script | Reply[] = [reply.text("Hi.")],
): Promise<Model> {
  server = await startModelServer(script);
  const options = parseCallOptions({ model, ...llm });
  return createOpenModel({ env: {}, times: { retryDelays: [1, 2] } })({
    model,
    apiKey: key,
    baseUrl: server.url,
    options,
  });
}

function call(model: Model, onRetry?: (notice: RetryNotice) => void) {
  return model.complete({
    system: ["You are an agent."],
    messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
    tools: [],
    signal: new AbortController().signal,
    ...(onRetry && { onRetry }),
  });
}

async function failure(model: Model): Promise<PlatformError> {
  return call(model).then(
    () => expect.fail("the call was expected to fail"),
    (error) => error,
  );
}

const full = { temperature: 0.25, top_p: 0.5, top_k: 7, seed: 42, max_output_tokens: 1234 };
const wires = {
  openai: "openai/gpt-4o",
  anthropic: "anthropic/claude-sonnet-4-5",
  google: "gemini/gemini-2.5-flash",
};
const names = [
  "temperature",
  "top_p",
  "topP",
  "top_k",
  "topK",
  "seed",
  "max_tokens",
  "max_completion_tokens",
  "maxOutputTokens",
];

/** The parameters of a request, wherever the wire puts them. */
function sent({ body } = server.requests[0]!) {
  const place = body.generationConfig ?? body;
  return Object.fromEntries(names.filter((name) => name in place).map((name) => [name, place[name]]));
}

describe.each(Object.entries(wires))("over the %s wire", (wire, name) => {
  test("sampling and limits are sent in the wire's format, and only those that are set", async () => {
    await call(await open(name, full));
    expect(sent()).toEqual(
      {
        openai: { temperature: 0.25, top_p: 0.5, seed: 42, max_tokens: 1234 },
        // Anthropic's endpoints refuse top_p together with temperature.
        anthropic: { temperature: 0.25, top_k: 7, max_tokens: 1234 },
        google: { temperature: 0.25, topP: 0.5, topK: 7, seed: 42, maxOutputTokens: 1234 },
      }[wire],
    );
    await server.close();
    const nothing = Object.fromEntries(Object.keys(full).map((field) => [field, null]));
    await call(
      await open(name, { ...nothing, extra_headers: null, timeout: null, num_retries: null, top_p: 1 }),
    );
    const { max_tokens: usual, ...rest } = sent();
    expect([rest, typeof usual]).toEqual([{}, wire === "anthropic" ? "number" : "undefined"]);
  });

  test("headers are sent, override the client's own, and are never part of an error", async () => {
    const extra_headers = { "X-Team": "planted-header", "User-AGENT": "mine/1", "X-Masked": "**********" };
    const model = await open(name, { extra_headers }, () =>
      reply.error(400, { error: { message: "bad team planted-header" } }),
    );
    const error = await failure(model);
    expect(server.requests[0]!.headers).toMatchObject({ "x-team": "planted-header", "user-agent": "mine/1" });
    expect(server.requests[0]!.headers).not.toHaveProperty("x-masked");
    expect(server.requests[0]!.apiKey).toBe(key);
    expect(error.message).toContain("bad team ***");
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toContain("planted-header");
  });

  test.each([
    [0, 1],
    [1, 1],
    [2, 2],
    [5, 5],
    [1_000_000, 20],
  ])("num_retries %i causes %i attempts, with the server's default waits", async (num_retries, attempts) => {
    const model = await open(name, { num_retries }, () => reply.error(503, { error: { message: "moving" } }));
    const waits: number[] = [];
    await expect(call(model, ({ delayMs }) => waits.push(delayMs))).rejects.toThrow("moving");
    expect(server.requests).toHaveLength(attempts);
    expect(waits).toEqual([1, ...Array(18).fill(2)].slice(0, attempts - 1));
  });

  test("a silent call ends after its timeout", async () => {
    const model = await open(name, { timeout: 1, num_retries: 0 }, () => reply.hang());
    const start = Date.now();
    expect((await failure(model)).message).toBe(
      `The model ${name} failed: the endpoint did not finish its answer for 1 s`,
    );
    expect(Date.now() - start).toBeLessThan(30_000);
    expect(await server.requests[0]!.finished).toBe(false);
  });

  test("a timeout of 0, or above the maximum of timers, does not limit a call", async () => {
    for (const timeout of [0, 1e9]) {
      expect((await call(await open(name, { timeout }))).text).toBe("Hi.");
      await server.close();
    }
  });

  test("prices and the context window override the catalogue's", async () => {
    const script = () => reply.text("Hi.", { usage: { prompt: 1000, completion: 100, cacheRead: 600 } });
    const facts = { input_cost_per_token: 0.001, output_cost_per_token: 0.01, max_input_tokens: 5000 };
    const model = await open(name, facts, script);
    const answer = await call(model);
    expect([model.contextWindow, answer.usage.context_window]).toEqual([5000, 5000]);
    expect(answer.cost).toBeCloseTo(1000 * 0.001 + 100 * 0.01, 10);
    await server.close();
    expect(
      (await call(await open(name, { input_cost_per_token: 0, output_cost_per_token: 0 }, script))).cost,
    ).toBe(0);
    await server.close();
    const extreme = await call(
      await open(name, { input_cost_per_token: 1e308, output_cost_per_token: 1e308 }, script),
    );
    expect(extreme.cost).toBeLessThan(1e9);
  });
});

test("OpenAI's reasoning models get no sampling parameters, and the limit under the name that they accept", async () => {
  await call(await open("openai/gpt-5", full));
  expect(sent()).toEqual({ seed: 42, max_completion_tokens: 1234 });
});

test.each([
  ["Host", "elsewhere.example"],
  ["content-length", "1"],
  ["Transfer-Encoding", "chunked"],
  ["a b", "planted-value"],
  ["", "planted-value"],
  ["X-Broken", "planted-value\r\nX-More: 1"],
  ["X-Wide", "planted-value-…"],
])(
  "the header %j with the value %j is refused before anything is sent, without its value",
  async (name, value) => {
    const error = await open("openai/gpt-4o", { extra_headers: { [name]: value } }).then(
      () => expect.fail("it was expected to fail"),
      (error: PlatformError) => error,
    );
    expect(error.code).toBe("ModelNotConfigured");
    expect(error.message).toContain(JSON.stringify(name));
    expect(error.message).not.toContain("planted");
    expect(server.requests).toEqual([]);
  },
);

test("a call with a key of the server's environment has the catalogue's price, regardless of the client", async () => {
  server = await startModelServer(() => reply.text("Hi.", { usage: { prompt: 1000, completion: 100 } }));
  const toServer: typeof fetch = (input, init) =>
    fetch(String(input).replace("https://api.anthropic.com", new URL(server.url).origin), init);
  const openModel = createOpenModel({ env: { ANTHROPIC_API_KEY: "sk-of-the-operator" }, fetch: toServer });
  const model = "anthropic/claude-sonnet-4-5";
  const options = parseCallOptions({ model, input_cost_per_token: 0, output_cost_per_token: 0 });
  expect((await call(openModel({ model, options }))).cost).toBeCloseTo((1000 * 3 + 100 * 15) / 1e6, 10);
  expect((await call(openModel({ model, apiKey: key, options }))).cost).toBe(0);
});

test("a client's fields for thinking, caching and tools become options, null if the endpoint decides", () => {
  expect(
    parseCallOptions({
      model: "m",
      reasoning_effort: "low",
      reasoning_summary: "auto",
      extended_thinking_budget: 4096,
      caching_prompt: false,
      prompt_cache_retention: "24h",
      native_tool_calling: false,
      disable_stop_word: true,
      disable_vision: true,
      max_message_chars: 1000,
      drop_params: false,
      litellm_extra_body: { a: 1 },
      api_mode: "responses",
      model_canonical_name: "gpt-5",
    }),
  ).toEqual({
    effort: "low",
    reasoningSummary: "auto",
    thinkingBudget: 4096,
    caching: false,
    cacheRetention: "24h",
    nativeTools: false,
    stopWord: false,
    vision: false,
    maxToolChars: 1000,
    dropParameters: false,
    extraBody: { a: 1 },
    apiMode: "responses",
    knownAs: "gpt-5",
  });
  const nothing = { reasoning_effort: null, extended_thinking_budget: null, prompt_cache_retention: null };
  expect(parseCallOptions({ model: "m", ...nothing })).toEqual({
    effort: null,
    thinkingBudget: null,
    cacheRetention: null,
  });
  // Fields that clients of all versions always send only repeat the defaults.
  expect(
    parseCallOptions({
      model: "m",
      reasoning_effort: "tremendous",
      api_mode: "auto",
      disable_vision: false,
      litellm_extra_body: {},
    }),
  ).toBeUndefined();
});

test.each([
  [{}, [8, 16, 32]],
  [
    { retry_min_wait: 8, retry_max_wait: 64, retry_multiplier: 8, num_retries: 5 },
    [8000, 16_000, 32_000, 64_000],
  ],
  [{ retry_min_wait: 1, retry_max_wait: 3, retry_multiplier: 1 }, [1000, 2000, 3000]],
  [{ retry_max_wait: 0 }, [0, 0, 0]],
  [{ retry_min_wait: 1e9, retry_max_wait: 1e9, num_retries: 2 }, [120_000]],
])("waits as %j specify", (llm, waits) => {
  expect(retryDelaysMs([8, 16, 32], parseCallOptions({ model: "m", ...llm }) ?? {})).toEqual(waits);
});

test("only OpenRouter receives the name of the calling application", () => {
  const given = { openrouter_site_url: "https://me.example", openrouter_app_name: "Mine" };
  const headers = { "HTTP-Referer": "https://me.example", "X-Title": "Mine" };
  expect(parseCallOptions({ model: "openrouter/x", ...given })).toEqual({ headers });
  expect(parseCallOptions({ model: "openai/x", ...given })).toBeUndefined();
});

test("stored Bedrock access is read without masks and empty fields", () => {
  const given = {
    aws_access_key_id: "AKIA",
    aws_secret_access_key: "**********",
    aws_session_token: "",
    aws_region_name: "eu-west-1",
  };
  expect(parseAwsAccess({ model: "m", ...given })).toEqual({ accessKeyId: "AKIA", region: "eu-west-1" });
  expect(parseAwsAccess({ model: "m", aws_region_name: null })).toBeUndefined();
});
