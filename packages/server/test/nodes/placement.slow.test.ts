import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Cluster } from "../chaos/nodes/cluster.ts";
import { caller, removeSandboxes, type TestPlatform, testKey, until } from "../support/platform.ts";

/** Four servers on one machine and one PostgreSQL database. */

let dataDir: string;
let cluster: Cluster;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-placement-"));
  const env = { SANDPIPER_MAX_REQUESTS: "0", SANDPIPER_MAX_SANDBOXES: "0" };
  cluster = await Cluster.start({ dataDir, nodes: 4, env });
});
afterAll(async () => {
  await removeSandboxes(cluster.caller(testKey));
  await cluster.close();
  await rm(dataDir, { recursive: true, force: true });
});

/** Starts a conversation without a message, and waits until it is ready. */
async function start(call: TestPlatform["call"]): Promise<void> {
  const { body } = await call("POST", "/api/v1/app-conversations", {});
  await until(async () => {
    const { body: found } = await call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`);
    if (found[0]?.status === "ERROR") throw new Error(found[0].detail);
    return found[0]?.status === "READY";
  });
}

/** Returns the numbers of running sandboxes, by the address of their node. */
async function runningByNode(): Promise<Map<string, number>> {
  const rows = await cluster.logs.query(
    `SELECT n.url, count(s.id)::integer AS running FROM nodes n
      LEFT JOIN sandboxes s ON s.owner = n.incarnation AND s.status = 'RUNNING'
      WHERE n.expires_at > clock_timestamp() GROUP BY n.url`,
  );
  return new Map(rows.map(({ url, running }) => [String(url), Number(running)]));
}

/** Returns how much more sandboxes than the mean the busiest node has, as a share of the mean. */
async function excess(): Promise<number> {
  const counts = [...(await runningByNode()).values()];
  return (Math.max(...counts) * counts.length) / counts.reduce((one, other) => one + other) - 1;
}

test("starts that one client asks of one node at once are spread over four nodes", async () => {
  const call = caller(cluster.addressOf(0), testKey);
  await Promise.all(Array.from({ length: 16 }, () => start(call)));
  expect(await excess()).toBeLessThanOrEqual(0.5);
});

test("starts through a proxy are spread over four nodes", async () => {
  const call = cluster.caller(testKey);
  const lane = async () => {
    for (let index = 0; index < 5; index++) await start(call);
  };
  await Promise.all([lane(), lane(), lane(), lane()]);
  expect([...(await runningByNode()).values()]).toHaveLength(4);
  expect(await excess()).toBeLessThanOrEqual(0.2);
});

test("starts succeed at once after a node was killed, at the node that is asked or another one", async () => {
  await cluster.endNode(3, "SIGKILL");
  const call = caller(cluster.addressOf(0), testKey);
  await Promise.all(Array.from({ length: 12 }, () => start(call)));
  await until(async () => (await runningByNode()).size === 3);
});
