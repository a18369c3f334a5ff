import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { reply } from "../../test/support/model-server.ts";
import {
  ask,
  failure,
  key,
  keyOf,
  modelServers,
  type WireUnderTest,
  wires,
} from "../../test/support/wires.ts";
import { isContextExceeded } from "../failure.ts";
import type { RetryNotice } from "../model.ts";
import { createOpenModel } from "../open.ts";

const servers = modelServers();

/** An error in the shape in which the wire's provider writes it. */
function refusal(
  { wire, dialect }: WireUnderTest,
  message: string,
  more: { type?: string; code?: string } = {},
): unknown {
  if (wire === "bedrock") return { message };
  if (wire === "anthropic")
    return { type: "error", error: { type: more.type ?? "invalid_request_error", message } };
  if (wire === "google") return { error: { code: 400, message, status: "INVALID_ARGUMENT" } };
  if (dialect === "vllm")
    return { object: "error", message, type: "BadRequestError", param: null, code: 400 };
  if (dialect === "ollama") return { error: message };
  return {
    error: { message, type: more.type ?? "invalid_request_error", param: null, code: more.code ?? null },
  };
}

/** A port that was free a moment ago. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** A prompt that is too long, in the words of those who are reached over a wire. */
const tooLong: Record<string, string[]> = {
  "OpenAI chat": [
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
  ],
  "OpenAI responses": [
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
  ],
  Anthropic: [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
  ],
  Google: ["The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."],
  Bedrock: [
    "Input is too long for requested model.",
    "The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum",
  ],
  Ollama: [
    "the input length exceeds the context length",
    "the request exceeds the available context size, try increasing it",
  ],
  vLLM: [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
  ],
  OpenRouter: [
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens.",
  ],
  "LiteLLM proxy": [
    "litellm.ContextWindowExceededError: litellm.BadRequestError: too much",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  ],
};

describe.each(wires)("$title", (under) => {
  test.each([
    ["seconds", { "retry-after": "7" }, 7000, 7000],
    ["milliseconds", { "retry-after-ms": "1500", "retry-after": "7" }, 1500, 1500],
    ["a date", { "retry-after": new Date(Date.now() + 110_000).toUTCString() }, 50_000, 110_000],
    ["nonsense", { "retry-after": "soon" }, 60_000, 60_000],
  ])("after 429 it waits as long as Retry-After specifies, as %s", async (_, headers, least, most) => {
    const stop = new AbortController();
    const notices: RetryNotice[] = [];
    const onRetry = (notice: RetryNotice) => {
      notices.push(notice);
      stop.abort(new Error("seen"));
    };
    const script = [reply.error(429, refusal(under, "slow down"), headers)];
    const model = await servers.open(under, script, { times: { retryDelays: [60_000] }, onRetry });
    await expect(model.complete(ask({ signal: stop.signal }))).rejects.toThrow("seen");
    expect(notices).toMatchObject([
      { model: under.name, attempt: 1, reason: expect.stringContaining("slow down") },
    ]);
    expect(notices[0]!.delayMs).toBeGreaterThanOrEqual(least);
    expect(notices[0]!.delayMs).toBeLessThanOrEqual(most);
  });

  test("a provider's request to wait for minutes is reported at once instead of waiting", async () => {
    const model = await servers.open(under, [
      reply.error(429, refusal(under, "come back later"), { "retry-after": "3600" }),
    ]);
    expect((await failure(model.complete(ask()))).message).toContain("come back later");
    expect(servers.requests).toHaveLength(1);
  });

  test.each([500, 503, 529])(
    "status %i is retried, each attempt is reported, and the call then succeeds",
    async (status) => {
      const notices: RetryNotice[] = [];
      const model = await servers.open(under, ({ index }) =>
        index < 2
          ? reply.error(status, refusal(under, "overloaded", { type: "overloaded_error" }))
          : reply.text("Here."),
      );
      expect((await model.complete(ask({ onRetry: (notice) => notices.push(notice) }))).text).toBe("Here.");
      expect(notices.map(({ attempt }) => attempt)).toEqual([1, 2]);
    },
  );

  test("a server that keeps failing causes ModelFailed with its message after five attempts", async () => {
    const model = await servers.open(under, () => reply.error(503, refusal(under, "we are moving house")));
    const error = await failure(model.complete(ask()));
    expect(error.code).toBe("ModelFailed");
    expect(error.message).toBe(
      `The model ${under.name} failed after 5 attempts (HTTP 503): we are moving house`,
    );
    expect(servers.requests).toHaveLength(5);
  });

  test.each([400, 401, 403, 404])("status %i is not retried", async (status) => {
    const model = await servers.open(under, () => reply.error(status, refusal(under, "no")));
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain(`HTTP ${status}`);
    expect(servers.requests).toHaveLength(1);
  });

  test("an exhausted quota is not waited for", async () => {
    const words = refusal(under, "You exceeded your current quota: insufficient_quota", {
      code: "insufficient_quota",
    });
    const model = await servers.open(under, () => reply.error(429, words));
    expect((await failure(model.complete(ask()))).message).toContain("quota");
    expect(servers.requests).toHaveLength(1);
  });

  test("a refused key is never part of the message, however the endpoint echoes it", async () => {
    const echo = keyOf(under)!;
    const text = `bad key ${echo}, ${encodeURIComponent(echo)} or ${Buffer.from(echo).toString("base64")}`;
    const model = await servers.open(
      { ...under, ...(under.wire === "bedrock" && { config: { apiKey: echo } }) },
      () => reply.error(401, refusal(under, text)),
    );
    const error = await failure(model.complete(ask()));
    expect(error.message).toContain("bad key ***, *** or ***");
    expect(error.message).toContain("check llm_api_key");
    expect(`${error.stack} ${JSON.stringify(error)} ${error.cause}`).not.toContain(echo);
  });

  test("a key that does not fit into a header is reported as such", async () => {
    const model = await servers.open({ ...under, config: { apiKey: "sk-…" } }, []);
    expect((await failure(model.complete(ask()))).message).toContain(
      "the API key or a header holds a character",
    );
    expect(servers.requests).toEqual([]);
  });

  test.each(tooLong[under.title]!)("a prompt that is too long is recognised: %s", async (words) => {
    const model = await servers.open(under, () => reply.error(400, refusal(under, words)));
    const error = await failure(model.complete(ask()));
    expect([error.code, isContextExceeded(error)]).toEqual(["ContextWindowExceeded", true]);
    expect(servers.requests).toHaveLength(1);
  });

  test("a prompt that is too long in bytes is recognised, too", async () => {
    const model = await servers.open(under, () => reply.error(413, refusal(under, "Request too large")));
    expect(isContextExceeded(await failure(model.complete(ask())))).toBe(true);
  });

  test("a rate limit on tokens is not mistaken for a prompt that is too long", async () => {
    const script = () => reply.error(429, refusal(under, "too many tokens per minute"));
    const model = await servers.open(under, script, { times: { retryDelays: [] } });
    expect(isContextExceeded(await failure(model.complete(ask())))).toBe(false);
  });

  test("a redirect is refused, so that the key stays with its host", async () => {
    const model = await servers.open(under, () =>
      reply.error(307, "moved", { location: "/elsewhere/v1/chat/completions" }),
    );
    expect((await failure(model.complete(ask()))).message).toContain("HTTP 307");
    expect(servers.requests).toHaveLength(1);
  });

  test("an endpoint that refuses connections is retried sooner than a busy endpoint, and named", async () => {
    const waits: number[] = [];
    const origin = `http://127.0.0.1:${await closedPort()}`;
    const openModel = createOpenModel({
      env: {},
      times: { retryDelays: [8, 16] },
      fetch: (_, init) => fetch(origin, init),
    });
    const model = openModel({
      model: under.name,
      apiKey: key,
      ...(!under.origin && { baseUrl: origin }),
      ...under.config,
    });
    const error = await failure(model.complete(ask({ onRetry: ({ delayMs }) => waits.push(delayMs) })));
    expect(waits).toEqual([2, 4]);
    expect(error.message).toMatch(/failed after 3 attempts: .*ECONNREFUSED/);
  });

  test.each([
    "temperature is deprecated for this model",
    "Unsupported parameter: 'temperature' is not supported with this model.",
  ])("a parameter that the endpoint refuses is left out from then on: %s", async (words) => {
    const model = await servers.open(
      under,
      ({ body }) =>
        JSON.stringify(body).includes('"temperature"')
          ? reply.error(400, refusal(under, words))
          : reply.text("Now."),
      { options: { temperature: 0.5 } },
    );
    expect((await model.complete(ask())).text).toBe("Now.");
    const count = servers.requests.length;
    expect((await model.complete(ask())).text).toBe("Now.");
    expect(servers.requests).toHaveLength(count + 1);
  });
});

test("with drop_params off, a refused parameter is reported", async () => {
  const [chat] = wires;
  const script = () => reply.error(400, refusal(chat!, "Unsupported parameter: 'temperature'"));
  const model = await servers.open(chat!, script, { options: { temperature: 0.5, dropParameters: false } });
  expect((await failure(model.complete(ask()))).message).toContain("Unsupported parameter");
  expect(servers.requests).toHaveLength(1);
});
