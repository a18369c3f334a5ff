import { runNodesChaos } from "@sandpiper/server/test/chaos/nodes/rounds";
import { figures, type Row, single } from "./measure.ts";
import { benchNodesAppends } from "./nodes-appends.ts";
import { benchNodesFollowers } from "./nodes-followers.ts";
import { benchNodesMemory } from "./nodes-memory.ts";

const faultMs = 60_000;
const conversations = 24;

/** Several nodes on one PostgreSQL server. */
export async function benchNodes(): Promise<Row[]> {
  return [
    ...(await benchNodesAppends()),
    ...(await benchNodesMemory()),
    ...(await benchNodesFollowers()),
    ...(await benchKills()),
    ...(await benchFrozen()),
  ];
}

/** A node is killed under load, and comes back alone: its conversations go on at others. */
async function benchKills(): Promise<Row[]> {
  const chaos = { conversations, durationMs: faultMs, only: /is killed$/, log: console.error };
  const one = await runNodesChaos({ ...chaos, seed: 1, nodes: 1 });
  const three = await runNodesChaos({ ...chaos, seed: 1, nodes: 3, only: /^node \d is killed/ });
  const own = figures(three.takeovers);
  return [
    {
      name: `a node of three is killed: next event of each of its conversations`,
      unit: "ms",
      figures: own,
      floor: { name: "one node, started again at once", figures: figures(one.takeovers) },
      target: "p95 < 5 s",
      met: own.p95 < 5_000,
    },
    zero("events or calls lost or doubled by these kills", three.problems),
  ];
}

/** A node is frozen for ten seconds under load and wakes up. */
async function benchFrozen(): Promise<Row[]> {
  const { problems } = await runNodesChaos({
    ...{ conversations, durationMs: faultMs, only: /is frozen/, log: console.error },
    ...{ seed: 2, nodes: 3 },
  });
  return [zero("a node is frozen for 10 s: events or calls lost or doubled", problems)];
}

function zero(name: string, problems: readonly string[]): Row {
  for (const problem of problems) console.error(problem.slice(0, 500));
  const { length } = problems;
  return { name, unit: "count", figures: single(length), target: "0", met: length === 0 };
}
