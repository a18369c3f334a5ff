import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import type { SlotStore } from "../slot-store.ts";
import type { Store } from "../store.ts";

/** Slots of users that several nodes on one database share. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

let place: string;
let remove: () => Promise<void>;
let stores: Store[];
beforeEach(async () => {
  ({ place, remove } = await engine.newPlace());
  stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  await join("one");
  await join("two");
});
afterEach(async () => {
  for (const store of stores) await store.close();
  await remove();
});

function join(incarnation: string): Promise<void> {
  return stores[0]!.nodes!.join(
    { incarnation, url: "", place: null, version: "1", isDraining: false },
    3_600_000,
  );
}

/** Ends the lease of a node, which frees nothing itself. */
async function kill(incarnation: string): Promise<void> {
  await engine.query(place, `UPDATE nodes SET expires_at = now() WHERE incarnation = '${incarnation}'`);
}

type Node = "one" | "two";
const slotsOf = (node: Node) => stores[node === "one" ? 0 : 1]!.slots as SlotStore;
const runs = (node: Node, max = 2, userId = "ann") => ({ kind: "run" as const, userId, node, max });
const places = async (node: Node, holder?: string, max?: number) =>
  (await slotsOf(node).share(runs(node, max), holder)).map(({ holder, position }) => [holder, position]);
const free = (node: Node, holder: string) => slotsOf(node).free(runs(node), holder);

test("nodes that ask at the same time get no more slots than the user has, and the others wait in order", async () => {
  const holders = Array.from({ length: 20 }, (_, index) => `run-${index}`);
  const asked = await Promise.all(
    holders.map((holder, index) => places(index % 2 ? "one" : "two", holder, 5)),
  );
  const given = asked.flat().flatMap(([holder, position]) => (position === 0 ? [holder] : []));
  expect(given).toHaveLength(5);
  expect(new Set(given).size).toBe(5);
  const waiting = [...(await places("one", undefined, 5)), ...(await places("two", undefined, 5))];
  expect(waiting.map(([, position]) => position).toSorted((a, b) => Number(a) - Number(b))).toEqual(
    Array.from({ length: 15 }, (_, index) => index + 1),
  );
});

test("a free slot goes to the holder that has waited longest, whichever node it waits at", async () => {
  for (const [node, holder] of [
    ["one", "a"],
    ["two", "b"],
    ["two", "c"],
    ["one", "d"],
  ] as const)
    await places(node, holder);
  expect(await places("one")).toEqual([["d", 2]]);
  await free("one", "a");
  expect(await places("one")).toEqual([["d", 1]]);
  expect(await places("two")).toEqual([["c", 0]]);
  // A holder that asks again has its slot, and another user has slots of their own.
  expect(await places("two", "c")).toEqual([]);
  expect(await slotsOf("one").share(runs("one", 2, "bob"), "x")).toEqual([{ holder: "x", position: 0 }]);
  // A node cannot free what another node holds.
  await free("one", "b");
  expect(await places("one")).toEqual([["d", 1]]);
});

test("the slots of a node whose lease has ended are free, and a holder that moves keeps its place", async () => {
  await places("one", "a", 1);
  await places("one", "b", 1);
  await places("two", "c", 1);
  expect(await places("two", undefined, 1)).toEqual([["c", 2]]);
  await kill("one");
  expect(await places("two", "b", 1)).toEqual([
    ["b", 0],
    ["c", 1],
  ]);
  // The former holder of the slot waits for its turn, before those that came later.
  expect(await places("two", "a", 1)).toEqual([
    ["a", 1],
    ["c", 2],
  ]);
});

test("a sandbox that runs on without its node keeps its slot", async () => {
  const sandboxes = (node: Node) => ({ kind: "sandbox" as const, userId: "ann", node, max: 1 });
  const row: SandboxRow = {
    ...{ id: "s1", userId: "ann", specId: "host", status: "RUNNING", statusDetail: null, incarnation: "1" },
    ...{ sessionKey: "key", createdAt: 1, spec: null, prepared: true, snapshotId: null, lastUsedAt: 1 },
  };
  await stores[0]!.sandboxes.create(row);
  await slotsOf("one").share(sandboxes("one"), "s1");
  await kill("one");
  const waiting = [{ holder: "s2", position: 1 }];
  expect(await slotsOf("two").share(sandboxes("two"), "s2")).toEqual(waiting);
  // The next owner of the running sandbox takes its slot, and one that is there at no cost.
  expect(await slotsOf("two").share(sandboxes("two"), "s1", { force: true })).toEqual(waiting);
  await slotsOf("two").free(sandboxes("two"), "s1");
  expect(await slotsOf("two").share(sandboxes("two"))).toEqual([{ holder: "s2", position: 0 }]);
});

test("one node at a time is asked to free a slot for a holder that has waited at another node", async () => {
  await places("one", "a", 1);
  await places("two", "b", 1);
  const shouldFree = () => slotsOf("one").shouldFree(runs("one", 1));
  expect(await shouldFree()).toBe(false);
  await expect.poll(shouldFree, { timeout: 10_000 }).toBe(true);
  expect(await shouldFree()).toBe(false);
  expect(await slotsOf("two").shouldFree(runs("two", 1))).toBe(false);
  await free("one", "a");
  await engine.query(place, "UPDATE slots SET asked_at = '2000-01-01'");
  expect(await shouldFree()).toBe(false);
});

test("a node learns that another node has freed a slot", async () => {
  const heard: string[] = [];
  slotsOf("two").onFreed((kind, userId) => heard.push(`${kind} ${userId}`));
  await places("one", "a");
  await expect
    .poll(async () => {
      await free("one", "a");
      return heard;
    })
    .toContain("run ann");
});
