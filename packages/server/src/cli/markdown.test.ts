import { styleText } from "node:util";
import { expect, test } from "vitest";
import { renderMarkdown } from "./markdown.ts";
import { plain } from "./style.ts";

const render = (text: string, columns = 60) => renderMarkdown(text, { paint: plain, columns });

test("Markdown becomes lines for a terminal", () => {
  const text = [
    "# Done",
    "",
    "The **test** passes, see `lib/a.sh` and [the docs](https://example.com/x).",
    "",
    "- one",
    "- two",
    "  1. deep",
    "",
    "> quoted",
    "",
    "```sh",
    "echo *hi*",
    "```",
    "",
    "| a | b |",
    "|---|---|",
    "| long cell | 2 |",
  ].join("\n");
  expect(render(text).join("\n")).toBe(
    [
      "Done",
      "",
      "The test passes, see lib/a.sh and the docs",
      "(https://example.com/x).",
      "",
      "• one",
      "• two",
      "  1. deep",
      "",
      "│ quoted",
      "",
      "    echo *hi*",
      "",
      "a          b",
      "long cell  2",
    ].join("\n"),
  );
});

test("styles keep the text, also across breaks", () => {
  const paint = (style: Parameters<typeof styleText>[0], text: string) =>
    styleText(style, text, { validateStream: false });
  const words = Array.from({ length: 40 }, (_, at) => `word${at}`);
  const text = `Begin **${words.join(" ")}** and \`code\` end.`;
  const lines = renderMarkdown(text, { paint, columns: 50 });
  const bare = lines.map((line) => line.replaceAll(/\x1b\[\d+m/g, ""));
  expect(bare.join(" ")).toBe(`Begin ${words.join(" ")} and code end.`);
  expect(Math.max(...bare.map((line) => line.length))).toBeLessThanOrEqual(49);
  expect(lines.every((line) => !line.includes("\x1b[1m") || line.includes("\x1b[22m"))).toBe(true);
});

test("untrusted text is inert: escapes, hidden text, addresses, raw HTML", () => {
  const shown = render(
    "\x1b]52;c;aGk=\x07 [a\u202eb](javascript:alert\u200b(1)) <b>x</b> &#27;[2J `\x9b31m`",
  ).join("\n");
  expect(shown).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]/);
  expect(shown).toContain("<b>x</b>");
});

test("hostile Markdown takes time that grows at most linearly", () => {
  const shapes = [
    (n: number) => "[".repeat(n),
    (n: number) => "*a_".repeat(n / 3),
    (n: number) => "> ".repeat(n / 2),
    (n: number) => "`".repeat(n),
    (n: number) => "- ".repeat(n / 2),
    (n: number) => `|${"a|".repeat(n / 2)}\n|${"-|".repeat(n / 2)}`,
    (n: number) => "![](".repeat(n / 4),
    (n: number) => "<".repeat(n),
    (n: number) => "_ ".repeat(n / 2),
    (n: number) => "~~a".repeat(n / 3),
    (n: number) => "http://a".repeat(n / 8),
    (n: number) => "a@b.".repeat(n / 4),
  ];
  for (const shape of shapes) {
    const begin = performance.now();
    for (const size of [2_000, 20_000]) render(shape(size));
    expect([shape(12), performance.now() - begin < 2_000]).toEqual([shape(12), true]);
  }
});
