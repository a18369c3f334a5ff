import { expect, test } from "vitest";
import { callCost, lookUpModel } from "./catalogue.ts";

const usage = (
  prompt_tokens: number,
  completion_tokens: number,
  cache_read_tokens = 0,
  cache_write_tokens = 0,
) => ({
  prompt_tokens,
  completion_tokens,
  cache_read_tokens,
  cache_write_tokens,
});

test.each([
  ["anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"],
  ["openrouter/anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"],
  ["claude-sonnet-4@20250514", "claude-sonnet-4"],
  ["claude-opus-4-0", "claude-opus-4"],
  ["claude-3-5-haiku-latest", "claude-3-5-haiku"],
  ["openai/gpt-5-2025-08-07", "gpt-5"],
  ["GPT-4.1", "gpt-4.1"],
  ["gemini/gemini-2.5-pro", "gemini-2.5-pro"],
])("%s is found as %s", (name, listed) => {
  expect(lookUpModel(name)).toBeDefined();
  expect(lookUpModel(name)).toBe(lookUpModel(listed));
});

test.each(["ollama/llama3", "gpt-5-secret-variant", "claude-opus-9", "constructor", "", "demo/repair"])(
  "%j is unknown and costs nothing",
  (name) => {
    expect(lookUpModel(name)).toBeUndefined();
    expect(callCost(name, usage(1_000_000, 1_000_000))).toBe(0);
  },
);

test("cache reads and writes are part of the prompt and have their own price", () => {
  // 100 plain at 3, 800 read at 0.30, 100 written at 3.75, 50 out at 15 USD per million.
  expect(callCost("claude-sonnet-4-5", usage(1000, 50, 800, 100))).toBeCloseTo(
    (100 * 3 + 800 * 0.3 + 100 * 3.75 + 50 * 15) / 1e6,
    12,
  );
});

test("a long prompt is billed at the long rate as a whole", () => {
  expect(callCost("gemini-2.5-pro", usage(200_000, 1000))).toBeCloseTo(
    (200_000 * 1.25 + 1000 * 10) / 1e6,
    12,
  );
  expect(callCost("gemini-2.5-pro", usage(200_001, 1000))).toBeCloseTo((200_001 * 2.5 + 1000 * 15) / 1e6, 12);
});

test("counts that contradict each other never give a negative cost", () => {
  expect(callCost("gpt-4o", usage(10, 0, 50))).toBeGreaterThanOrEqual(0);
});
