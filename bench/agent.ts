import { fairnessRows } from "./agent-fairness.ts";
import { idleRows, wakeRows } from "./agent-rest.ts";
import { stepRows } from "./agent-steps.ts";
import type { Row } from "./measure.ts";

/** The agent loop with a scripted model: cost of a step, fairness, waking, and memory at rest. */
export async function benchAgent(): Promise<Row[]> {
  return [
    ...(await stepRows(100, 5)),
    ...(await stepRows(5_000, 8)),
    ...(await fairnessRows()),
    ...(await wakeRows()),
    ...(await idleRows()),
  ];
}
