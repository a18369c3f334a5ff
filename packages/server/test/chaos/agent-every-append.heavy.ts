import { expect, test } from "vitest";
import { type Death, dieAtCommits } from "./every-append/rounds.ts";

const phases = ["before", "after", "told"] as const;

test("kill -9 at every commit of a run, before it, after it and when it was just told: each comes to the same end", async () => {
  const every = (commits: number) =>
    Array.from({ length: commits }, (_, index) => phases.map((when): Death => ({ when, at: index + 1 }))).flat();
  expect(await dieAtCommits(every, (text) => process.stdout.write(`${text}\n`))).toEqual([]);
}, 3_600_000);
