import { PlatformError } from "@sandpiper/core/errors";
import { describe, expect, test } from "vitest";
import type { ModelConfig } from "./model.ts";
import { normaliseBaseUrl, resolveModel } from "./resolve.ts";

const env = {
  OPENAI_API_KEY: "env-openai",
  ANTHROPIC_API_KEY: "env-anthropic",
  GOOGLE_GENERATIVE_AI_API_KEY: "env-google",
  OPENROUTER_API_KEY: "env-openrouter",
};

function refusal(config: ModelConfig, environment = {}): string {
  try {
    resolveModel(config, environment);
  } catch (error) {
    expect(error).toBeInstanceOf(PlatformError);
    expect((error as PlatformError).code).toBe("ModelNotConfigured");
    return (error as PlatformError).message;
  }
  return expect.fail("the model was expected to be refused");
}

test.each([
  ["openai/gpt-5", "responses", "gpt-5", "https://api.openai.com/v1", "env-openai"],
  ["codex-mini-latest", "responses", "codex-mini-latest", "https://api.openai.com/v1", "env-openai"],
  ["openai/responses/gpt-4.1", "responses", "gpt-4.1", "https://api.openai.com/v1", "env-openai"],
  ["gpt-4o", "openai", "gpt-4o", "https://api.openai.com/v1", "env-openai"],
  ["o3", "responses", "o3", "https://api.openai.com/v1", "env-openai"],
  [
    "anthropic/claude-sonnet-4-5",
    "anthropic",
    "claude-sonnet-4-5",
    "https://api.anthropic.com/v1",
    "env-anthropic",
  ],
  ["claude-opus-4-5", "anthropic", "claude-opus-4-5", "https://api.anthropic.com/v1", "env-anthropic"],
  [
    "gemini/gemini-2.5-pro",
    "google",
    "gemini-2.5-pro",
    "https://generativelanguage.googleapis.com/v1beta",
    "env-google",
  ],
  [
    "google/gemini-2.5-pro",
    "google",
    "gemini-2.5-pro",
    "https://generativelanguage.googleapis.com/v1beta",
    "env-google",
  ],
  [
    "gemini-2.5-pro",
    "google",
    "gemini-2.5-pro",
    "https://generativelanguage.googleapis.com/v1beta",
    "env-google",
  ],
  [
    "openrouter/anthropic/claude-opus-4.5",
    "openai",
    "anthropic/claude-opus-4.5",
    "https://openrouter.ai/api/v1",
    "env-openrouter",
  ],
  ["ollama/qwen3:30b", "openai", "qwen3:30b", "http://127.0.0.1:11434/v1", undefined],
] as const)("%s goes over the %s wire as %s", (model, wire, modelId, baseUrl, apiKey) => {
  expect(resolveModel({ model }, env)).toEqual({
    name: model,
    provider: expect.any(String),
    wire,
    modelId,
    baseUrl,
    apiKey,
  });
});

describe("behind a base URL", () => {
  const baseUrl = "https://models.example.com";

  test.each([
    ["openai/gpt-5", "openai", "gpt-5"],
    ["openai/responses/gpt-5", "responses", "gpt-5"],
    ["litellm_proxy/responses/team/gpt", "responses", "team/gpt"],
    ["litellm_proxy/team/sonnet", "openai", "team/sonnet"],
    ["meta-llama/Llama-3.3-70B", "openai", "meta-llama/Llama-3.3-70B"],
    ["claude-sonnet-4-5", "openai", "claude-sonnet-4-5"],
    ["anything", "openai", "anything"],
    ["anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"],
    ["gemini/gemini-2.5-pro", "google", "gemini-2.5-pro"],
  ])("%s goes over the %s wire as %s", (model, wire, modelId) => {
    expect(resolveModel({ model, baseUrl, apiKey: "k" }, {})).toMatchObject({ wire, modelId });
  });

  test("a key of the server's environment is not sent to a host that a user chose", () => {
    expect(refusal({ model: "openai/gpt-5", baseUrl }, env)).toContain("set llm_api_key");
    expect(
      refusal(
        { model: "anthropic/claude-sonnet-4-5", baseUrl: "https://api.anthropic.com.evil.example" },
        env,
      ),
    ).toContain("evil.example");
  });

  test("a key of the environment goes to the provider's own address written out", () => {
    expect(resolveModel({ model: "openai/gpt-5", baseUrl: "https://api.openai.com/v1/" }, env).apiKey).toBe(
      "env-openai",
    );
  });

  test.each(["http://localhost:8000", "http://127.0.0.1:11434/v1", "http://[::1]:8080"])(
    "%s needs no key",
    (local) => {
      expect(resolveModel({ model: "openai/x", baseUrl: local }, env).apiKey).toBeUndefined();
    },
  );

  test.each([
    ["https://h.example", "openai", "openai", "https://h.example/v1"],
    ["https://h.example/", "openai", "openai", "https://h.example/v1"],
    ["https://h.example/v1///", "openai", "openai", "https://h.example/v1"],
    ["https://h.example/api/v1", "openai", "openai", "https://h.example/api/v1"],
    ["https://h.example/v1/chat/completions", "openai", "openai", "https://h.example/v1"],
    ["https://h.example/v1/messages", "anthropic", "anthropic", "https://h.example/v1"],
    ["https://h.example", "gemini", "google", "https://h.example/v1beta"],
    ["https://me.openai.azure.com/", "azure", "openai", "https://me.openai.azure.com/openai/v1"],
  ] as const)(
    "%s for %s becomes an address that paths can be appended to",
    (text, provider, wire, expected) => {
      expect(normaliseBaseUrl(text, provider, wire)).toBe(expected);
    },
  );

  test.each(["not an address", "ftp://h.example", "https://user:secret@h.example"])(
    "%s is refused without being repeated",
    (text) => {
      const message = refusal({ model: "openai/x", baseUrl: text });
      expect(message).toContain("llm_base_url");
      expect(message).not.toContain("secret");
    },
  );
});

test.each([
  ["gpt-5", "chat", "openai"],
  ["gpt-4o", "responses", "responses"],
  ["openai/responses/gpt-5", "chat", "openai"],
  ["anthropic/claude-sonnet-4-5", "responses", "anthropic"],
] as const)("%s with api_mode %s goes over the %s wire", (model, apiMode, wire) => {
  expect(resolveModel({ model, options: { apiMode } }, env)).toMatchObject({ wire });
});

describe("Bedrock", () => {
  const keys = {
    AWS_ACCESS_KEY_ID: "AKIA-env",
    AWS_SECRET_ACCESS_KEY: "env-secret",
    AWS_SESSION_TOKEN: "env-session",
  };
  const claude = "anthropic.claude-sonnet-4-5-20250929-v1:0";

  test.each([
    [`bedrock/${claude}`, claude, "us-east-1"],
    [`bedrock/converse/us.${claude}`, `us.${claude}`, "us-east-1"],
    [`bedrock/eu-central-1/${claude}`, claude, "eu-central-1"],
    [`bedrock/converse/us-gov-west-1/${claude}`, claude, "us-gov-west-1"],
  ])("%s is %s in %s", (model, modelId, region) => {
    expect(resolveModel({ model }, keys)).toEqual({
      name: model,
      provider: "bedrock",
      wire: "bedrock",
      modelId,
      baseUrl: `https://bedrock-runtime.${region}.amazonaws.com`,
      apiKey: undefined,
      aws: {
        region,
        access: { accessKeyId: "AKIA-env", secretAccessKey: "env-secret", sessionToken: "env-session" },
      },
    });
  });

  test("a user's stored access overrides the environment, and an API key overrides both", () => {
    const aws = { accessKeyId: "AKIA-mine", secretAccessKey: "mine", region: "eu-west-1" };
    const model = `bedrock/${claude}`;
    expect(resolveModel({ model, aws }, keys).aws).toEqual({
      region: "eu-west-1",
      access: { accessKeyId: "AKIA-mine", secretAccessKey: "mine" },
    });
    expect(resolveModel({ model, apiKey: "bearer", aws }, keys)).toMatchObject({
      apiKey: "bearer",
      aws: { region: "eu-west-1" },
    });
    expect(resolveModel({ model, apiKey: "bearer", aws }, keys).aws).not.toHaveProperty("access");
    const env = { ...keys, AWS_BEARER_TOKEN_BEDROCK: "env-bearer", AWS_REGION: "ap-south-1" };
    expect(resolveModel({ model }, env)).toMatchObject({
      apiKey: "env-bearer",
      aws: { region: "ap-south-1" },
    });
  });

  test("keys of the environment go to Amazon's own address only", () => {
    const model = `bedrock/${claude}`;
    for (const config of [
      { baseUrl: "https://evil.example" },
      { aws: { endpoint: "https://evil.example" } },
    ]) {
      expect(refusal({ model, ...config }, { ...keys, AWS_BEARER_TOKEN_BEDROCK: "b" })).toContain(
        "Amazon's own address only",
      );
    }
    expect(refusal({ model, aws: { region: "x.evil.example/#" } }, keys)).toContain("aws_region_name");
    expect(refusal({ model }, {})).toContain("AWS_BEARER_TOKEN_BEDROCK");
  });
});

describe("the missing setting is named", () => {
  test("no model", () => {
    expect(refusal({ model: " " })).toContain("set llm_model (and llm_api_key) by POST /api/settings");
  });

  test("no key", () => {
    const message = refusal({ model: "anthropic/claude-sonnet-4-5" });
    expect(message).toContain("llm_api_key");
    expect(message).toContain("ANTHROPIC_API_KEY");
  });

  test("an unknown provider without a base URL", () => {
    expect(refusal({ model: "acme/fast" })).toContain("llm_base_url");
    expect(refusal({ model: "fast" })).toContain("provider/model");
    expect(refusal({ model: "constructor/x" })).toContain("names no provider");
    expect(refusal({ model: "opnai/gpt-5" })).toContain("known here (did you mean openai?): write it as");
  });

  test("a provider that has no address of its own", () => {
    expect(refusal({ model: "litellm_proxy/x", apiKey: "k" })).toContain("needs llm_base_url");
  });
});

test("a configured key overrides the environment, and is trimmed", () => {
  expect(resolveModel({ model: "gpt-5", apiKey: " sk-mine\n" }, env).apiKey).toBe("sk-mine");
});

test("the default of a client without a key says that no model is configured", () => {
  for (const model of ["gpt-5.5", "gpt-5.6"]) {
    expect(() => resolveModel({ model }, {})).toThrow(
      new RegExp(`^No model is configured, and the default ${model} has no key: set llm_model`),
    );
    expect(resolveModel({ model }, { OPENAI_API_KEY: "sk-x" })).toMatchObject({ apiKey: "sk-x" });
  }
  expect(() => resolveModel({ model: "gpt-5" }, {})).toThrow(/^No key is configured for the model gpt-5:/);
});
