import { expect, test } from "vitest";
import { inert, inertLine } from "./inert.ts";

test.each([
  ["a title", "\x1b]0;owned\x07", "^[]0;owned^G"],
  ["the clipboard", "\x1b]52;c;cm0=\x1b\\", "^[]52;c;cm0=^[\\"],
  ["hidden text", "a\x1b[8mrm -rf ~\x1b[0m", "a^[[8mrm -rf ~^[[0m"],
  ["C1 controls", "\u009b2J\u009d0;t\u009c", "<U+009B>2J<U+009D>0;t<U+009C>"],
  ["a line that is overwritten", "rm -rf ~\rls      ", "rm -rf ~^Mls      "],
  ["backspaces and delete", "rm\b\bls\x7f", "rm^H^Hls^?"],
  [
    "bidirectional controls",
    "\u202etxt\u2066x\u2069\u200f\u061c",
    "<U+202E>txt<U+2066>x<U+2069><U+200F><U+061C>",
  ],
  ["zero-width characters", "r\u200bm\u200c\u200d\u2060\ufeff", "r<U+200B>m<U+200C><U+200D><U+2060><U+FEFF>"],
  ["tags", "a\u{e0072}\u{e006d}\u{e007f}", "a<U+E0072><U+E006D><U+E007F>"],
  ["variation selectors", "a\ufe0f\ufe00\u{e0100}", "a<U+FE0F><U+FE00><U+E0100>"],
  ["blank letters", "\u3164\u115f\u2800\u00ad\u034f", "<U+3164><U+115F><U+2800><U+00AD><U+034F>"],
  ["spaces that are none", "a\u00a0b\u3000c\u2028d\u2029", "a<U+00A0>b<U+3000>c<U+2028>d<U+2029>"],
  ["lone surrogates", "\ud800x\udc00", "<U+D800>x<U+DC00>"],
  ["marks without a letter", "\u0336x \u0338", "<U+0336>x <U+0338>"],
  ["music and interlinear controls", "\u{1d173}\ufff9", "<U+1D173><U+FFF9>"],
])("%s become visible", (_name, text, seen) => {
  expect(inert(text)).toBe(seen);
});

test("a letter keeps its marks, but not a flood of them", () => {
  expect(inert(`e${"\u0301".repeat(6)}`)).toBe(`e${"\u0301".repeat(4)}<U+0301><U+0301>`);
});

test("ordinary text of all scripts is unchanged", () => {
  const text = 'a\tb\n"Grüße" naïve ‚…’ 日本語 हिन्दी שָׁלוֹם العربية ไทย ✔ ⚠️ 👩🏽‍💻 ❤️‍🔥 ├── ⠋ €';
  expect(inert(text)).toBe(text);
});

test("one line stays one line", () => {
  expect(inertLine("a\n\tb\u2028")).toBe("a^J^Ib<U+2028>");
});

test("no character of any plane is invisible, and twice the text takes twice the time", () => {
  const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}]/u;
  for (let code = 0; code <= 0x10ffff; code++) {
    const seen = inertLine(`x${String.fromCodePoint(code)}`);
    if (hidden.test(seen)) expect.unreachable(`U+${code.toString(16)} stays hidden`);
  }
  const flood = (count: number) => {
    const begin = performance.now();
    inert("e\u0301\u200d".repeat(count));
    inert("\u0301".repeat(count));
    return performance.now() - begin;
  };
  flood(20_000);
  const short = flood(20_000);
  // Quadratic work would take a hundred times as long.
  expect(flood(200_000)).toBeLessThan(short * 50);
});
