import { expect, test } from "vitest";
import { ReadCache } from "./read-cache.ts";

test("an answer is made once, and anew after a write", () => {
  let version = 0;
  let made = 0;
  const cache = new ReadCache(() => version);
  const ask = (question: string) => cache.get(question, () => `${question}${++made}`);
  expect([ask("a"), ask("b"), ask("a")]).toEqual(["a1", "b2", "a1"]);
  version++;
  expect([ask("a"), ask("a")]).toEqual(["a3", "a3"]);
});

test("it holds a bounded number of answers of a bounded size", () => {
  let made = 0;
  const cache = new ReadCache(() => 0);
  const ask = (question: string, size: number) => cache.get(question, () => String(++made).padEnd(size));
  for (let index = 0; index < 1_000; index++) ask(`question ${index}`, 1);
  expect(ask("question 0", 1)).toBe("1001");
  for (let index = 0; index < 20; index++) ask(`large ${index}`, 2 ** 20);
  made = 5_000;
  expect(ask("large 0", 2 ** 20)).toContain("5001");
});
