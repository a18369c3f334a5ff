import { expect, test } from "vitest";
import { killAtCommits } from "./every-append/rounds.ts";
import { concurrentTask } from "./every-append/task.ts";
import type { KillPoint } from "./every-append/task-server.ts";

const phases = ["before", "after", "announced"] as const;

/** Each case restarts the server: `npm run test:heavy -- agent-every-append` tries all commits. */
const deaths = 3;

test("kill -9 at commits throughout a run: each run has the same result, and nothing runs twice", async () => {
  const some = (commits: number) =>
    Array.from(
      { length: deaths },
      (_, index): KillPoint => ({
        when: phases[index % 3]!,
        at: Math.ceil(((index + 0.5) * commits) / deaths),
      }),
    );
  const lines: string[] = [];
  expect(
    await killAtCommits(concurrentTask, { choose: some, log: (text) => void lines.push(text), sites: 1 }),
    lines.join("\n"),
  ).toEqual([]);
}, 300_000);
