import { PlatformError } from "@sandpiper/core/errors";
import { expect, test } from "vitest";
import { ContextLimits } from "./context-limits.ts";
import { isHistoryRefused } from "./refused-history.ts";

const unknown = { name: "openai/x", contextWindow: 0 };
const failed = (text: string) =>
  new PlatformError("ContextWindowExceeded", `The model openai/x failed (HTTP 400): ${text}`);

test("a known window leaves space for the answer, an unknown one is learnt from refusals", () => {
  const limits = new ContextLimits();
  expect(limits.get("u", { ...unknown, contextWindow: 200_000 })).toBe(160_000);
  expect(limits.get("u", unknown)).toBe(Number.POSITIVE_INFINITY);
  limits.learn("u", unknown, 50_000, failed("prompt is too long"));
  expect(limits.get("u", unknown)).toBe(45_000);
  expect(limits.get("someone else", unknown)).toBe(Number.POSITIVE_INFINITY);
  // A much longer prompt that was fine shows that the estimate was wrong.
  limits.unlearn("u", unknown, 60_000);
  expect(limits.get("u", unknown)).toBe(45_000);
  limits.unlearn("u", unknown, 90_000);
  expect(limits.get("u", unknown)).toBe(Number.POSITIVE_INFINITY);
});

test.each([
  [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    8_192,
  ],
  ["prompt is too long: 215000 tokens > 20000 maximum", 20_000],
  ["The input token count (40000) exceeds the maximum number of tokens allowed (32768).", 32_768],
  ["the request exceeds the available context size: 4096", 4_096],
  ["too long, error 12", 90_000 / 0.8],
])("the context window is read from a refusal: %s", (text, window) => {
  const limits = new ContextLimits();
  limits.learn("u", unknown, 100_000, failed(text));
  expect(limits.get("u", unknown)).toBe(Math.floor(window * 0.8));
});

test("refusals of a history's shape are recognised", () => {
  const is = (text: string, code: "ModelFailed" | "ContextWindowExceeded" = "ModelFailed") =>
    isHistoryRefused(new PlatformError(code, text));
  expect(
    is("messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1"),
  ).toBe(true);
  expect(is("messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_2")).toBe(
    true,
  );
  expect(
    is(
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    ),
  ).toBe(true);
  expect(is("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")).toBe(
    true,
  );
  expect(is("Please ensure that function call turn comes immediately after a user turn")).toBe(true);
  expect(is("Invalid `signature` in `thinking` block")).toBe(true);
  expect(is("The API key is wrong")).toBe(false);
  expect(is("messages: roles must alternate", "ContextWindowExceeded")).toBe(false);
  expect(isHistoryRefused(new Error("roles must alternate"))).toBe(false);
});
