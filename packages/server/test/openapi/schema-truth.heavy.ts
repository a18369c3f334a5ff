import { expect, test } from "vitest";
import { checkTruth } from "./schema-truth.ts";

test.each([
  ["of the platform", undefined],
  ["of one sandbox", "/agent/sandbox-1"],
])(
  "the document %s tells the truth about all of its values",
  async (_of, base) => {
    const { sent, wrong } = await checkTruth(base, { every: 1, first: 0 });
    expect(sent).toBeGreaterThan(1_000);
    expect(wrong).toEqual([]);
  },
  300_000,
);
