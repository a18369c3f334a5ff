import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { SandboxService } from "@sandpiper/sandbox/service/service";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { SharedSlots } from "../../src/nodes/shared-slots.ts";
import type { Store } from "../../src/store/store.ts";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";

/** Two servers on one machine and one database, and the running sandboxes of a user. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

let place: string;
let dir: string;
let remove: () => Promise<void>;
let one: Node;
let two: Node;
const ends: (() => Promise<void>)[] = [];

interface Node {
  store: Store;
  service: SandboxService;
  /** Creates a sandbox that is in use from its start, and ends the use with `release`. */
  use(): Promise<{ id: string; release(): void }>;
}

beforeEach(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  ({ place, remove } = await engine.newPlace());
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  const last = new OciDriver({ dir: join(dir, "sandboxes") });
  await last.open();
  for (const { id } of await last.list()) await last.remove(id);
  await last.close();
  await remove();
  rmSync(dir, { recursive: true, force: true });
});

async function startNode(incarnation: string, maxPerUser: number): Promise<Node> {
  const store = await engine.openStore(place);
  await store.nodes!.join({ incarnation, url: "", place: null, version: "1", isDraining: false }, 3_600_000);
  const logger = { info() {}, warn() {}, error() {} };
  const node = () => incarnation;
  const slots = new SharedSlots({ slots: store.slots!, kind: "sandbox", max: maxPerUser, node, logger });
  const service = new SandboxService({
    ...{ driver: new OciDriver({ dir: join(dir, "sandboxes") }), store, specs: [testSpec], logger },
    ...{
      maxPerUser,
      shared: { ownerOf: () => ({}), noteCreated() {}, noteRemoved() {} },
      sharedSlots: slots,
    },
  });
  await service.open();
  ends.push(async () => {
    await service.close();
    slots.close();
    await store.close();
  });
  return {
    store,
    service,
    async use() {
      const { id } = await service.create("me");
      const release = service.acquire(id, { busy: () => true, beforeStop: async () => {} });
      return { id, release };
    },
  };
}

const row = (id: string) => one.store.sandboxes.get(id);
const statusOf = async (id: string) => (await row(id))?.status;
const becomes = (id: string, status: string) => expect.poll(() => statusOf(id)).toBe(status);
const waiting = (position: number) => ({
  status: "STARTING",
  statusDetail: `Waiting in position ${position}: all 1 sandboxes that you may run at a time are in use.`,
});

test("a user's running sandboxes at all servers are limited together; an idle one is paused, first of the same server", async () => {
  [one, two] = [await startNode("one", 2), await startNode("two", 2)];
  const first = (await one.service.create("me")).id;
  await becomes(first, "RUNNING");
  const second = (await two.service.create("me")).id;
  await becomes(second, "RUNNING");
  const third = (await two.service.create("me")).id;
  await becomes(third, "RUNNING");
  expect([await statusOf(first), await statusOf(second)]).toEqual(["RUNNING", "PAUSED"]);
  // The limit also holds for concurrent starts.
  const more = await Promise.all([one, two, one, two].map(({ service }) => service.create("me")));
  for (const { id } of more) await expect.poll(() => statusOf(id)).not.toBe("STARTING");
  const { items } = await one.service.search("me", { limit: 20 });
  expect(items.filter(({ status }) => status === "RUNNING")).toHaveLength(2);
});

test("a sandbox waits for one in use at another server, which pauses it when it is idle", async () => {
  [one, two] = [await startNode("one", 1), await startNode("two", 1)];
  const used = await one.use();
  await becomes(used.id, "RUNNING");
  const next = await two.use();
  await expect.poll(() => row(next.id)).toMatchObject(waiting(1));
  const last = await one.use();
  await expect.poll(() => row(last.id)).toMatchObject(waiting(2));
  expect(await statusOf(used.id)).toBe("RUNNING");
  used.release();
  await becomes(next.id, "RUNNING");
  expect(await statusOf(used.id)).toBe("PAUSED");
  await expect.poll(() => row(last.id)).toMatchObject(waiting(1));
  await two.service.remove("me", next.id);
  await becomes(last.id, "RUNNING");
});

test("a sandbox that runs on without its server counts, and its next server pauses it", async () => {
  [one, two] = [await startNode("one", 1), await startNode("two", 1)];
  const left = await one.use();
  await becomes(left.id, "RUNNING");
  await engine.query(place, "UPDATE nodes SET expires_at = now() WHERE incarnation = 'one'");
  const next = await two.use();
  await expect.poll(() => row(next.id)).toMatchObject(waiting(1));
  await engine.query(place, `UPDATE sandboxes SET owner = 'two' WHERE id = '${left.id}'`);
  await one.service.release([left.id], { lost: true });
  await two.service.adopt([left.id]);
  await becomes(next.id, "RUNNING");
  expect(await statusOf(left.id)).toBe("PAUSED");
});
