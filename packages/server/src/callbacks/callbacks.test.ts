import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { until } from "@sandpiper/core/test/support/until";
import { newId } from "@sandpiper/wire";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestEndpoint } from "../../test/support/callback-receiver.ts";
import { conversationRow, createTestStore, message, stateUpdate } from "../../test/support/store.ts";
import type { CallbackRow } from "../store/callback-store.ts";
import type { Store } from "../store/store.ts";
import { CallbackSender, type CallbackSenderDeps } from "./sender.ts";
import { CallbackService, type CallbackServiceDeps } from "./service.ts";

let store: Store;
let dir: string;
let closeStore: () => Promise<void>;
let endpoint: TestEndpoint;
let service: CallbackService;
let logs: string[];
const opened: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  ({ store, dir, close: closeStore } = await createTestStore());
  endpoint = await new TestEndpoint().listen();
  logs = [];
  service = await start();
});

afterEach(async () => {
  for (const end of opened.splice(0).reverse()) await end();
  await endpoint.close();
  await closeStore();
});

async function start(
  { server, ...change }: Partial<CallbackServiceDeps> & Pick<CallbackSenderDeps, "server"> = {},
  allowPrivate = ["127.0.0.0/8"],
) {
  const outbound = createOutbound({ allowPrivate });
  const logger = pino({ level: "info" }, { write: (line: string) => void logs.push(line) });
  const made = new CallbackService({
    store,
    sender: new CallbackSender({ outbound, server, registerSecret: () => {} }),
    logger,
    batchDelayMs: 20,
    ...change,
  });
  await made.open();
  await made.adopt("all");
  opened.push(() => outbound.close());
  opened.push(() => made.close());
  return made;
}

const hook = (change = {}) => ({ kind: "WebhookCallbackProcessor" as const, url: endpoint.url, ...change });

async function conversation(...processors: Parameters<CallbackService["rowsOf"]>[2]): Promise<string> {
  const id = newId();
  await addConversation(id, service.rowsOf("ann", id, processors));
  return id;
}

async function addConversation(id: string, callbacks: readonly CallbackRow[] = []): Promise<void> {
  await store.conversations.create(conversationRow({ id, userId: "ann", callbacks }));
}

async function say(id: string, ...texts: string[]): Promise<void> {
  await store.events.append(
    id,
    texts.map((text) => message(text)),
  );
}

/** Returns an object with some methods replaced. */
function override<T extends object>(target: T, methods: Partial<T>): T {
  return new Proxy(target, {
    get(_, name) {
      const value: unknown = Reflect.get(Object.hasOwn(methods, name) ? methods : target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

test("events arrive in order as a JSON array that the receiver can verify", async () => {
  const id = await conversation(hook({ secret: "the secret of the hook" }));
  await say(id, "one", "two");
  await say(id, "three");
  await until(() => endpoint.texts().length === 3);
  expect(endpoint.texts()).toEqual(["one", "two", "three"]);
  const { headers, body } = endpoint.received[0]!;
  const signed = createHmac("sha256", "the secret of the hook").update(
    `${headers["x-sandpiper-timestamp"]}.${body}`,
  );
  expect(headers["x-sandpiper-signature"]).toBe(signed.digest("hex"));
  expect(Math.abs(Date.now() / 1000 - Number(headers["x-sandpiper-timestamp"]))).toBeLessThan(60);
  expect(headers["x-sandpiper-conversation"]).toBe(id.replaceAll("-", ""));
  expect(headers["x-sandpiper-delivery"]).toMatch(/^[0-9a-f]{32}-1-\d$/);
  await until(async () => (await service.list(id))[0]!.pending === false);
  expect(JSON.stringify(await service.list(id))).not.toContain("the secret");
  expect((await service.list(id))[0]).toMatchObject({
    status: "ACTIVE",
    attempts: 0,
    secret_set: true,
    last_error: null,
  });
});

test("the end of a run is delivered at once, even while events are batched", async () => {
  await service.close();
  service = await start({ batchDelayMs: 60_000 });
  const id = await conversation(hook());
  await say(id, "one");
  await store.events.append(id, [stateUpdate("execution_status", "finished")]);
  const [first] = await endpoint.requests(1);
  expect(first!.events.map(({ kind }) => kind)).toEqual(["MessageEvent", "ConversationStateUpdateEvent"]);
});

test("a delivery that failed is repeated with all its events, and nothing overtakes it", async () => {
  endpoint.answer = (index) => (index === 0 ? { status: 500 } : index === 1 ? "cut" : { status: 204 });
  const id = await conversation(hook());
  await say(id, "one");
  await endpoint.requests(1);
  await say(id, "two");
  await until(async () => (await service.list(id))[0]!.attempts === 1);
  expect((await service.list(id))[0]).toMatchObject({
    pending: true,
    last_error: "The address answered 500.",
    status: "ACTIVE",
  });
  expect(Date.parse((await service.list(id))[0]!.next_attempt_at!)).toBeGreaterThan(Date.now());
  const received = await endpoint.requests(3);
  expect(endpoint.texts(received.slice(0, 1))).toEqual(["one"]);
  expect(endpoint.texts(received.slice(2))).toEqual(["one", "two"]);
  await until(async () => (await service.list(id))[0]!.attempts === 0);
});

test("Retry-After is obeyed", async () => {
  endpoint.answer = (index) =>
    index === 0 ? { status: 429, headers: { "retry-after": "3600" } } : { status: 200 };
  const id = await conversation(hook());
  await say(id, "one");
  await until(async () => (await service.list(id))[0]!.attempts === 1);
  expect(Date.parse((await service.list(id))[0]!.next_attempt_at!)).toBeGreaterThan(Date.now() + 3_500_000);
  await service.retry(id, (await service.list(id))[0]!.id);
  await until(() => endpoint.texts().length === 2);
});

test("deliveries to a dead endpoint are given up with a reason, and can be retried", async () => {
  await service.close();
  service = await start({ giveUpMs: 0 });
  await endpoint.close();
  const id = await conversation(hook());
  await say(id, "one");
  await until(async () => (await service.list(id))[0]!.status === "FAILED");
  expect((await service.list(id))[0]).toMatchObject({
    attempts: 1,
    next_attempt_at: null,
    last_error: expect.stringMatching(/could not be reached/),
  });
  await say(id, "two");
  await endpoint.listen();
  await service.retry(id, (await service.list(id))[0]!.id);
  await until(() => endpoint.texts().length === 2);
});

test("410 ends a callback", async () => {
  endpoint.answer = () => ({ status: 410 });
  const id = await conversation(hook());
  await say(id, "one");
  await until(async () => (await service.list(id))[0]!.status === "FAILED");
});

test("a redirect is not followed, neither to another origin nor on the same", async () => {
  const other = await new TestEndpoint().listen();
  for (const location of [other.url, "/elsewhere"]) {
    endpoint.received.length = 0;
    endpoint.answer = (index) => (index === 0 ? { status: 307, headers: { location } } : { status: 200 });
    const id = await conversation(hook());
    await say(id, "one");
    await until(async () => (await service.list(id))[0]!.attempts > 0);
    expect((await service.list(id))[0]!.last_error).toMatch(/redirect, which is not followed/);
    await service.drop(id);
    expect(endpoint.received).toHaveLength(1);
  }
  expect(other.received).toEqual([]);
  await other.close();
});

test("private addresses are refused unless the operator allows them", async () => {
  await service.close();
  service = await start({}, []);
  await expect(conversation(hook())).rejects.toMatchObject({ code: "OutboundRefused" });
  // The address of a name is resolved at each delivery.
  for (const url of ["http://localhost/", endpoint.url.replace("127.0.0.1", "localhost")]) {
    const id = await conversation(hook({ url }));
    await say(id, "one");
    await until(async () => (await service.list(id))[0]!.attempts > 0);
    expect((await service.list(id))[0]!.last_error).toMatch(/localhost.* private/);
  }
  expect(endpoint.received).toEqual([]);
});

test("only the named kinds are sent, whatever lies between them", async () => {
  const id = await conversation(hook({ kinds: ["PauseEvent"] }));
  for (let round = 0; round < 3; round++)
    await say(id, ...Array.from({ length: 80 }, (_, index) => `${round} ${index}`));
  await store.events.append(id, [{ listed: true, event: { kind: "PauseEvent", source: "user" } }]);
  const [first] = await endpoint.requests(1);
  expect(first!.events.map(({ kind }) => kind)).toEqual(["PauseEvent"]);
  await until(async () => (await service.list(id))[0]!.pending === false);
  expect(endpoint.received).toHaveLength(1);
});

test("many events are sent in limited batches, none twice", async () => {
  const id = await conversation(hook());
  const texts = Array.from({ length: 130 }, (_, index) => `message ${index}`);
  await say(id, ...texts);
  await until(() => endpoint.texts().length >= 130);
  expect(endpoint.texts()).toEqual(texts);
  expect(endpoint.received.map(({ events }) => events.length)).toEqual([50, 50, 30]);
});

test("records that one process did not deliver are delivered by the next, from the conversation's first record on", async () => {
  endpoint.answer = () => "hang";
  const id = await conversation(hook({ secret: "kept over the restart" }));
  await say(id, "one");
  await endpoint.requests(1);
  await service.close();
  await say(id, "two");
  endpoint.answer = () => ({ status: 200 });
  service = await start();
  const received = await endpoint.requests(2);
  expect(endpoint.texts(received.slice(1))).toEqual(["one", "two"]);
  expect(received[1]!.headers["x-sandpiper-signature"]).toMatch(/^[0-9a-f]{64}$/);
});

test("a dead endpoint does not slow others, because its own slots are limited", async () => {
  const dead = await new TestEndpoint().listen();
  dead.answer = () => "hang";
  for (let count = 0; count < 6; count++)
    await say(await conversation(hook({ url: dead.url })), "into the void");
  await dead.requests(4);
  const id = await conversation(hook());
  await say(id, "alive");
  await until(() => endpoint.texts().includes("alive"));
  expect(dead.mostOpen).toBe(4);
  await service.close();
  await dead.close();
});

test("a record that comes while a worker decides to end is delivered", async () => {
  await service.close();
  const looked = Promise.withResolvers<void>();
  const { callbacks, events } = store;
  let stored: string | undefined;
  const slowEvents = override(events, {
    // The second record is stored, and its worker is told, after the look that missed it.
    lastSeq: async (id: string) => {
      const seq = await events.lastSeq(id);
      const [callback] = await callbacks.listByConversation(id);
      if (stored || seq !== 1 || callback?.nextSeq !== 2) return seq;
      stored = id;
      await say(id, "two");
      await looked.promise;
      return seq;
    },
  });
  const watched = override(callbacks, {
    listActive: async (id: string) => {
      const active = await callbacks.listActive(id);
      if (stored) setImmediate(looked.resolve);
      return active;
    },
  });
  service = await start({ store: { events: slowEvents, callbacks: watched } });
  const id = await conversation(hook());
  await say(id, "one");
  await until(() => endpoint.texts().length === 2);
  expect(endpoint.texts()).toEqual(["one", "two"]);
  expect(stored).toBe(id);
});

test("the operator's webhook gets the events of every conversation, and new events of older conversations", async () => {
  await service.close();
  const old = newId();
  await addConversation(old);
  await say(old, "before");
  service = await start({ server: { url: endpoint.url, secret: "the operator's secret" } });
  const young = await conversation();
  await say(young, "young");
  await say(old, "after");
  await until(() => endpoint.texts().length === 2);
  expect(endpoint.texts().sort()).toEqual(["after", "young"]);
  expect((await service.list(old))[0]).toMatchObject({ server_wide: true, url: null });
  await expect(service.remove(old, (await service.list(old))[0]!.id)).rejects.toThrow("Callback not found");
});

test("dropping a conversation's callbacks aborts their deliveries", async () => {
  endpoint.answer = () => "hang";
  const id = await conversation(hook());
  await say(id, "one");
  await endpoint.requests(1);
  await service.drop(id);
  expect(await service.list(id)).toEqual([]);
});

test("processors without a delivery become no callbacks", async () => {
  const id = await conversation(
    hook(),
    { kind: "SetTitleCallbackProcessor" },
    { kind: "LoggingCallbackProcessor" },
  );
  expect((await service.list(id)).map(({ kind }) => kind)).toEqual([
    "WebhookCallbackProcessor",
    "LoggingCallbackProcessor",
  ]);
  await say(id, "words that stay out of the log");
  await until(() => logs.some((line) => line.includes("MessageEvent")));
  expect(logs.join("")).not.toContain("words that");
});

test.each([
  ["ftp://example.com/x", "https:// or http://"],
  ["javascript:alert(1)", "https:// or http://"],
  ["no address", "https:// or http://"],
  ["https://user:password@example.com/", "user name or password"],
  ["http://10.1.1.1/", "private or reserved"],
  ["http://[::ffff:169.254.169.254]/", "private or reserved"],
])("%s is refused", async (url, reason) => {
  const make = () => service.rowsOf("ann", newId(), [hook({ url })]);
  expect(make).toThrow(
    expect.objectContaining({ code: "OutboundRefused", message: expect.stringContaining(reason) }),
  );
});

test("a conversation is dropped at once even if its delivery waits behind a dead endpoint", async () => {
  endpoint.answer = () => "hang";
  const ids: string[] = [];
  for (let count = 0; count < 5; count++) {
    ids.push(await conversation(hook()));
    await say(ids.at(-1)!, "into the void");
  }
  await endpoint.requests(4);
  const started = performance.now();
  for (const id of ids.reverse()) await service.drop(id);
  // An endpoint that does not answer takes 10 s.
  expect(performance.now() - started).toBeLessThan(8_000);
});

test("the number of a conversation's callbacks is limited, also when they are added concurrently", async () => {
  const id = await conversation();
  const added = await Promise.allSettled(Array.from({ length: 15 }, () => service.add("ann", id, hook())));
  expect(added.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
  await expect(service.add("ann", id, hook())).rejects.toMatchObject({ code: "TooManyCallbacks" });
});

test("the secret is not in the database file, and other users' callbacks are not found by their ids", async () => {
  const id = await conversation(hook({ secret: "a secret that is sealed on disk" }));
  const other = await conversation();
  const [own] = await service.list(id);
  await expect(service.remove(other, own!.id)).rejects.toMatchObject({ code: "CallbackNotFound" });
  const files = ["sandpiper.db", "sandpiper.db-wal"].map((name) => readFileSync(join(dir, "store", name)));
  expect(Buffer.concat(files).includes("sealed on disk")).toBe(false);
  expect(Buffer.concat(files).includes(endpoint.url)).toBe(true);
});
