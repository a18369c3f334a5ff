import { transition } from "@sandpiper/agent/loop/status";
import { type Event, newId, textContent } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Frame } from "../../src/conversations/api.ts";
import { postgresEngine } from "../store-suite/postgres-engine.ts";
import { TestEndpoint } from "../support/callback-receiver.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { conversationRow, message } from "../support/store.ts";
import { SandboxRecords } from "../support/test-sandboxes.ts";
import { readLog, TestNode, World } from "./node.ts";

/**
 * Two nodes on one database: a sandbox goes from one node to the other with everything live about
 * it.
 */

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
let epoch = 0;
const ends: (() => Promise<void>)[] = [];

beforeEach(async () => {
  ({ place, remove } = await engine.newPlace());
  world = new World();
  sandboxes = new SandboxRecords();
  [one, other] = [await startNode("one"), await startNode("other")];
});
afterEach(async () => {
  for (const held of world.holds.values()) held.resolve();
  for (const end of ends.splice(0)) await end();
  await remove();
});

async function startNode(name: string): Promise<TestNode> {
  const node = new TestNode(await engine.openStore(place), { name, world, sandboxes });
  await node.store.nodes!.join(
    { incarnation: name, url: "", place: null, version: "1", isDraining: false },
    3_600_000,
  );
  await node.open();
  ends.push(() => node.close());
  return node;
}

/** Makes a node the owner of the sandbox in the database, and tells the node. */
async function give(sandboxId: string, to: TestNode): Promise<void> {
  epoch++;
  await engine.query(
    place,
    `UPDATE conversations SET owner = '${to.incarnation}', epoch = ${epoch} WHERE sandbox_id = '${sandboxId}'`,
  );
  to.owned.set(sandboxId, epoch);
}

/** A conversation in a sandbox that the first node owns. */
async function begin(change: object = {}): Promise<{ id: string; sandboxId: string }> {
  const sandboxId = sandboxes.add().id;
  const row = conversationRow({ sandboxId, ...change });
  await one.store.conversations.create(row);
  await give(sandboxId, one);
  return { id: row.id, sandboxId };
}

async function handOver(sandboxId: string, from: TestNode, to: TestNode, graceMs = 5_000): Promise<void> {
  await from.conversations.release([sandboxId], { lost: false, graceMs });
  from.owned.delete(sandboxId);
  await give(sandboxId, to);
  await to.conversations.adopt([sandboxId]);
}

async function lose(sandboxId: string, from: TestNode, to: TestNode): Promise<void> {
  from.owned.delete(sandboxId);
  await from.conversations.release([sandboxId], { lost: true, graceMs: 0 });
  await give(sandboxId, to);
  await to.conversations.adopt([sandboxId]);
}

const send = (node: TestNode, id: string, text: string) =>
  node.conversations.commands.send(id, [textContent(text)], { run: true });
const statusOf = async (id: string) => (await one.store.conversations.get(id))!.summary.executionStatus;
const finished = (id: string) => expect.poll(() => statusOf(id), { timeout: 10_000 }).toBe("finished");
const statuses = (log: Event[]) =>
  log.flatMap((event) =>
    event.kind === "ConversationStateUpdateEvent" && event.key === "execution_status" ? [event.value] : [],
  );

/**
 * Sequence numbers of the stored events that a follower gets, and whether the follower was told of
 * the move.
 */
function follow(node: TestNode, id: string) {
  const seen = { seqs: [] as number[], moved: 0 };
  const leave = node.conversations.live.follow(id, {
    onFrame: ({ seq }: Frame) => void (seq !== undefined && seen.seqs.push(seq)),
    onDeleted() {},
    onMoved: () => void seen.moved++,
  });
  return { seen, leave };
}

/** Makes the model call the commands in turn, and then finish. */
function work(...commands: string[]): void {
  world.answer = (last) => {
    const done = commands.findIndex((command) => last.includes(`${command} is done`));
    const next = commands[done + 1];
    return next === undefined ? { finish: "all done" } : { call: next };
  };
}

test("a run goes on elsewhere after its step, and followers get the rest there", async () => {
  const { id, sandboxId } = await begin();
  work("first", "second");
  const held = world.hold("first");
  const before = follow(one, id);
  await send(one, id, "go");
  await expect.poll(() => world.commands).toEqual(["first on one"]);
  const moved = handOver(sandboxId, one, other);
  held.resolve();
  await moved;
  expect(before.seen.moved).toBe(1);
  const after = follow(other, id);
  const upTo = await other.store.events.lastSeq(id);
  await finished(id);
  expect(world.commands).toEqual(["first on one", "second on other"]);
  const log = await readLog(one.store, id);
  expect(statuses(log)).toEqual(["running", "finished"]);
  expect(log.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  const last = await one.store.events.lastSeq(id);
  await expect.poll(() => after.seen.seqs.at(-1)).toBe(last);
  // The events of the first follower have no gap, and the second follower gets the events after
  // them.
  const seqs = before.seen.seqs;
  expect(seqs).toEqual(seqs.map((_seq, index) => index + 1));
  expect(after.seen.seqs.filter((seq) => seq > upTo)[0]).toBe(upTo + 1);
});

test("a command that does not end delays a release by its grace only, and goes on elsewhere", async () => {
  const { id, sandboxId } = await begin();
  work("endless");
  const held = world.hold("endless");
  await send(one, id, "go");
  await expect.poll(() => world.commands).toEqual(["endless on one"]);
  const started = performance.now();
  await one.conversations.release([sandboxId], { lost: false, graceMs: 100 });
  expect(performance.now() - started).toBeLessThan(5_000);
  expect((await readLog(one.store, id)).filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  one.owned.delete(sandboxId);
  await give(sandboxId, other);
  await other.conversations.adopt([sandboxId]);
  await expect.poll(() => world.commands).toEqual(["endless on one", "endless goes on on other"]);
  held.resolve();
  await finished(id);
  const log = await readLog(one.store, id);
  expect(log.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  expect(statuses(log)).toEqual(["running", "finished"]);
});

test("a node that has lost a sandbox appends nothing, whatever was under way", async () => {
  const { id, sandboxId } = await begin();
  work("lost");
  const held = world.hold("lost");
  await send(one, id, "go");
  await expect.poll(() => world.commands).toEqual(["lost on one"]);
  const appended: string[] = [];
  one.store.events.followAll((conversation) => void appended.push(conversation));
  work();
  await lose(sandboxId, one, other);
  held.resolve();
  await finished(id);
  expect(appended).toEqual([]);
  expect(statuses(await readLog(one.store, id))).toEqual(["running", "finished"]);
});

test("a frozen node that does not know of its loss appends nothing and begins nothing", async () => {
  const { id, sandboxId } = await begin();
  const frozen = Promise.withResolvers<void>();
  world.answer = async () => {
    world.answer = () => ({ finish: "by the other node" });
    await frozen.promise;
    return { call: "stale" };
  };
  await send(one, id, "go");
  await expect.poll(() => world.calls.length).toBe(1);
  const appended: string[] = [];
  one.store.events.followAll((conversation) => void appended.push(conversation));
  // The first node still takes itself for the owner of the sandbox.
  await give(sandboxId, other);
  await other.conversations.adopt([sandboxId]);
  await finished(id);
  const follower = follow(one, id);
  frozen.resolve();
  await expect.poll(() => follower.seen.moved).toBe(1);
  expect(await send(one, id, "too late").catch((error) => error.code)).toBe("SandboxMoved");
  expect(world.commands).toEqual([]);
  expect(appended).toEqual([]);
  expect(statuses(await readLog(one.store, id))).toEqual(["running", "finished"]);
});

test("a message that an earlier owner stores late is refused, so that its sender repeats it at the next owner", async () => {
  const { id, sandboxId } = await begin();
  // The first node stands still in the middle of the request, and does not know of its loss.
  await give(sandboxId, other);
  await other.conversations.adopt([sandboxId]);
  await expect(send(one, id, "Work")).rejects.toMatchObject({ code: "SandboxMoved" });
  expect(await one.store.events.lastSeq(id)).toBe(0);
  await send(other, id, "Work");
  await finished(id);
  await other.conversations.commands.send(id, [textContent("More")], { run: false });
  await expect(one.conversations.commands.run(id)).rejects.toMatchObject({ code: "SandboxMoved" });
  await other.conversations.commands.run(id);
  await finished(id);
});

test("a run moves twenty times between two nodes, and each command runs once", async () => {
  const { id, sandboxId } = await begin();
  const commands = Array.from({ length: 20 }, (_, index) => `command-${index}-`);
  work(...commands);
  for (const command of commands) world.hold(command);
  const nodes = [one, other];
  await send(one, id, "go");
  for (const [index, command] of commands.entries()) {
    await expect.poll(() => world.commands.length, { timeout: 10_000 }).toBe(index + 1);
    const [from, to] = [nodes[index % 2]!, nodes[(index + 1) % 2]!];
    const follower = follow(from, id);
    const moved = handOver(sandboxId, from, to);
    world.holds.get(command)!.resolve();
    await moved;
    expect(follower.seen.moved).toBe(1);
    // A second adoption, which a request may cause, changes nothing.
    await to.conversations.adopt([sandboxId]);
  }
  await finished(id);
  expect(world.commands).toEqual(
    commands.map((command, index) => `${command} on ${index % 2 === 0 ? "one" : "other"}`),
  );
  const log = await readLog(one.store, id);
  expect(statuses(log)).toEqual(["running", "finished"]);
  expect(log.filter(({ kind }) => kind === "ObservationEvent")).toHaveLength(21);
}, 60_000);

test("a caller that waits for a conversation that moves gets SandboxMoved", async () => {
  const { id, sandboxId } = await begin();
  await send(one, id, "go");
  await finished(id);
  const never = Promise.withResolvers<never>();
  world.answer = () => never.promise;
  const calls = world.calls.length;
  const asked = one.conversations.sideCalls.ask(id, "what?").catch((error) => error);
  await expect.poll(() => world.calls.length).toBe(calls + 1);
  await lose(sandboxId, one, other);
  expect(await asked).toMatchObject({ code: "SandboxMoved", retryAfter: 1 });
  for (const call of [
    () => send(one, id, "more"),
    () => one.conversations.commands.run(id),
    () => one.conversations.commands.pause(id),
    () => one.conversations.sideCalls.condense(id),
  ])
    expect(await call().catch((error) => error.code)).toBe("SandboxMoved");
});

test("a goal that is being judged is judged and continued by the next owner", async () => {
  const { id, sandboxId } = await begin();
  const judging = Promise.withResolvers<void>();
  const never = Promise.withResolvers<never>();
  let judged = 0;
  world.answer = (last) => {
    if (!last.includes("<WORK>")) return { finish: "work" };
    judged++;
    judging.resolve();
    return judged === 1 ? never.promise : { text: JSON.stringify({ done: true, score: 1, feedback: "ok" }) };
  };
  await one.conversations.goals.start(id, "an objective", 3);
  await judging.promise;
  await handOver(sandboxId, one, other, 100);
  const goal = async () => (await one.store.conversations.get(id))!.config.goal;
  await expect.poll(async () => (await goal())?.status, { timeout: 10_000 }).toBe("complete");
  expect(judged).toBe(2);
});

test("a pending message is delivered once by the next owner", async () => {
  const { id, sandboxId } = await begin();
  await one.store.pendingMessages.create({
    ...{ id: newId(), userId: "default", conversationId: id, createdAt: 1 },
    content: [{ type: "text", text: "left behind", cache_prompt: false }],
  });
  await give(sandboxId, other);
  await Promise.all([other.conversations.adopt([sandboxId]), other.conversations.adopt([sandboxId])]);
  await finished(id);
  const log = await readLog(one.store, id);
  const texts = log.filter((event) => event.kind === "MessageEvent" && event.source === "user");
  expect(texts).toHaveLength(1);
});

test("events that a dead node has not delivered are delivered by the next owner", async () => {
  const { id, sandboxId } = await begin();
  const endpoint = await new TestEndpoint().listen();
  ends.unshift(() => endpoint.close());
  endpoint.answer = () => "hang";
  const processor = { kind: "WebhookCallbackProcessor" as const, url: endpoint.url, kinds: ["MessageEvent"] };
  await one.callbacks.add("default", id, processor as Parameters<typeof one.callbacks.add>[2]);
  await send(one, id, "words");
  await finished(id);
  const [first] = await endpoint.requests(1);
  endpoint.answer = () => ({ status: 200 });
  await lose(sandboxId, one, other);
  const received = await endpoint.requests(2);
  expect(received[1]!.events.map(({ id: event }) => event)).toEqual(
    first!.events.map(({ id: event }) => event),
  );
  const pending = async () => (await other.callbacks.list(id))[0]!.pending;
  await expect.poll(pending).toBe(false);
  // The first node delivers nothing more.
  await other.store.events.append(id, [message("more")]);
  await expect.poll(() => endpoint.received.length).toBe(3);
  expect(endpoint.texts(received.slice(2))).toEqual(["more"]);
});

test("a start whose node died before it had a sandbox is taken by one other node", async () => {
  const created: string[] = [];
  const create = sandboxes.create.bind(sandboxes);
  sandboxes.create = (userId, specId, options) => {
    created.push(options!.id!);
    return create(userId, specId, options);
  };
  const ids = Array.from({ length: 10 }, () => newId());
  for (const id of ids)
    await one.store.startTasks.create(
      {
        ...{
          id,
          userId: "default",
          status: "WORKING",
          detail: null,
          request: {},
          createdAt: 1,
          updatedAt: 1,
        },
        ...{ conversationId: newId(), sandboxId: `sandbox-of-${id}` },
      },
      { owner: "dead" },
    );
  await Promise.all([one, other, one].map((node) => node.conversations.adoptStarts()));
  const over = async () =>
    (await Promise.all(ids.map((id) => one.store.startTasks.get(id)))).filter(
      (task) => task!.status === "ERROR",
    );
  // The sandboxes of this test do not run, so each start ends, and ends once.
  await expect.poll(async () => (await over()).length, { timeout: 10_000 }).toBe(10);
  expect(created.toSorted()).toEqual(ids.map((id) => `sandbox-of-${id}`).toSorted());
});

test("an approval is for the next owner too, and begins each action once", async () => {
  const { id, sandboxId } = await begin({
    config: { ...conversationRow().config, confirmationPolicy: { kind: "AlwaysConfirm" } },
  });
  work("approved");
  await send(one, id, "go");
  await expect.poll(() => statusOf(id)).toBe("waiting_for_confirmation");
  // A node that dies right after it has stored the approval begins no run.
  await one.store.events.append(id, transition("waiting_for_confirmation", "approve"));
  const held = world.hold("approved");
  await handOver(sandboxId, one, other);
  await expect.poll(() => world.commands).toEqual(["approved on other"]);
  await handOver(sandboxId, other, one, 100);
  await expect.poll(() => world.commands).toEqual(["approved on other", "approved goes on on one"]);
  held.resolve();
  await finished(id);
  expect((await readLog(one.store, id)).filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
});
