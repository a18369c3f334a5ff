import { expect, test } from "vitest";
import { createNormaliser, firstDifference } from "./normalise.ts";

const normalise = createNormaliser({ "box-1": "<sandbox>" });

test.each([
  ["2026-11-21T23:40 UTC", "2027-01-02T03:04 UTC"],
  ["at 2026-11-21 23:40:12.123456Z done", "at 2027-01-02 03:04:05.1Z done"],
  ["-rw-r--r-- 1 agent agent 4 Nov 21 23:40 a", "-rw-r--r-- 1 agent agent 4 Jan  2 03:04 a"],
  ["Sun Nov 22 23:40:12 UTC 2026 done", "Tue Feb 29 03:04:05 UTC 2028 done"],
  ["Date:   Sun Nov 22 23:40:12 2026 +0000", "Date:   Fri Jan  1 03:04:05 2027 +0000"],
  ["Sun 22 Nov 2026 11:40:12 PM UTC", "Fri  1 Jan 2027 03:04:05 AM UTC"],
  ["date: Sun, 22 Nov 2026 23:40:12 GMT", "date: Fri, 01 Jan 2027 03:04:05 GMT"],
  ["took 1.25 s", "took 830 ms"],
  ["real\t0m0.005s", "real\t1m2.105s"],
  ["/tmp/tmp.a8Bd91kLq0 made", "/tmp/tmp.ZZ81kskQ1x made"],
  ["[1] 4711", "[1] 12"],
  ["[main 3f2a91c] first", "[main 9b01e77] first"],
  ["id 0b8f9c1e-1111-4222-8333-444455556666", "id 5e6f7a8b-aaaa-4bbb-8ccc-ddddeeeeffff"],
  ["host box-1", "host <sandbox>"],
])("%s is the same as %s", (left, right) => {
  expect(normalise(left)).toBe(normalise(right));
});

test.each([
  ["exit code 1", "exit code 2"],
  ["total 12", "total 16"],
  ["deadline", "decade"],
  ["md5 9e107d9d372bb6826bd81d3542a419d6", "md5 e4d909c290d0fb1ca068ffaddf22cbd0"],
])("%s is not the same as %s", (left, right) => {
  expect(normalise(left)).not.toBe(normalise(right));
});

test("long and hostile texts are compared in linear time", () => {
  const start = performance.now();
  for (const text of [
    "a1".repeat(900_000),
    "0".repeat(1_900_000),
    "1:".repeat(900_000),
    "/tmp/a-".repeat(250_000),
    "x".repeat(20_000_000),
  ])
    normalise(text);
  expect(performance.now() - start).toBeLessThan(20_000);
});

test("a difference is shown with its context", () => {
  const { left, right } = firstDifference(`${"a".repeat(100)}b${"c".repeat(300)}`, `${"a".repeat(100)}d`);
  expect(left).toBe(`…${"a".repeat(40)}b${"c".repeat(119)}…`);
  expect(right).toBe(`…${"a".repeat(40)}d`);
});
