import { expect, test } from "vitest";
import { isInside, type Navigation, spansTo } from "./branch.ts";

test("spans are computed from navigations alone, and each index is found in them", () => {
  const navigations: Navigation[] = [
    { after: 5, target: 3 },
    { after: 8, target: 0 },
    { after: 9, target: 7 },
  ];
  expect(spansTo(0, navigations)).toEqual([]);
  expect(spansTo(5, navigations)).toEqual([{ first: 1, last: 5 }]);
  expect(spansTo(7, navigations)).toEqual([
    { first: 1, last: 3 },
    { first: 6, last: 7 },
  ]);
  expect(spansTo(9, navigations)).toEqual([{ first: 9, last: 9 }]);
  const now = spansTo(12, navigations);
  expect(now).toEqual([
    { first: 1, last: 3 },
    { first: 6, last: 7 },
    { first: 10, last: 12 },
  ]);
  const inside = Array.from({ length: 14 }, (_, index) => index).filter((index) => isInside(now, index));
  expect(inside).toEqual([1, 2, 3, 6, 7, 10, 11, 12]);
  expect(isInside([], 1)).toBe(false);
});
