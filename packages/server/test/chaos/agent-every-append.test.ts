import { expect, test } from "vitest";
import { type Death, dieAtCommits } from "./every-append/rounds.ts";
import { plainTask } from "./every-append/task.ts";

const phases = ["before", "after", "told"] as const;

test("kill -9 at a dozen commits of a run: each comes to the same end, and nothing ran twice", async () => {
  const dozen = (commits: number) =>
    Array.from({ length: 12 }, (_, index): Death => ({ when: phases[index % 3]!, at: Math.ceil(((index + 1) * commits) / 12) }));
  const told: string[] = [];
  expect(await dieAtCommits(plainTask, dozen, (text) => void told.push(text)), told.join("\n")).toEqual([]);
}, 180_000);
