import fc from "fast-check";
import { expect, test } from "vitest";
import { TerminalCleaner } from "./cleaner.ts";

function clean(...chunks: (string | Uint8Array)[]): string {
  const cleaner = new TerminalCleaner();
  return chunks.map((chunk) => cleaner.push(Buffer.from(chunk as string))).join("") + cleaner.flush();
}

test.each([
  ["colours", "\x1b[1;31mred\x1b[0m\r\n", "red\n"],
  ["titles", "\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"],
  ["cursor keys, charsets and modes", "\x1b[?25l\x1b(Ba\x1b=\x1b>\x1b7b\x1b8\x1bM", "ab"],
  ["a progress line", "10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"],
  ["a line that is wiped at its end", "building...\rbuilt      \r\n", "built      \n"],
  ["backspaces", "abc\b\bx\r\n", "ax\n"],
  ["bells and other controls", "a\x07b\x00c\x0e\n", "abc\n"],
  ["a title that never ends", "\x1b]0;open\nnext\n", "0;open\nnext\n"],
  ["CR CR LF", "a\r\r\nb", "a\nb"],
])("%s", (_, shown, text) => expect(clean(shown)).toBe(text));

test("characters and sequences that are split anywhere are put together", () => {
  const bytes = Buffer.from("é€😀\x1b[31mrot\x1b[0m\r\n10%\r20%\r\n\x1b]0;t\x07ende");
  for (let at = 0; at <= bytes.length; at++)
    expect(clean(bytes.subarray(0, at), bytes.subarray(at))).toBe("é€😀rot\n20%\nende");
});

test("any bytes become text without escapes, and printable text is unchanged", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 }), (chunks) => {
      expect(clean(...chunks)).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
    }),
  );
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[ -~\n]*$/)), (lines) => {
      expect(clean(...lines)).toBe(lines.join(""));
    }),
  );
});
