import { PlatformError } from "@sandpiper/core/errors";
import { afterEach, expect } from "vitest";
import type { CallOptions } from "../../src/call-options.ts";
import type { Model, ModelConfig, ModelRequest, ModelTool, RetryNotice } from "../../src/model.ts";
import { createOpenModel } from "../../src/open.ts";
import type { CallTimes } from "../../src/provider-model.ts";
import type { Wire } from "../../src/providers.ts";
import type { Dialect } from "./model-answer.ts";
import { type ModelServer, type Reply, type Script, startModelServer } from "./model-server.ts";

/**
 * What the suite of this folder runs over: every way in which models are reached, against a real
 * server that speaks it.
 */
export interface WireUnderTest {
  title: string;
  wire: Wire;
  /** The model's name in the settings. */
  name: string;
  dialect?: Dialect;
  /**
   * The provider's own address, which the test leads to the loopback; absent: the server's address
   * is configured.
   */
  origin?: string;
  config?: Partial<ModelConfig>;
  /** USD per million tokens of input, output and cached input. */
  price: readonly [number, number, number];
}

export const key = "sk-secret/0123456789+abc";
const unknown = [0, 0, 0] as const;

export const wires: WireUnderTest[] = [
  {
    title: "OpenAI chat",
    wire: "openai",
    name: "openai/gpt-4o",
    origin: "https://api.openai.com",
    price: [2.5, 10, 1.25],
  },
  {
    title: "OpenAI responses",
    wire: "responses",
    name: "openai/gpt-5",
    origin: "https://api.openai.com",
    price: [1.25, 10, 0.125],
  },
  { title: "Anthropic", wire: "anthropic", name: "anthropic/claude-sonnet-4-5", price: [3, 15, 0.3] },
  { title: "Google", wire: "google", name: "gemini/gemini-2.5-flash", price: [0.3, 2.5, 0.03] },
  {
    title: "Bedrock",
    wire: "bedrock",
    name: "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    config: {
      apiKey: undefined,
      aws: { accessKeyId: key, secretAccessKey: "aws/secret+0123456789", region: "eu-west-1" },
    },
    price: [3, 15, 0.3],
  },
  { title: "Ollama", wire: "openai", name: "ollama/qwen3:30b", dialect: "ollama", price: unknown },
  {
    title: "vLLM",
    wire: "openai",
    name: "hosted_vllm/meta-llama/Llama-3.3-70B",
    dialect: "vllm",
    price: unknown,
  },
  {
    title: "OpenRouter",
    wire: "openai",
    name: "openrouter/anthropic/claude-sonnet-4.5",
    dialect: "openrouter",
    price: [3, 15, 0.3],
  },
  { title: "LiteLLM proxy", wire: "openai", name: "litellm_proxy/gpt-5", price: [1.25, 10, 0.125] },
];

/** Bedrock's signing key: a slash ends the name of a signature's credential. */
export const keyOf = ({ wire }: WireUnderTest) => (wire === "bedrock" ? key.split("/")[0] : key);

export const tool: ModelTool = {
  name: "terminal",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

export interface Opening {
  times?: Partial<CallTimes>;
  options?: CallOptions;
  onRetry?: (notice: RetryNotice) => void;
}

/** A model server for each test, and models that call it. */
export function modelServers() {
  let server: ModelServer | undefined;
  afterEach(async () => {
    await server?.close();
    server = undefined;
  });
  return {
    get requests() {
      return server!.requests;
    },
    async open(
      under: WireUnderTest,
      script: Script | Reply[],
      { times, options, onRetry }: Opening = {},
    ): Promise<Model> {
      await server?.close();
      server = await startModelServer(script, under.dialect ? { dialect: under.dialect } : {});
      const { url } = server;
      const toServer: typeof fetch = (input, init) =>
        fetch(under.origin ? String(input).replace(under.origin, url) : input, init);
      const openModel = createOpenModel({
        env: {},
        fetch: toServer,
        times: { retryDelays: [1, 1, 1, 1], ...times },
        ...(onRetry && { onRetry }),
      });
      return openModel({
        model: under.name,
        apiKey: key,
        ...(!under.origin && { baseUrl: url }),
        ...under.config,
        ...(options && { options }),
      });
    },
  };
}

export function ask(more: Partial<ModelRequest> = {}): ModelRequest {
  return {
    system: ["You are an agent.", "Today is Monday."],
    messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }],
    tools: [tool],
    signal: new AbortController().signal,
    ...more,
  };
}

export async function failure(promise: Promise<unknown>): Promise<PlatformError> {
  const error = await promise.then(
    () => expect.fail("the call was expected to fail"),
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(PlatformError);
  return error as PlatformError;
}
