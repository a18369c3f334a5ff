import type { ModelMessage } from "@sandpiper/models/model";
import { textContent } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { transcript } from "./transcript.ts";

const user = (text: string): ModelMessage => ({ role: "user", content: [textContent(text)] });

test("a transcript names who said what, and cuts the middle of long texts", () => {
  const text = transcript([
    user("please"),
    {
      role: "assistant",
      text: "I look.",
      thinkingBlocks: [],
      toolCalls: [{ id: "1", name: "terminal", arguments: "{}", origin: "completion" }],
    },
    {
      role: "tool",
      toolCallId: "1",
      toolName: "terminal",
      content: [textContent(`begin ${"x".repeat(100_000)} end`)],
      isError: false,
    },
  ]);
  expect(text).toMatch(
    /^USER: please\n\nAGENT: I look\.\nCALL of terminal: \{\}\n\nRESULT of terminal: begin x+\n\[\.\.\. \d+ characters left out here \.\.\.\]\nx+ end$/,
  );
  expect(text.length).toBeLessThan(10_000);
});

test("a transcript of very many messages keeps the newest and counts the others", () => {
  const text = transcript(
    Array.from({ length: 20_000 }, (_, index) => user(`${index} ${"y".repeat(2_000)}`)),
    100_000,
  );
  expect(text.length).toBeLessThan(101_000);
  const left = Number(/^\[(\d+) older messages are left out here\.\]/.exec(text)?.[1]);
  expect(left).toBeGreaterThan(19_000);
  expect(text).toContain(`USER: ${left} y`);
  expect(text).toContain("USER: 19999 y");
});
