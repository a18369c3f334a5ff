import { expect, test } from "vitest";
import { globMatcher } from "./glob.ts";

test.each([
  ["*.ts", "a/b.ts", true],
  ["a/*.ts", "a/b/c.ts", false],
  ["a/**/*.ts", "a/c.ts", true],
  ["**", "a/b", true],
  ["**/x/**", "a/x/b/c", true],
  ["?.ts", "ab.ts", false],
  ["/*.css", "deep/a.css", false],
  ["src/**/*.ts", "lib/src/a.ts", false],
  ["file?.md", "x/file1.md", true],
  ["", "a", false],
  ["a.c", "abc", false],
  ["a{b", "a{b", true],
])("the glob %j for %j: %j", (pattern, path, expected) => {
  expect([globMatcher(pattern)(path), globMatcher(pattern, { extended: true })(path)]).toEqual([
    expected,
    expected,
  ]);
});

test.each([
  ["[a-c].ts", "b.ts", true],
  ["[!a-c].ts", "b.ts", false],
  ["{a,b}/{c,d}.ts", "b/d.ts", true],
])("the extended glob %j for %j: %j", (pattern, path, expected) => {
  expect(globMatcher(pattern, { extended: true })(path)).toBe(expected);
  expect([globMatcher(pattern)(path), globMatcher(pattern)(pattern)]).toEqual([false, true]);
});

test("hostile globs take bounded time", () => {
  const began = process.cpuUsage();
  for (const [pattern, path] of [
    ["*a".repeat(500), `${"a".repeat(2_000)}b`],
    [`${"**/".repeat(500)}x`, "a/".repeat(1_000)],
    [`${"**/a/".repeat(80)}b`, "a/".repeat(1_000)],
    ["{a,b}".repeat(100), "x"],
  ] as const)
    expect(globMatcher(pattern, { extended: true })(path)).toBe(false);
  expect(process.cpuUsage(began).user / 1000).toBeLessThan(5_000);
});
