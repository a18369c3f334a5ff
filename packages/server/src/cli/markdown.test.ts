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

test("a wide table is wrapped in its columns, and one with too many columns follows on", () => {
  const long = "a cell with more words than fit ".repeat(3).trim();
  const shown = render(`| name | text |\n|---|---|\n| a | ${long} |\n| 漢字 | b |`, 41);
  expect(Math.max(...shown.map((line) => line.length))).toBeLessThanOrEqual(40);
  expect(shown[0]).toBe("name  text");
  expect(shown.join(" ").replaceAll(/\s+/g, " ")).toContain(long);
  expect(shown.at(-1)).toBe("漢字  b");
  const row = (cell: string) => `|${`${cell}|`.repeat(30)}`;
  const many = render(`${row("head")}\n${row("-")}\n${row("cell")}`, 41);
  expect(many.join("").match(/cell/g)).toHaveLength(30);
  expect(Math.max(...many.map((line) => line.length))).toBeLessThanOrEqual(40);
});

test("nothing is lost: deep quotes, and texts that are only definitions", () => {
  for (const text of [`${"> ".repeat(200)}deep`, `${"- ".repeat(200)}deep`, "[deep]: https://example.com"])
    expect(render(text).join("\n")).toContain("deep");
});

test("what is printed for hostile Markdown grows at most linearly", () => {
  const shapes = [
    (n: number) => `|${"a".repeat(n / 2)}|b|\n|-|-|\n${"|a|b|\n".repeat(n / 12)}`,
    (n: number) => `|${"a|".repeat(n / 8)}\n|${"-|".repeat(n / 8)}\n${"|a\n".repeat(n / 6)}`,
    (n: number) => `${"> ".repeat(50)}a\n`.repeat(n / 102),
    (n: number) => `${" ".repeat(4)}a\n${"\n".repeat(n)}    b`,
  ];
  for (const shape of shapes) {
    const [once, twice] = [40_000, 80_000].map((size) => render(shape(size)).join("\n").length);
    expect(twice! / once!, shape(60)).toBeLessThan(2.5);
    expect(twice!, shape(60)).toBeLessThan(80_000 * 12);
  }
});
