import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { SandboxDriver } from "@sandpiper/sandbox/driver";
import { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import type { Egress } from "@sandpiper/sandbox/network/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { SandboxService } from "@sandpiper/sandbox/service/service";
import { testSpec } from "@sandpiper/sandbox/test/support/oci";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { startPostgresProxy } from "../support/postgres-proxy.ts";
import { altered, sh } from "../support/sandbox-service.ts";

/** Two nodes on one machine and one database, whose sandboxes change their owner during a start. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

interface Node {
  name: string;
  store: Store;
  service: SandboxService;
  driver: OciDriver;
  /** Sandboxes that the node believes to own. */
  owned: Set<string>;
}

let dir: string;
let place: string;
let remove: () => Promise<void>;
const ends: (() => Promise<void>)[] = [];

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

async function startNode(
  name: string,
  change: {
    url?: string;
    egress?: Egress;
    driver?: (one: OciDriver) => SandboxDriver;
    store?: (one: Store) => Store;
  } = {},
): Promise<Node> {
  const store = await engine.openStore(change.url ?? place);
  const node = { incarnation: name, url: "", place: null, version: "1", isDraining: false };
  await store.nodes!.join(node, 3_600_000);
  const owned = new Set<string>();
  const driver = new OciDriver({ dir: join(dir, "sandboxes") });
  const service = new SandboxService({
    ...(change.egress && { egress: change.egress }),
    driver: change.driver?.(driver) ?? driver,
    store: change.store?.(store) ?? store,
    specs: [testSpec],
    logger: { info() {}, warn() {}, error() {} },
    shared: {
      ownerOf: (id) => (owned.has(id) ? {} : undefined),
      noteCreated: (id) => void owned.add(id),
      noteRemoved() {},
    },
  });
  await service.open();
  ends.push(async () => {
    await service.close();
    await store.close();
  });
  return { name, store, service, driver, owned };
}

/** Makes a node the owner of a sandbox, while the earlier owner stands still and knows nothing. */
async function claim(id: string, next: Node): Promise<void> {
  await engine.query(
    place,
    `UPDATE sandboxes SET owner = '${next.name}', epoch = epoch + 1 WHERE id = '${id}'`,
  );
  next.owned.add(id);
  await next.service.adopt([id]);
}

/** A network whose port in the sandbox another owner has, for which a start ends the processes. */
const occupiedNetwork = {
  startPolicy: ({ policy }) => policy,
  environment: async () => ({}),
  secretEnvironment: async () => ({}),
  files: () => [],
  attach: async () => {
    throw new PlatformError("PortInUse", { port: 3128 });
  },
  detach() {},
  forget: async () => {},
  reap: async () => {},
  watchProblems: () => () => [],
  lastTraffic: () => undefined,
  decisions: async () => [],
  close: async () => {},
} satisfies Egress;

const read = async (node: Node, id: string): Promise<SandboxRow> => (await node.store.sandboxes.get(id))!;

/** A promise that a test resolves, and one that says that something waits for it. */
function makeGate() {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const pass = async () => {
    reached.resolve();
    await opened.promise;
  };
  return { reached: reached.promise, open: opened.resolve, pass };
}

test.each(["before", "after"] as const)(
  "a node that loses a sandbox %s the driver starts it leaves the next owner's processes alone",
  async (moment) => {
    const gate = makeGate();
    const seen: string[] = [];
    const first = await startNode("first", {
      egress: occupiedNetwork,
      driver: (one) =>
        altered(one, {
          start: async (request) => {
            if (moment === "before") await gate.pass();
            seen.push("start");
            await one.start(request);
            if (moment === "after") await gate.pass();
          },
          stop: async (id) => {
            seen.push("stop");
            await one.stop(id);
          },
        }),
    });
    const next = await startNode("next");
    const { id } = await first.service.create("me");
    await gate.reached;
    await claim(id, next);
    const sandbox = await next.service.running(id);
    expect(await sh(sandbox, "sleep 300 >/dev/null 2>&1 & echo $! >pid; echo next >owner")).toBe("");
    const record = await read(next, id);

    // The first node wakes up and finds out that its lease has ended.
    first.owned.delete(id);
    gate.open();
    await expect(first.service.running(id)).rejects.toMatchObject({ code: "SandboxMoved" });
    expect(seen).toEqual(["start"]);
    expect(await sh(sandbox, "kill -0 $(cat pid) && cat owner")).toBe("next\n");
    expect(await read(next, id)).toEqual(record);
    expect(record).toMatchObject({ status: "RUNNING" });
  },
);

test("a node that has lost a sandbox does not begin to start it", async () => {
  const gate = makeGate();
  let starts = 0;
  const first = await startNode("first", {
    driver: (one) =>
      altered(one, {
        prepare: async (...given) => {
          await gate.pass();
          return one.prepare(...given);
        },
        start: async (request) => {
          starts++;
          await one.start(request);
        },
      }),
  });
  const next = await startNode("next");
  const { id } = await first.service.create("me");
  await gate.reached;
  await claim(id, next);
  first.owned.delete(id);
  gate.open();
  await expect(first.service.running(id)).rejects.toMatchObject({ code: "SandboxMoved" });
  expect(starts).toBe(0);
  expect(await sh(await next.service.running(id), "echo works")).toBe("works\n");
});

test("a connection to the database that breaks when a start ends does not fail the sandbox", async () => {
  const proxy = await startPostgresProxy(server.port);
  ends.push(() => proxy.close());
  const statuses: string[] = [];
  let isDue = true;
  const node = await startNode("first", {
    url: proxy.url(place),
    store: (one) => {
      const update: Store["sandboxes"]["update"] = async (id, change) => {
        if (change.status === "RUNNING" && isDue) proxy.cutsAnswerTo = "RUNNING";
        if (change.status === "RUNNING") isDue = false;
        if (change.status) statuses.push(change.status);
        await one.sandboxes.update(id, change);
      };
      return { ...one, sandboxes: altered(one.sandboxes, { update }) };
    },
  });
  const { id } = await node.service.create("me");
  await expect.poll(() => proxy.cuts).toBe(1);
  expect(await sh(await node.service.running(id), "echo works")).toBe("works\n");
  expect(statuses).toEqual(["RUNNING", "RUNNING"]);
  expect(await read(node, id)).toMatchObject({ status: "RUNNING" });
});
