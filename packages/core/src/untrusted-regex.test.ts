import { expect, test } from "vitest";
import { testRegexes } from "./untrusted-regex.ts";

test("each expression is tested alone, and one that takes too long ends the results", () => {
  const tests = [
    { source: "^a+$", text: "aa" },
    { source: "(", text: "(" },
    { source: "^\\p{L}$", flags: "u", text: "7" },
    { source: "^(([a-z])+.)+[A-Z]$", text: "a".repeat(40) },
    { source: "a", text: "a" },
  ];
  expect(testRegexes(tests, 50)).toEqual([true, undefined, false]);
});
