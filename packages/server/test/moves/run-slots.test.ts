import { textContent } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
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

async function startNode(name: string, database = place): Promise<TestNode> {
  const node = new TestNode(await engine.openStore(database), { name, world, sandboxes, maxRuns: 1 });
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
