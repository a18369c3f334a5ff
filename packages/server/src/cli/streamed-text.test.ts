import type { Event } from "@sandpiper/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { StreamedText } from "./streamed-text.ts";
import { plain } from "./style.ts";

const delta = (content: string) => ({ kind: "StreamingDeltaEvent", content }) as unknown as Event;
const message = (text: string) =>
  ({
    kind: "MessageEvent",
    source: "agent",
    llm_message: { role: "assistant", content: [{ type: "text", text }] },
  }) as unknown as Event;

/** What is printed for a text that arrives in pieces. */
function stream(pieces: readonly string[], columns = 90): string[] {
  const printed: string[] = [];
  const text = new StreamedText({
    ...{ paint: plain, elapsed: () => 1234, columns: () => columns },
    print: (...lines) => printed.push(...lines),
  });
  for (const piece of pieces) text.take(delta(piece));
  text.take(message(pieces.join("")));
  return printed;
}

test("blocks are printed as they end, and code with empty lines stays one block", () => {
  const text = "# Title\n\nFirst.\n\n```sh\none\n\n```` two\n```\n\nLast.";
  const label = "    1.2 s  says      ";
  const space = " ".repeat(label.length);
  const expected = [
    ...[`${label}Title`, "", `${space}First.`, "", `${space}    one`, "", `${space}    \`\`\`\` two`],
    ...["", `${space}Last.`],
  ];
  for (const pieces of [[text], [...text]]) expect(stream(pieces)).toEqual(expected);
});

test("on a narrow terminal, no line is wider than the terminal", () => {
  const lines = stream(["A paragraph with some words in it. ".repeat(10)], 40);
  expect(lines[0]).toBe("    1.2 s  says");
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(40);
});

test("every word is printed once, however the text is cut into pieces", () => {
  const parts = fc.constantFrom("\n", "\n\n", "```\n", "~~~\n", "    ", "- ", "> ", "# ", "| ", "word ");
  fc.assert(
    fc.property(fc.array(parts, { maxLength: 60 }), (made) => {
      let count = 0;
      const pieces = made.map((part) => (part === "word " ? `w${count++}x ` : part));
      const words = stream(pieces).join(" ").match(/w\d+x/g) ?? [];
      expect(words).toEqual(pieces.join("").match(/w\d+x/g) ?? []);
    }),
    { numRuns: 300 },
  );
});
