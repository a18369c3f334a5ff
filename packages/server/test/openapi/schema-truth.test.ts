import { expect, test } from "vitest";
import { checkTruth } from "./schema-truth.ts";

/** One request of so many is sent, others in each run; `npm run test:heavy` sends all. */
const every = 12;

test.each([
  ["of the platform", undefined],
  ["of one sandbox", "/agent/sandbox-1"],
])("the document %s tells the truth about a part of its values", async (_of, base) => {
  const first = Math.floor(Math.random() * every);
  const { sent, wrong } = await checkTruth(base, { every, first });
  expect(sent).toBeGreaterThan(100);
  expect(wrong, `first: ${first}`).toEqual([]);
});
