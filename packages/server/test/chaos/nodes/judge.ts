import { difference } from "../all-faults/lane.ts";
import { checkAll } from "../every-append/judge.ts";
import type { StoredRecord } from "../every-append/log.ts";
import { interrupted } from "../every-append/task.ts";
import type { ActiveConversation, NodesState, Orphan } from "./state.ts";

type Logs = ReadonlyMap<string, readonly StoredRecord[]>;

/** Returns the problems of a conversation that has ended. */
export async function findProblems(
  { cluster }: NodesState,
  conversation: ActiveConversation,
  after: Logs,
  announced: readonly string[],
): Promise<string[]> {
  const { id, worker, earlier, faults } = conversation;
  const { task } = worker;
  const wrong = checkAll({ id, task, deaths: [], after, announced, faults: true });
  for (const before of earlier)
    for (const [one, log] of before) {
      const lost = log.filter(({ json }, index) => after.get(one)?.[index]?.json !== json).length;
      if (lost > 0) wrong.push(`lost or changed records of ${one}: ${lost}`);
    }
  for (const [one, log] of after) {
    const cut = log.filter(({ event }) => event.kind === "AgentErrorEvent" && interrupted.test(event.error));
    if (cut.length > faults) wrong.push(`${cut.length} interrupted calls in ${faults} faults`);
    const used = [...new Set(log.flatMap(({ event }) => event.llm_response_id ?? []))].sort();
    const recorded = await cluster.logs.answers(one);
    if (JSON.stringify(used) !== JSON.stringify(recorded))
      wrong.push(`recorded answers of ${one}: ${difference(recorded, used)}`);
  }
  return wrong;
}

/**
 * Returns how long a conversation whose node died waited for its next event, ms; undefined: the
 * conversation was paused or got no event.
 */
export function takeoverOf({ at, seq }: Orphan, log: readonly StoredRecord[]): number | undefined {
  const next = log.slice(seq).find(({ event }) => event.source !== "user")?.event;
  if (!next || next.value === "paused") return undefined;
  return Date.parse(`${next.timestamp}Z`) - at;
}

/** Returns the value below which this share of the values is. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
