import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import { leaseMs, NodeLease, type NodeLeaseDeps } from "./lease.ts";

/** How long a server waits for the lease of an earlier one that was killed, ms. */
const patienceMs = leaseMs + 2_000;

/** Delay between two looks at the other servers, ms. */
const lookMs = 200;

/**
 * Joins as the only server of a database, until the returned lease is closed. Throws ConfigInvalid
 * when another server works on it.
 */
export async function joinAlone(
  deps: Omit<NodeLeaseDeps, "nodes" | "onLost"> & {
    nodes: NodeLeaseDeps["nodes"] & { list(): Promise<readonly { incarnation: string }[]> };
  },
): Promise<Pick<NodeLease, "close">> {
  const lease = new NodeLease({ ...deps, onLost: async () => {} });
  const deadline = performance.now() + patienceMs;
  await lease.open();
  try {
    // Of several servers that start at once, the oldest one stays.
    while ((await deps.nodes.list())[0]?.incarnation !== lease.incarnation) {
      if (performance.now() > deadline) throw new PlatformError("DatabaseInUse");
      await sleep(lookMs);
    }
    return lease;
  } catch (error) {
    await lease.close();
    throw error;
  }
}
