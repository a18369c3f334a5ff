import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { postgresEngine } from "../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../test/support/postgres.ts";
import { startPostgresProxy } from "../../test/support/postgres-proxy.ts";
import { conversationRow } from "../../test/support/store.ts";
import type { Store } from "../store/store.ts";
import { newSandbox } from "./api.ts";
import { ClusterOwnership } from "./cluster-ownership.ts";
import { NodePresence } from "./presence.ts";

/** Nodes on a real database, each with its own connections. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);
const logger = { info() {}, warn() {}, error() {} } as never;

let place: string;
let removePlace: () => Promise<void> | void;
let store: Store;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  ({ place, remove: removePlace } = await engine.newPlace());
  store = await engine.openStore(place);
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  await store.close();
  await removePlace();
});

interface Node {
  ownership: ClusterOwnership;
  adopted: string[];
  released: { ids: readonly string[]; lost: boolean }[];
}

async function startNode(
  own: {
    at?: string | null;
    url?: string;
    database?: string;
    lostAfterMs?: number;
    presence?: NodePresence;
  } = {},
) {
  const database = await engine.openStore(own.database ?? place);
  const node: Node = {
    ownership: new ClusterOwnership({
      nodes: database.nodes!,
      describe: () => ({
        url: own.url ?? "http://127.0.0.1:1",
        place: own.at === undefined ? "machine" : own.at,
        version: "1",
      }),
      lostAfterMs: own.lostAfterMs ?? 60_000,
      presence: own.presence,
      logger,
    }),
    adopted: [],
    released: [],
  };
  await node.ownership.open({
    async adopt(claimed) {
      node.adopted.push(...claimed.map(({ id }) => id));
    },
    async adoptStarts() {},
    async release(ids, { lost }) {
      node.released.push({ ids, lost });
    },
  });
  ends.push(async () => {
    await node.ownership.close();
    await database.close();
  });
  return node;
}

/** Creates running sandboxes with one conversation each. */
async function createSandboxes(count: number, at: string | null = "machine"): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, index) => `sandbox-${index}`);
  for (const id of ids) {
    await store.conversations.create(conversationRow({ sandboxId: id }));
    await engine.query(
      place,
      `INSERT INTO sandboxes (id, user_id, spec_id, status, incarnation, session_key, created_at, place)
       VALUES ('${id}', 'u', 's', 'RUNNING', 'i', '', 0, ${at === null ? "NULL" : `'${at}'`})`,
    );
  }
  return ids;
}

test("each sandbox has one owner, and several nodes that start at once share them", async () => {
  const ids = await createSandboxes(40);
  const nodes = await Promise.all([startNode(), startNode(), startNode()]);
  expect(nodes.flatMap(({ adopted }) => adopted).toSorted()).toEqual(ids.toSorted());
  for (const { adopted, ownership } of nodes)
    expect(adopted.map((id) => ownership.ownerOf(id)?.epoch)).toEqual(adopted.map(() => 1));
  const [first] = ids;
  const found = await Promise.all(nodes.map(({ ownership }) => ownership.locate(first!)));
  expect(found.filter((where) => where === "here")).toHaveLength(1);
  const owner = nodes[found.indexOf("here")]!.ownership.incarnation;
  for (const where of found) if (where !== "here") expect(where.incarnation).toBe(owner);
});

test("a node that ends hands its sandboxes to another one, with a higher epoch", async () => {
  const ids = await createSandboxes(5);
  const one = await startNode();
  expect(one.adopted.toSorted()).toEqual(ids.toSorted());
  const other = await startNode();
  expect(other.adopted).toEqual([]);
  await one.ownership.drain();
  expect(one.released.map(({ lost }) => lost)).toEqual(ids.map(() => false));
  expect(one.released.flatMap((some) => some.ids).toSorted()).toEqual(ids.toSorted());
  expect(one.ownership.ownerOf(ids[0]!)).toBeUndefined();
  await expect.poll(() => other.adopted.length, { timeout: 5_000 }).toBe(5);
  expect(other.ownership.ownerOf(ids[0]!)?.epoch).toBe(2);
});

test("a node that the database does not hear gives up before another node claims its sandboxes", async () => {
  const ids = await createSandboxes(3);
  const proxy = await startPostgresProxy(server.port);
  ends.push(() => proxy.close());
  const cut = await startNode({ database: proxy.url(place) });
  expect(cut.adopted).toHaveLength(3);
  const other = await startNode();
  const lostAt = expect
    .poll(() => cut.released.length, { timeout: 10_000 })
    .toBe(1)
    .then(() => performance.now());
  const takenAt = expect
    .poll(() => other.adopted.length, { timeout: 15_000 })
    .toBe(3)
    .then(() => performance.now());
  await proxy.close();
  expect(await lostAt).toBeLessThan(await takenAt);
  expect(cut.released[0]!.lost).toBe(true);
  expect(ids.map((id) => cut.ownership.ownerOf(id))).toEqual([undefined, undefined, undefined]);
});

test("a node ends the lease of a process that has ended on its machine, and no other lease", async () => {
  const [ofDead, ofFrozen] = await createSandboxes(2);
  const folder = await mkdtemp(join(tmpdir(), "sandpiper-presence-"));
  ends.push(() => rm(folder, { recursive: true }));
  await engine.query(place, "UPDATE conversations SET execution_status = 'running'");
  const countEnds = async () => {
    const rows = (await Promise.all([ofDead!, ofFrozen!].map((id) => store.conversations.listBySandbox(id))))
      .flat()
      .map(({ id }) => id);
    const ends = await store.conversations.listUncleanEnds(rows);
    return rows.map((id) => ends.get(id));
  };
  // Both leases last for an hour.
  const nodes = { dead: ofDead!, frozen: ofFrozen! };
  for (const [incarnation, sandbox] of Object.entries(nodes)) {
    const node = { incarnation, url: "http://127.0.0.1:9", place: "machine", version: "1" };
    await store.nodes!.join({ ...node, isDraining: false }, 3_600_000);
    await engine.query(place, `UPDATE sandboxes SET owner = '${incarnation}' WHERE id = '${sandbox}'`);
    await engine.query(
      place,
      `UPDATE conversations SET owner = '${incarnation}' WHERE sandbox_id = '${sandbox}'`,
    );
  }
  // Nobody holds the lock of a process that was killed.
  const there = join(folder, "nodes");
  await mkdir(there);
  await writeFile(join(there, "dead"), "");
  const frozen = new NodePresence(there);
  frozen.enter("frozen");
  const node = await startNode({ presence: new NodePresence(there) });
  expect(node.adopted).toEqual([ofDead]);
  expect(await readdir(there)).toEqual(["frozen", node.ownership.incarnation].toSorted());
  expect((await store.nodes!.list()).map(({ incarnation }) => incarnation)).toContain("frozen");
  expect(await countEnds()).toEqual([1, 0]);
  // A node whose lease has expired may live, so the conversation has not ended it.
  await engine.query(place, "UPDATE nodes SET expires_at = now() WHERE incarnation = 'frozen'");
  await expect.poll(() => node.adopted).toEqual([ofDead, ofFrozen]);
  expect(await countEnds()).toEqual([1, 0]);
  // A repeated claim, whose first answer was lost, counts nothing.
  await store.nodes!.claim({
    ...{ incarnation: node.ownership.incarnation, which: [ofDead!], known: [], limit: 1, lostAfterMs: 0 },
  });
  expect(await countEnds()).toEqual([1, 0]);
  frozen.leave("frozen");
});

test("a node claims a sandbox of another machine only when that machine is gone for long", async () => {
  const [id] = await createSandboxes(1, "elsewhere");
  const patient = await startNode({ lostAfterMs: 60_000 });
  expect(patient.adopted).toEqual([]);
  const there = await startNode({ at: "elsewhere", url: "http://127.0.0.1:2" });
  expect(there.adopted).toEqual([id]);
  expect(await patient.ownership.locate(id!)).toMatchObject({ url: "http://127.0.0.1:2" });
  await there.ownership.close();
  await expect(patient.ownership.locate(id!)).rejects.toMatchObject({ code: "NodeUnreachable" });
  const hasty = await startNode({ lostAfterMs: 0 });
  await expect.poll(() => hasty.adopted).toEqual([id]);
});

test("a node claims resting sandboxes too, and first those that a request uses", async () => {
  const ids = await createSandboxes(80, null);
  await engine.query(place, `UPDATE sandboxes SET status = 'PAUSED'`);
  const node = await startNode({ at: null });
  const unclaimed = ids.find((id) => !node.adopted.includes(id))!;
  expect(await node.ownership.locate(unclaimed)).toBe("here");
  expect(node.ownership.ownerOf(unclaimed)).toMatchObject({ epoch: 1 });
  await expect.poll(() => new Set(node.adopted).size, { timeout: 10_000 }).toBe(80);
  expect(node.adopted).toHaveLength(80);
  expect(await node.ownership.locate("unknown")).toBe("here");
});

test("a node claims a sandbox again when the answer to its first claim was lost", async () => {
  const [id] = await createSandboxes(1);
  const node = await startNode();
  expect(node.adopted).toEqual([id]);
  // The database names this node for another sandbox, as after a claim whose answer was lost.
  await engine.query(
    place,
    `INSERT INTO sandboxes (id, user_id, spec_id, status, incarnation, session_key, created_at, place, owner, epoch)
     VALUES ('lost', 'u', 's', 'RUNNING', 'i', '', 0, 'machine', '${node.ownership.incarnation}', 1)`,
  );
  expect(await node.ownership.locate("lost")).toBe("here");
  expect(node.ownership.ownerOf("lost")).toMatchObject({ epoch: 2 });
});

test("runs in a sandbox that was deleted may still record their end", async () => {
  const [id] = await createSandboxes(1);
  const node = await startNode();
  await engine.query(place, `DELETE FROM sandboxes WHERE id = '${id}'`);
  node.ownership.noteRemoved(id!);
  expect(node.ownership.ownerOf(id!)).toMatchObject({ epoch: 1 });
});

test("a conversation that runs in a deleted sandbox goes on in another node", async () => {
  const [deleted, resting] = await createSandboxes(2);
  const one = await startNode();
  await engine.query(
    place,
    `UPDATE conversations SET execution_status = 'running' WHERE sandbox_id = '${deleted}'`,
  );
  await store.sandboxes.remove(deleted!);
  await store.sandboxes.remove(resting!);
  const [other, third] = await Promise.all([startNode(), startNode()]);
  await one.ownership.close();
  const adopted = () => [...other.adopted, ...third.adopted];
  await expect.poll(adopted, { timeout: 10_000 }).toEqual([deleted]);
  const owner = other.adopted.length > 0 ? other : third;
  expect(owner.ownership.ownerOf(deleted!)?.epoch).toBe(2);
  const stored = await engine.query(
    place,
    `SELECT owner, epoch FROM conversations WHERE sandbox_id = '${deleted}'`,
  );
  expect(stored).toEqual([{ owner: owner.ownership.incarnation, epoch: "2" }]);
});

test("the node with the fewest running sandboxes creates the next one", async () => {
  await createSandboxes(4);
  const [one, other] = [await startNode(), await startNode({ url: "http://127.0.0.1:2" })];
  expect(one.adopted).toHaveLength(4);
  expect(await one.ownership.locate(newSandbox)).toMatchObject({ url: "http://127.0.0.1:2" });
  expect(await other.ownership.locate(newSandbox)).toBe("here");
  await engine.query(place, "UPDATE sandboxes SET status = 'PAUSED' WHERE id <> 'sandbox-0'");
  await expect.poll(() => one.ownership.locate(newSandbox)).toBe("here");
  await one.ownership.drain();
  expect(await one.ownership.locate(newSandbox)).toMatchObject({ url: "http://127.0.0.1:2" });
  expect(await other.ownership.locate(newSandbox)).toBe("here");
});
