import { expect, test } from "vitest";
import { BoundedCache } from "./bounded-cache.ts";

test("it keeps values by their names, each in the place of the earlier one", () => {
  const cache = new BoundedCache<number>({ entries: 10, characters: 100 });
  cache.set("a", 1, 1);
  for (let index = 0; index < 1_000; index++) cache.set("b", index, 20);
  expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual([1, 999, undefined]);
});

test("it holds a bounded number of values of a bounded size", () => {
  const few = new BoundedCache<number>({ entries: 100, characters: 1e9 });
  for (let index = 0; index < 1_000; index++) few.set(`name ${index}`, index, 1);
  expect(few.get("name 0")).toBeUndefined();
  expect(few.get("name 999")).toBe(999);

  const small = new BoundedCache<number>({ entries: 1e9, characters: 1_000 });
  small.set("first", 1, 600);
  small.set("second", 2, 600);
  expect([small.get("first"), small.get("second")]).toEqual([undefined, 2]);
});
