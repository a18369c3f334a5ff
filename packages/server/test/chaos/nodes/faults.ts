import type { S3Server } from "@sandpiper/core/test/support/s3-server";
import { type NodesState, pause } from "./state.ts";

/** A fault of the cluster. */
export interface Fault {
  name: string;
  /** Causes the fault and ends it. */
  run(between: (least: number, most: number) => Promise<void>): Promise<void>;
}

/** How long a killed node stays away, ms. This is longer than its lease lasts. */
const awayMs = 6_000;
const frozenMs = 10_000;

/** Returns the faults of one node, of the database and of the shared blobs. */
export function listFaults(state: NodesState, node: number): Fault[] {
  const { cluster } = state;
  const link = cluster.link(node);
  const name = `node ${node + 1}`;
  const restart = async (signal: NodeJS.Signals) => {
    await noteOrphans(state, node, () => cluster.endNode(node, signal));
    // A node that is alone must come back at once, because no other node claims its sandboxes.
    if (cluster.size > 1) await pause(awayMs);
    await cluster.startNode(node);
  };
  return [
    { name: `${name} is killed`, run: () => restart("SIGKILL") },
    { name: `${name} is killed`, run: () => restart("SIGKILL") },
    { name: `${name} is told to end`, run: () => restart("SIGTERM") },
    {
      name: `${name} is frozen`,
      async run() {
        await noteOrphans(state, node, async () => cluster.stop(node));
        await pause(frozenMs);
        cluster.resume(node);
      },
    },
    {
      name: `the network of ${name} is cut`,
      async run(between) {
        link.cut();
        await between(500, 9_000);
        link.restore();
      },
    },
    {
      name: `the network of ${name} is silent`,
      async run(between) {
        link.stall();
        await between(500, 9_000);
        link.restore();
      },
    },
    {
      name: `the network of ${name} is slow`,
      async run(between) {
        link.delayMs = 150;
        await between(2_000, 8_000);
        link.delayMs = 0;
      },
    },
    {
      name: "PostgreSQL is killed",
      async run(between) {
        await cluster.postgres.kill();
        await between(200, 5_000);
        await cluster.postgres.start();
      },
    },
    ...(state.blobs ? listBlobFaults(state.blobs) : []),
  ];
}

function listBlobFaults(blobs: S3Server): Fault[] {
  return [
    {
      name: "the S3 server is killed",
      async run(between) {
        await blobs.kill();
        await between(200, 5_000);
        await blobs.restart();
      },
    },
    {
      name: "the S3 server is frozen",
      async run(between) {
        blobs.freeze();
        await between(500, 9_000);
        blobs.thaw();
      },
    },
  ];
}

/** Stops a node and notes the running conversations that it leaves. */
async function noteOrphans(state: NodesState, node: number, end: () => Promise<void>): Promise<void> {
  const { cluster } = state;
  const address = cluster.addressOf(node);
  const at = Date.now();
  await end();
  for (const { id, seq, node: owner } of await cluster.logs.running())
    if (cluster.size === 1 || owner === address) state.orphans.push({ id, seq, at });
}
