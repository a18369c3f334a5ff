import { expect, test } from "vitest";
import { maskSecrets } from "./mask-secrets.ts";

const mask = "**********";

/** Every kind of MCP authentication with a secret. */
const servers = (value: string) => ({
  b: { auth: { strategy: "bearer", value } },
  k: { auth: { strategy: "api_key", value, header_name: "X-Key" } },
  p: { auth: { strategy: "basic", username: "ada", password: value } },
  h: { auth: { strategy: "header", headers: { "X-A": value } } },
  o: {
    auth: { strategy: "oauth2", authentication: { client_id: value }, state: { tokens: { access: value } } },
  },
});

test("secrets are masked in every position, and other values stay", () => {
  const given = {
    llm: {
      model: "openai/x",
      api_key: "k",
      aws_secret_access_key: "k",
      max_output_tokens: 5,
      extra_headers: { "X-A": "v" },
    },
    agent_context: {
      secrets: {
        PLAIN: "v",
        SOURCE: { kind: "LookupSecret", url: "https://a", headers: { a: "v" }, value: "v", description: "d" },
        NONE: null,
      },
    },
    mcp_config: {
      mcpServers: { a: { url: "https://a", auth: "v", env: { B: "v" }, args: ["x"] } },
      ...servers("v"),
    },
    empty: { api_key: "", token: null },
    system_prompt: "Keep secrets.",
  };
  expect(maskSecrets(given)).toEqual({
    llm: {
      model: "openai/x",
      api_key: mask,
      aws_secret_access_key: mask,
      max_output_tokens: 5,
      extra_headers: { "X-A": mask },
    },
    agent_context: {
      secrets: {
        PLAIN: mask,
        SOURCE: {
          kind: "LookupSecret",
          url: "https://a",
          headers: { a: mask },
          value: mask,
          description: "d",
        },
        NONE: null,
      },
    },
    mcp_config: {
      mcpServers: { a: { url: "https://a", auth: mask, env: { B: mask }, args: ["x"] } },
      ...servers(mask),
    },
    empty: { api_key: "", token: null },
    system_prompt: "Keep secrets.",
  });
});
