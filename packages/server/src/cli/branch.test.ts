import { expect, test } from "vitest";
import { listCurrent } from "./branch.ts";

const event = (id: string, parent_id?: string) => ({ id, ...(parent_id && { parent_id }) });
const listed = (leaf: string | null) => [
  ...listCurrent([event("a"), event("b"), event("c"), event("d", "a"), event("e", "d")], leaf),
];

test("events that were taken back are not current", () => {
  expect(listed("e")).toEqual(["e", "d", "a"]);
  expect(listed("c")).toEqual(["c", "b", "a"]);
  expect(listed("a")).toEqual(["a"]);
  expect(listed(null)).toEqual([]);
});
