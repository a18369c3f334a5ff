import { expect, test } from "vitest";
import type { NodeLoad } from "../store/node-store.ts";
import { chooseNode, Placement } from "./placement.ts";

const node = (incarnation: string, running: number, isDraining = false): NodeLoad => ({
  ...{ incarnation, running, isDraining },
  ...{ url: `http://${incarnation}`, place: null, version: "1" },
});
const chosen = (running: readonly number[], self: string | undefined) =>
  chooseNode(
    running.map((count, index) => node("abcd"[index]!, count)),
    self,
  )?.incarnation;

test("a node passes a creation on when it runs two sandboxes more than the node with the fewest", () => {
  expect(chosen([3, 2, 3], "a")).toBe("a");
  expect(chosen([3, 2, 1], "a")).toBe("c");
  expect(chosen([0, 9, 9], "a")).toBe("a");
  expect(chosen([5], "a")).toBe("a");
});

test("of equal nodes, each node chooses the one after it", () => {
  expect(
    ["a", "b", "c", "d"].map((self) => chosen([5, 5, 5, 5].with("abcd".indexOf(self), 9), self)),
  ).toEqual(["b", "c", "d", "a"]);
});

test("a node that drains gets no sandboxes, and passes all creations on", () => {
  expect(chooseNode([node("a", 9), node("b", 0, true), node("c", 4)], "a")?.incarnation).toBe("c");
  expect(chosen([0, 7], undefined)).toBe("a");
  expect(chooseNode([node("a", 0, true)], undefined)).toBeUndefined();
});

test("creations at once are spread, though the store does not know of them yet", async () => {
  let reads = 0;
  const loads = async () => {
    reads += 1;
    return ["a", "b", "c", "d"].map((incarnation) => node(incarnation, 0));
  };
  const placement = new Placement({ loads }, () => 0);
  const locations = await Promise.all(Array.from({ length: 40 }, () => placement.choose("a")));
  const names = locations.map((location) => (location === "here" ? "a" : location.incarnation));
  const counts = ["a", "b", "c", "d"].map((name) => names.filter((one) => one === name).length);
  expect([Math.min(...counts), Math.max(...counts), reads]).toEqual([9, 11, 1]);
});
