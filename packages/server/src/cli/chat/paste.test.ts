import { expect, test } from "vitest";
import { PasteReader } from "./paste.ts";

const begin = "\x1b[200~";
const end = "\x1b[201~";
const take = (...pieces: string[]) => {
  const reader = new PasteReader();
  return pieces.flatMap((piece) => reader.take(piece)).map(({ kind, text }) => `${kind}: ${text}`);
};

test("pasted text is one piece, wherever the terminal's input is cut", () => {
  const input = `a${begin}one\r\ntwo\x1b[20${end}`;
  const whole = ["keys: a", "paste: one\ntwo^[[20"];
  expect(take(input)).toEqual(whole);
  for (let at = 1; at < input.length; at++) {
    // A lone Escape is a key: the line editor reads the mark itself then.
    if (at === 2) continue;
    expect(take(input.slice(0, at), input.slice(at))).toEqual(whole);
  }
  expect(take(...`${begin}xy${end}`.replace("\x1b[2", "\x1b[2").match(/^..|./gs)!)).toEqual(["paste: xy"]);
});

test("nothing in a pasted text acts as a key", () => {
  expect(take(`${begin}a\rb\nc\u2028d\u0085e\x03\x04\x15\x7f\x1b[A\x9b\u202e${end}`)).toEqual([
    "paste: a\nb\nc\nd\ne^C^D^U^?^[[A<U+009B><U+202E>",
  ]);
  expect(take(`${begin}\ttab\u00a0${end}`)).toEqual(["paste: \ttab\u00a0"]);
});

test("an end of a paste in the pasted text does not end it", () => {
  expect(take(`${begin}evil${end}\r${end}`)).toEqual(["paste: evil\n"]);
  expect(take(`${begin}evil${end}\rmore\r`)).toEqual(["paste: evil\nmore\n"]);
  expect(take(`${begin}${"x".repeat(600)}${end}\r`)).toEqual([`paste: ${"x".repeat(600)}\n`]);
  expect(take(`${begin}evil`, `${end}\r`)).toEqual(["paste: evil\n"]);
  expect(take(`${begin}e${begin}vil${end}`)).toEqual(["paste: evil"]);
});

test("Enter after a short paste is a key, and Ctrl-C ends a paste without an end", () => {
  expect(take(`${begin}text${end}\r`)).toEqual(["paste: text", "keys: \r"]);
  expect(take(`${begin}text${end}`, "\r")).toEqual(["paste: text", "keys: \r"]);
  expect(take(`${begin}text`, "\x03", "a\r")).toEqual(["keys: \x03", "keys: a\r"]);
  expect(take("a", "\x1b", "[A")).toEqual(["keys: a", "keys: \x1b", "keys: [A"]);
});

test("a pasted text has at most a million characters", () => {
  const [pasted] = take(begin, ...Array.from({ length: 20 }, () => "x".repeat(100_000)), end);
  expect(pasted).toHaveLength("paste: ".length + 1_048_576);
});
