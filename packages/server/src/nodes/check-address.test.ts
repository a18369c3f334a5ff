import { expect, test } from "vitest";
import { checkAddress } from "./check-address.ts";

const [own, beside] = ["http://127.0.0.1:3000", "http://localhost:3001"];
const away = "http://10.0.0.5:3000";

/** Returns the level of what a node logs beside another node; undefined: the node logs nothing. */
async function levelFor(url: string, place: string | null, other: string, otherPlace: string | null) {
  const levels: string[] = [];
  const logger = { error: () => void levels.push("error"), info: () => void levels.push("info") };
  const node = { incarnation: "other", url: other, place: otherPlace, version: "1", isDraining: false };
  await checkAddress({ url, place }, { nodes: { list: async () => [node] }, logger });
  return levels.join() || undefined;
}

test("a loopback address is an error only beside a node that other machines reach", async () => {
  expect(await levelFor(own, null, away, null)).toBe("error");
  expect(await levelFor(own, "here", away, "there")).toBe("error");
  expect(await levelFor(own, null, beside, null)).toBe("info");
  expect(await levelFor(own, "here", beside, "here")).toBeUndefined();
  expect(await levelFor(away, null, own, null)).toBeUndefined();
});
