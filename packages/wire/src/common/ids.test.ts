import { expect, test } from "vitest";
import { hexId, newId, parseId } from "./ids.ts";

test("both wire forms of an id mean the same", () => {
  const id = newId();
  expect(parseId(hexId(id))).toBe(id);
  expect(parseId(id.toUpperCase())).toBe(id);
});

test.each(["", "1", "../etc/passwd", `${"a".repeat(31)}g`, "a".repeat(33)])("refuses %j", (text) => {
  expect(parseId(text)).toBeUndefined();
});
