import { PlatformError } from "@sandpiper/core/errors";
import type { CreateOptions } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { AppConversationStartRequest } from "@sandpiper/wire";
import { newId, parseId, textContent } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { SandboxRecords } from "../support/test-sandboxes.ts";
import { readLog, TestNode, World } from "./node.ts";

/** Starts on two nodes with one database. The records of their sandboxes are in the database. */

const user = "default";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

/** The sandboxes of a node: records in its store, and no engine. */
class NodeSandboxes extends SandboxRecords {
  readonly store: Store;
  node: TestNode | undefined;
  /** Returns the sandbox of a start when it runs. */
  start: () => Promise<Sandbox> = () => new Promise(() => {});

  constructor(store: Store) {
    super();
    this.store = store;
  }

  override async create(userId: string, specId?: string, options: CreateOptions = {}) {
    const row = await super.create(userId, specId, options);
    await this.store.sandboxes.create(row);
    this.node!.owned.set(row.id, 1);
    return row;
  }

  override async get(userId: string, id: string) {
    const row = await this.store.sandboxes.get(id);
    return row?.userId === userId ? row : undefined;
  }

  override async remove(_userId: string, _id: string, removeRecord: () => Promise<unknown> = async () => {}) {
    await removeRecord();
  }

  override running = () => this.start();
}

let place: string;
let remove: () => Promise<void>;
let one: TestNode;
let two: TestNode;
let sandboxes: Map<TestNode, NodeSandboxes>;
const ends: (() => Promise<void>)[] = [];

beforeEach(async () => {
  ({ place, remove } = await engine.newPlace());
  sandboxes = new Map();
  [one, two] = [await startNode("one"), await startNode("two")];
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  await remove();
});

async function startNode(name: string): Promise<TestNode> {
  const store = await engine.openStore(place);
  const records = new NodeSandboxes(store);
  const node = new TestNode(store, { name, world: new World(), sandboxes: records });
  records.node = node;
  sandboxes.set(node, records);
  await store.nodes!.join(
    { incarnation: name, url: "", place: null, version: "1", isDraining: false },
    3_600_000,
  );
  await node.open();
  ends.push(() => node.close());
  return node;
}

const start = (node: TestNode, request: AppConversationStartRequest) =>
  node.conversations.starts.start(user, request);

const query = (sql: string) => engine.query(place, sql);

/** The only start task of a conversation. */
async function taskOf(conversationId: string) {
  const filter = { userId: user, conversationId };
  const { items } = await one.store.startTasks.search(filter, { limit: 2, sort: "CREATED_AT" });
  expect(items).toHaveLength(1);
  return items[0]!;
}

/** Makes the lease of a node end in the database. The node does not know of it. */
async function expire({ incarnation }: TestNode): Promise<void> {
  await query(
    `UPDATE nodes SET expires_at = clock_timestamp() - interval '1 s' WHERE incarnation = '${incarnation}'`,
  );
}

/** Makes a node the owner of a sandbox whose owner's lease has ended. */
async function take(node: TestNode, sandboxId: string): Promise<void> {
  const { incarnation, store } = node;
  const how = { incarnation, limit: 1, lostAfterMs: 3_600_000 };
  const [claimed] = await store.nodes!.claim({ ...how, which: [sandboxId] });
  node.owned.set(sandboxId, claimed!.epoch);
  await node.conversations.adopt([sandboxId]);
}

/** Makes a node wait before it stores a conversation, until `held` is resolved. */
function holdCreation({ store }: TestNode) {
  const [reached, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const create = store.conversations.create.bind(store.conversations);
  store.conversations.create = async (...conversation) => {
    reached.resolve();
    await held.promise;
    return create(...conversation);
  };
  return { reached: reached.promise, held };
}

const isOver = ({ status }: { status: string }) => status === "READY" || status === "ERROR";

test("two nodes that get one start at once make one start, and both answer with its task", async () => {
  for (let round = 0; round < 10; round++) {
    const request = { conversation_id: newId(), title: "Same", secrets: { KEY: "value" } };
    const tasks = await Promise.all([start(one, request), start(two, request)]);
    expect(tasks[0]!.id).toBe(tasks[1]!.id);
    const { conversation_id: id } = request;
    await expect.poll(() => one.store.conversations.get(id)).toBeDefined();
    const { sandboxId } = await taskOf(id);
    expect((await one.store.conversations.get(id))!.sandboxId).toBe(sandboxId);
    expect(await one.store.conversationSecrets.get(id)).toMatchObject({ sandboxId });
  }
  expect(await query("SELECT id FROM sandboxes")).toHaveLength(10);
});

test("of two different starts with one id, the other one is refused and takes nothing from the first", async () => {
  const logging = [{ kind: "LoggingCallbackProcessor" }] as AppConversationStartRequest["processors"];
  for (let round = 0; round < 10; round++) {
    const id = newId();
    const titled = (title: string) =>
      ({ conversation_id: id, title, secrets: { KEY: title }, processors: logging }) as const;
    const outcomes = await Promise.allSettled([start(one, titled("one")), start(two, titled("two"))]);
    const [refused, ...others] = outcomes.filter((outcome) => outcome.status === "rejected");
    expect([refused!.reason, others]).toMatchObject([{ code: "ConversationExists" }, []]);
    const title = outcomes[0]!.status === "fulfilled" ? "one" : "two";
    await expect.poll(async () => (await one.store.conversations.get(id))?.title).toBe(title);
    expect((await one.store.conversationSecrets.get(id))!.values).toEqual({ KEY: title });
    expect(await one.store.callbacks.listByConversation(id)).toHaveLength(1);
    expect(isOver(await taskOf(id))).toBe(false);
  }
});

test("a node that stood still does not end a start that another node continues", async () => {
  const failing = Promise.withResolvers<Sandbox>();
  const reached = Promise.withResolvers<void>();
  sandboxes.get(one)!.start = () => {
    reached.resolve();
    return failing.promise;
  };
  const id = newId();
  const stream = await one.conversations.starts.startStream(user, { conversation_id: id });
  const states = Array.fromAsync(stream, ({ status }) => status);
  await reached.promise;
  const { sandboxId } = await taskOf(id);
  await expire(one);
  await take(two, sandboxId!);
  failing.reject(new PlatformError("SandboxStartFailed", { reason: "the node stood still" }));
  // The reader at the first node sees no end of the start.
  expect((await states).at(-1)).toBe("WAITING_FOR_SANDBOX");
  expect(isOver(await taskOf(id))).toBe(false);
  expect(await readLog(two.store, id)).toEqual([]);
});

test("a node that stood still does not remove the conversation that another node has stored", async () => {
  const creation = holdCreation(one);
  const id = newId();
  const started = start(one, { conversation_id: id, secrets: { KEY: "value" } });
  await creation.reached;
  const { sandboxId } = await taskOf(id);
  await expire(one);
  await take(two, sandboxId!);
  await expect.poll(() => two.store.conversations.get(id)).toBeDefined();
  creation.held.reject(new PlatformError("SandboxStartFailed", { reason: "the node stood still" }));
  await started;
  expect(await two.store.conversations.get(id)).toBeDefined();
  expect(await two.store.conversationSecrets.get(id)).toBeDefined();
  expect(await two.store.sandboxes.get(sandboxId!)).toBeDefined();
  expect(isOver(await taskOf(id))).toBe(false);
});

test("a node that stands still before it removes a failed start removes nothing of another node's", async () => {
  const { conversations } = one.store;
  const [reached, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const remove = conversations.remove.bind(conversations);
  conversations.remove = async (...conversation) => {
    reached.resolve();
    await held.promise;
    return remove(...conversation);
  };
  conversations.create = () => Promise.reject(new Error("the start fails"));
  const id = newId();
  const started = start(one, { conversation_id: id });
  await reached.promise;
  const { sandboxId } = await taskOf(id);
  await expire(one);
  await take(two, sandboxId!);
  await expect.poll(() => two.store.conversations.get(id)).toBeDefined();
  held.resolve();
  await started;
  expect(await two.store.conversations.get(id)).toBeDefined();
  expect(await two.store.sandboxes.get(sandboxId!)).toBeDefined();
  expect(isOver(await taskOf(id))).toBe(false);
});

test("a start goes on when the last write of its earlier node comes late", async () => {
  const creation = holdCreation(one);
  const late = holdCreation(two);
  const id = newId();
  const started = start(one, { conversation_id: id });
  await creation.reached;
  const { sandboxId } = await taskOf(id);
  await expire(one);
  const waits = Promise.withResolvers<void>();
  sandboxes.get(two)!.start = () => {
    waits.resolve();
    return new Promise(() => {});
  };
  await take(two, sandboxId!);
  await late.reached;
  creation.held.resolve();
  await started;
  await expect.poll(() => two.store.conversations.get(id)).toBeDefined();
  late.held.resolve();
  await waits.promise;
  expect(isOver(await taskOf(id))).toBe(false);
  expect((await two.store.conversations.get(id))!.sandboxId).toBe(sandboxId);
});

test("a start at a node without a lease waits, stores no conversation without a sandbox, and goes on elsewhere", async () => {
  await one.store.nodes!.leave("one");
  const id = newId();
  await start(one, { conversation_id: id });
  expect(isOver(await taskOf(id))).toBe(false);
  expect(await one.store.conversations.get(id)).toBeUndefined();
  await two.conversations.adoptStarts();
  await expect.poll(() => two.store.conversations.get(id)).toBeDefined();
  const { sandboxId } = await taskOf(id);
  expect(await query(`SELECT owner FROM sandboxes WHERE id = '${sandboxId}'`)).toEqual([{ owner: "two" }]);
});

test("a request that is repeated after its node died gets the start, which goes on elsewhere", async () => {
  const creation = holdCreation(one);
  const request = { conversation_id: newId(), secrets: { KEY: "value" } };
  const started = start(one, request);
  await creation.reached;
  await expire(one);
  const again = await start(two, { ...request, secrets: { KEY: "another value" } });
  const task = await taskOf(request.conversation_id);
  expect(parseId(again.id)).toBe(task.id);
  await take(two, task.sandboxId!);
  await expect.poll(() => two.store.conversations.get(request.conversation_id)).toBeDefined();
  expect((await two.store.conversationSecrets.get(request.conversation_id))!.values).toEqual({
    KEY: "value",
  });
  creation.held.resolve();
  await started;
});

test("a start that was stored after its sandbox had gone to another node is done there", async () => {
  const { id: sandboxId } = await sandboxes.get(one)!.create(user);
  await expire(one);
  await take(two, sandboxId);
  const [id, conversationId] = [newId(), newId()];
  const state = { status: "WORKING", detail: null, createdAt: 1, updatedAt: 1 } as const;
  const row = { id, userId: user, conversationId, sandboxId, request: { sandbox_id: sandboxId }, ...state };
  await one.store.startTasks.create(row, { owner: "one" });
  await two.conversations.adoptStarts();
  await expect.poll(() => two.store.conversations.get(conversationId)).toMatchObject({ sandboxId });
});

test("a start whose first message an earlier node has stored late goes on with it", async () => {
  const id = newId();
  const creation = holdCreation(one);
  const first = { initial_message: { role: "user" as const, content: [textContent("go")], run: true } };
  const started = start(one, { conversation_id: id, ...first });
  await creation.reached;
  const task = await taskOf(id);
  await expire(one);
  const { events } = two.store;
  const append = events.append.bind(events);
  // The append of the earlier node comes right before that of this node.
  events.append = async (conversation, records, options) => {
    if (records.some(({ event }) => event.id === task.id)) {
      events.append = append;
      await append(conversation, records);
    }
    return append(conversation, records, options);
  };
  await take(two, task.sandboxId!);
  await expect
    .poll(async () => (await two.store.conversations.get(id))?.summary.executionStatus, { timeout: 10_000 })
    .toBe("finished");
  expect(isOver(await taskOf(id))).toBe(false);
  const sent = (await readLog(two.store, id)).filter(({ source }) => source === "user");
  expect(sent).toHaveLength(1);
  creation.held.resolve();
  await started;
});
