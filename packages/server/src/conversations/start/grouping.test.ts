import { groupingStrategies } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { chooseSandbox } from "./grouping.ts";

const candidates = [
  { id: "middle", createdAt: 2, conversations: 5 },
  { id: "oldest", createdAt: 1, conversations: 19 },
  { id: "newest", createdAt: 3, conversations: 7 },
  { id: "full", createdAt: 4, conversations: 20 },
];

test.each([
  ["NO_GROUPING", undefined],
  ["GROUP_BY_NEWEST", "newest"],
  ["LEAST_RECENTLY_USED", "oldest"],
  ["FEWEST_CONVERSATIONS", "middle"],
  ["ADD_TO_ANY", "middle"],
] as const)("%s chooses among the sandboxes that are not full", (strategy, id) => {
  expect(chooseSandbox(strategy, candidates)).toBe(id);
});

test("without a sandbox to join there is a new one", () => {
  for (const strategy of groupingStrategies) {
    expect(chooseSandbox(strategy, [])).toBeUndefined();
    expect(chooseSandbox(strategy, candidates.slice(3))).toBeUndefined();
  }
});
