import { expect, test } from "vitest";
import { Changes } from "./changes.ts";

test("a name's number changes with each of its writes, and with no other", () => {
  const changes = new Changes();
  changes.touch(["a", "b"]);
  const before = [changes.of("a"), changes.of("b"), changes.of("c")];
  changes.touch([]);
  expect([changes.of("a"), changes.of("b"), changes.of("c")]).toEqual(before);
  changes.touch(["b"]);
  expect(changes.of("a")).toBe(before[0]);
  expect(changes.of("b")).not.toBe(before[1]);
  expect(changes.of("c")).toBe(before[2]);
});

test("after very many names, no change is missed", () => {
  const changes = new Changes();
  changes.touch(["a"]);
  const [a, never] = [changes.of("a"), changes.of("never")];
  for (let index = 0; index < 50_000; index++) changes.touch([`name ${index}`]);
  expect(changes.of("a")).not.toBe(a);
  expect(changes.of("never")).not.toBe(never);
});
