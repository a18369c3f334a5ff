import { textContent } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { SlotStore } from "../../src/store/slot-store.ts";
import type { Store } from "../../src/store/store.ts";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { startPostgresProxy } from "../support/postgres-proxy.ts";
import { conversationRow } from "../support/store.ts";
import { SandboxRecords } from "../support/test-sandboxes.ts";
import { TestNode, World } from "./node.ts";

/** Two nodes on one database, of which a user may run one conversation at a time. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

let place: string;
let remove: () => Promise<void>;
let world: World;
let sandboxes: SandboxRecords;
let one: TestNode;
let other: TestNode;
const ends: (() => Promise<void>)[] = [];

beforeEach(async () => {
  ({ place, remove } = await engine.newPlace());
  world = new World();
  // Each model call but the last one of a conversation names a command after the user's words.
  world.answer = (last) => {
    const name = /"run (\w+)"/.exec(last)?.[1];
    return name ? { call: name } : { finish: "done" };
  };
  sandboxes = new SandboxRecords();
  one = await startNode("one");
});
afterEach(async () => {
  for (const held of world.holds.values()) held.resolve();
  for (const end of ends.splice(0).reverse()) await end();
  await remove();
});

async function startNode(
  name: string,
  database = place,
  adapt = (slots: SlotStore) => slots,
): Promise<TestNode> {
  const store = await engine.openStore(database);
  const adapted: Store = Object.create(store, { slots: { value: adapt(store.slots!) } });
  const node = new TestNode(adapted, { name, world, sandboxes, maxRuns: 1 });
  await node.store.nodes!.join(
    { incarnation: name, url: "", place: null, version: "1", isDraining: false },
    3_600_000,
  );
  await node.open();
  ends.push(() => node.close());
  return node;
}

/** Sends a message that makes a new conversation at the node run a held command of this name. */
async function run(node: TestNode, name: string, userId = "default") {
  const sandboxId = sandboxes.add({ userId }).id;
  const row = conversationRow({ sandboxId, userId });
  await node.store.conversations.create(row);
  await give(sandboxId, node);
  const held = world.hold(name);
  await node.conversations.commands.send(row.id, [textContent(`run ${name}`)], { run: true });
  return { id: row.id, sandboxId, held };
}

let epoch = 0;
async function give(sandboxId: string, to: TestNode): Promise<void> {
  epoch++;
  await engine.query(
    place,
    `UPDATE conversations SET owner = '${to.incarnation}', epoch = ${epoch} WHERE sandbox_id = '${sandboxId}'`,
  );
  to.owned.set(sandboxId, epoch);
}

const commands = (...names: string[]) => expect.poll(() => world.commands).toEqual(names);
const finished = (id: string) =>
  expect.poll(async () => (await one.store.conversations.get(id))!.summary.executionStatus).toBe("finished");
const position = async (node: TestNode, id: string) =>
  ((await node.conversations.live.fullState(id)).agent_state as { run_queue?: { position: number } })
    .run_queue?.position;

test("a user's runs at all nodes are limited together, and each waits for its turn", async () => {
  other = await startNode("other");
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(other, "second");
  const third = await run(one, "third");
  const fourth = await run(other, "fourth");
  expect(await position(other, second.id)).toBe(1);
  expect(await position(one, third.id)).toBe(2);
  expect(await position(other, fourth.id)).toBe(3);
  const strange = await run(other, "strange", "somebody");
  await commands("first on one", "strange on other");
  strange.held.resolve();
  first.held.resolve();
  await commands("first on one", "strange on other", "second on other");
  await expect.poll(() => position(other, fourth.id), { timeout: 10_000 }).toBe(2);
  // A conversation that is stopped while it waits leaves the queue.
  await one.conversations.commands.pause(third.id);
  second.held.resolve();
  await commands("first on one", "strange on other", "second on other", "fourth on other");
  fourth.held.resolve();
  for (const { id } of [first, second, fourth]) await finished(id);
  expect(world.commands).toHaveLength(4);
});

test("a waiting run begins when notifications are lost", async () => {
  const proxy = await startPostgresProxy(server.port);
  ends.push(() => proxy.close());
  proxy.dropsNotifications = true;
  other = await startNode("other", proxy.url(place));
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(other, "second");
  expect(await position(other, second.id)).toBe(1);
  first.held.resolve();
  await commands("first on one", "second on other");
  second.held.resolve();
  await finished(second.id);
});

test("the slots of a dead node are free, and a run that it left waits for its turn", async () => {
  other = await startNode("other");
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(other, "second");
  expect(await position(other, second.id)).toBe(1);
  await engine.query(place, "UPDATE nodes SET expires_at = now() WHERE incarnation = 'one'");
  await commands("first on one", "second on other");
  one.owned.delete(first.sandboxId);
  await give(first.sandboxId, other);
  await other.conversations.adopt([first.sandboxId]);
  expect(await position(other, first.id)).toBe(1);
  second.held.resolve();
  first.held.resolve();
  await finished(first.id);
});

/** Moves a sandbox that a node hands over. */
async function move(sandboxId: string, from: TestNode, to: TestNode): Promise<void> {
  await from.conversations.release([sandboxId], { lost: false, graceMs: 50 });
  from.owned.delete(sandboxId);
  await give(sandboxId, to);
  await to.conversations.adopt([sandboxId]);
}

test("a run that is handed over keeps its slot, and one that waits keeps its place", async () => {
  other = await startNode("other");
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(one, "second");
  const third = await run(other, "third");
  expect(await position(other, third.id)).toBe(2);
  await move(second.sandboxId, one, other);
  expect(await position(other, second.id)).toBe(1);
  await expect.poll(() => position(other, third.id)).toBe(2);
  await move(first.sandboxId, one, other);
  await commands("first on one", "first goes on on other");
  first.held.resolve();
  await commands("first on one", "first goes on on other", "second on other");
  second.held.resolve();
  third.held.resolve();
  for (const { id } of [first, second, third]) await finished(id);
});

test("a run that moves between two commands keeps its slot", async () => {
  other = await startNode("other");
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(other, "second");
  expect(await position(other, second.id)).toBe(1);
  const released = one.conversations.release([first.sandboxId], { lost: false, graceMs: 20_000 });
  first.held.resolve();
  await released;
  one.owned.delete(first.sandboxId);
  await give(first.sandboxId, other);
  const before = world.calls.length;
  await other.conversations.adopt([first.sandboxId]);
  await expect.poll(() => world.calls.length).toBeGreaterThan(before);
  expect(world.calls[before]).toMatch(/first is done.* on other$/);
  second.held.resolve();
  for (const { id } of [first, second]) await finished(id);
});

test("a waiting run begins when the answer that gives it its slot is lost", async () => {
  let lost = 0;
  other = await startNode("other", place, (slots) => ({
    share: async (of, holder, options) => {
      const places = await slots.share(of, holder, options);
      if (holder !== undefined || !places.some((one) => one.position === 0) || lost > 0) return places;
      lost++;
      throw new Error("the answer was lost");
    },
    free: (...given) => slots.free(...given),
    usersWaiting: (of) => slots.usersWaiting(of),
    shouldFree: (of) => slots.shouldFree(of),
    onFreed: (listener) => slots.onFreed(listener),
  }));
  const first = await run(one, "first");
  await commands("first on one");
  const second = await run(other, "second");
  first.held.resolve();
  await expect.poll(() => world.commands, { timeout: 10_000 }).toEqual(["first on one", "second on other"]);
  expect(lost).toBe(1);
  second.held.resolve();
  await finished(second.id);
});

test("a slot is free again when the answer to its request was lost and nobody asks again", async () => {
  let lost = 0;
  other = await startNode("other", place, (slots) => ({
    share: async (of, holder, options) => {
      const places = await slots.share(of, holder, options);
      if (holder === undefined || lost > 0) return places;
      lost++;
      throw new Error("the answer was lost");
    },
    free: (...given) => slots.free(...given),
    usersWaiting: (of) => slots.usersWaiting(of),
    shouldFree: (of) => slots.shouldFree(of),
    onFreed: (listener) => slots.onFreed(listener),
  }));
  const first = await run(other, "first");
  expect(lost).toBe(1);
  await other.conversations.commands.pause(first.id);
  const second = await run(one, "second");
  await expect.poll(() => world.commands, { timeout: 10_000 }).toEqual(["second on one"]);
  second.held.resolve();
  await finished(second.id);
});

test("a node that cannot return a slot returns it when the database is back", async () => {
  other = await startNode("other");
  const first = await run(other, "first");
  await commands("first on other");
  const second = await run(one, "second");
  expect(await position(one, second.id)).toBe(1);
  await engine.query(
    place,
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
       'BEGIN PERFORM nextval(''refused''); RAISE EXCEPTION ''refused''; END'`,
  );
  await engine.query(place, "CREATE SEQUENCE refused");
  await engine.query(
    place,
    "CREATE TRIGGER refuse BEFORE DELETE ON slots FOR EACH ROW EXECUTE FUNCTION refuse()",
  );
  first.held.resolve();
  await expect
    .poll(() => engine.query(place, "SELECT is_called FROM refused"))
    .toEqual([{ is_called: true }]);
  expect(await position(one, second.id)).toBe(1);
  await engine.query(place, "DROP TRIGGER refuse ON slots");
  await commands("first on other", "second on one");
  second.held.resolve();
  await finished(second.id);
});
