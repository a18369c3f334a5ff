import { expect, test } from "vitest";
import { interactiveTask } from "./every-append/interactive-task.ts";
import { killAtCommits } from "./every-append/rounds.ts";
import { concurrentTask, sequentialTask, type Task } from "./every-append/task.ts";
import type { KillPoint } from "./every-append/task-server.ts";

const phases = ["before", "after", "announced"] as const;

/** With `EVERY_APPEND_STRIDE=3` only every third position. */
const stride = Number(process.env.EVERY_APPEND_STRIDE ?? 1);

const every = (commits: number) =>
  Array.from({ length: commits }, (_, index) => phases.map((when): KillPoint => ({ when, at: index + 1 })))
    .flat()
    .filter((_, index) => index % stride === 0);

const tasks: [string, Task][] = [
  ["one call after the other", sequentialTask],
  ["concurrent calls, sub-agents, hooks and summaries", concurrentTask],
  ["a user, MCP servers, another model, a skill, a patch and a browser", interactiveTask],
];

test.each(tasks)(
  "kill -9 before each commit, after it and just after its announcement: %s",
  async (_, task) => {
    const log = (text: string) => void process.stdout.write(`${text}\n`);
    expect(await killAtCommits(task, { choose: every, log, sites: 2 })).toEqual([]);
  },
  3_600_000,
);
