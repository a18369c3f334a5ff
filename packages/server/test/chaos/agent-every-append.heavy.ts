import { expect, test } from "vitest";
import { dieAtCommits } from "./every-append/rounds.ts";
import { talkedTask } from "./every-append/talked-task.ts";
import { plainTask, type Task, wholeTask } from "./every-append/task.ts";
import type { KillPoint } from "./every-append/task-server.ts";

const phases = ["before", "after", "told"] as const;

/** Each third of the positions only, where `EVERY_APPEND_STRIDE` says 3. */
const stride = Number(process.env.EVERY_APPEND_STRIDE ?? 1);

const every = (commits: number) =>
  Array.from({ length: commits }, (_, index) => phases.map((when): KillPoint => ({ when, at: index + 1 })))
    .flat()
    .filter((_, index) => index % stride === 0);

const tasks: [string, Task][] = [
  ["one call after the other", plainTask],
  ["calls side by side, sub-agents, hooks and summaries", wholeTask],
  ["a person, MCP servers, another model, a skill, a patch and a browser", talkedTask],
];

test.each(tasks)(
  "kill -9 before each commit, after it and just after its announcement: %s",
  async (_, task) => {
    const tell = (text: string) => void process.stdout.write(`${text}\n`);
    expect(await dieAtCommits(task, { choose: every, tell, sites: 2 })).toEqual([]);
  },
  3_600_000,
);
