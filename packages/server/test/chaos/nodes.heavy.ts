import { expect, test } from "vitest";
import { runNodesChaos } from "./nodes/rounds.ts";

const number = (name: string, usual: number) => Number(process.env[name] ?? usual);
const seconds = number("CHAOS_SECONDS", 150);

test(
  "nodes, their networks and PostgreSQL fail at random, and nothing is lost or done twice",
  async () => {
    const seed = number("CHAOS_SEED", Date.now() % 1_000_000);
    const log = (text: string) => void process.stdout.write(`${text}\n`);
    log(`CHAOS_SEED=${seed}`);
    const { problems, folder } = await runNodesChaos({
      ...{ seed, log, durationMs: seconds * 1_000 },
      nodes: number("CHAOS_NODES", 3),
      ...(process.env.CHAOS_FAULTS && { only: new RegExp(process.env.CHAOS_FAULTS) }),
      conversations: number("CHAOS_CONVERSATIONS", 50),
    });
    expect(problems, `the logs of what is wrong are in ${folder}`).toEqual([]);
  },
  (seconds + 900) * 1_000,
);
