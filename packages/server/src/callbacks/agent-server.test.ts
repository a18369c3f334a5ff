import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { until } from "@sandpiper/core/test/support/until";
import { newId } from "@sandpiper/wire";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestEndpoint } from "../../test/support/callback-receiver.ts";
import { conversationRow, createTestStore, message, stateUpdate } from "../../test/support/store.ts";
import { read, startServer, type TestServer } from "../../test/support/test-server.ts";
import type { Store } from "../store/store.ts";
import { CallbackSender } from "./sender.ts";
import { CallbackService } from "./service.ts";

/** The operator's webhook in the shape of an agent server's (agent-server.md section 10). */

const secret = "session-key-of-the-receiver";

let store: Store;
let closeStore: () => Promise<void>;
let endpoint: TestEndpoint;
let service: CallbackService;
const opened: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  ({ store, close: closeStore } = await createTestStore());
  endpoint = await new TestEndpoint().listen();
});

afterEach(async () => {
  for (const end of opened.splice(0).reverse()) await end();
  await endpoint.close();
  await closeStore();
});

async function start(url = `${endpoint.url}/?team=1`, key: string | null = secret): Promise<void> {
  const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"] });
  service = new CallbackService({
    store,
    logger: pino({ level: "silent" }),
    sender: new CallbackSender({
      outbound,
      registerSecret: () => {},
      server: { url, secret: key, format: "agent-server" },
      conversationInfo: async (id) => {
        const row = await store.conversations.get(id);
        return row && { id, title: row.title, execution_status: row.summary.executionStatus };
      },
    }),
    batchDelayMs: 20,
  });
  await service.open();
  await service.adopt("all");
  opened.push(() => outbound.close());
  opened.push(() => service.close());
}

async function conversation(): Promise<string> {
  const id = newId();
  const callbacks = service.rowsOf("ann", id, []);
  await store.conversations.create(conversationRow({ id, userId: "ann", title: "First", callbacks }));
  return id;
}

const status = (value: string) => stateUpdate("execution_status", value);

/** The received reports as short texts. */
const received = () =>
  endpoint.received.map(({ path, body }) => {
    const what = JSON.parse(body);
    if (path === "/hook/conversations?team=1") return `${what.title} is ${what.execution_status}`;
    expect(path).toMatch(/^\/hook\/events\/[0-9a-f]{32}\?team=1$/);
    return what.map((event: any) => event.llm_message?.content[0].text ?? event.value).join(", ");
  });

test("a conversation is reported before its events, on changes of its state or record, and on its deletion", async () => {
  await start();
  const id = await conversation();
  await store.events.append(id, [message("one"), status("running")]);
  await endpoint.requests(3);
  await store.events.append(id, [message("two")]);
  await endpoint.requests(4);
  await store.events.append(id, [message("three"), status("paused")]);
  await endpoint.requests(6);
  await store.conversations.update(id, { title: "Second" });
  service.notifyChange(id);
  await endpoint.requests(7);
  const notify = await service.notifyDeletion(id);
  await store.conversations.remove(id);
  await service.drop(id);
  notify();
  await endpoint.requests(8);
  expect(received()).toEqual([
    "First is idle",
    "one, running",
    "First is running",
    "two",
    "three, paused",
    "First is paused",
    "Second is paused",
    "Second is deleting",
  ]);
  for (const { headers } of endpoint.received) {
    expect(headers["x-session-api-key"]).toBe(secret);
    expect(headers["x-sandpiper-signature"]).toBeUndefined();
  }
});

test("a failed report is repeated with its events, and no later report overtakes it", async () => {
  await start();
  // The events arrive, and what follows them does not.
  endpoint.answer = (index) => (index === 2 ? { status: 500 } : { status: 200 });
  const id = await conversation();
  await store.events.append(id, [message("one"), status("finished")]);
  await endpoint.requests(3);
  await store.events.append(id, [message("two")]);
  await endpoint.requests(6);
  expect(received()).toEqual([
    "First is idle",
    "one, finished",
    "First is finished",
    "First is idle",
    "one, finished, two",
    "First is finished",
  ]);
});

test("the next server resumes with the first unacknowledged report", async () => {
  await start();
  endpoint.answer = (index) => (index === 1 ? "hang" : { status: 200 });
  const id = await conversation();
  await store.events.append(id, [message("one")]);
  await endpoint.requests(2);
  await service.close();
  await store.events.append(id, [message("two"), status("finished")]);
  await start();
  await endpoint.requests(5);
  expect(received()).toEqual([
    "First is idle",
    "one",
    "First is idle",
    "one, two, finished",
    "First is finished",
  ]);
});

test("a change that could not be reported is reported later, except for conversations that were never reported", async () => {
  await start();
  const id = await conversation();
  service.notifyChange(id);
  (await service.notifyDeletion(id))();
  await store.events.append(id, [message("one")]);
  await endpoint.requests(2);
  await until(async () => (await service.list(id))[0]!.pending === false);
  endpoint.answer = (index) => ({ status: index === 2 ? 503 : 200 });
  service.notifyChange(id);
  await endpoint.requests(4);
  expect(received()).toEqual(["First is idle", "one", "First is idle", "First is idle"]);
});

test("one server reports to another, which shows the conversation in its own sandbox", async () => {
  const receiver = await startServer();
  let reporter: TestServer | undefined;
  try {
    const { sessionKey } = await receiver.addSandbox();
    reporter = await startServer({
      outboundPrivate: ["127.0.0.0/8"],
      webhook: { url: `${receiver.url}/api/v1/webhooks`, secret: sessionKey, format: "agent-server" },
    });
    await reporter.sandboxes.add();
    const own = newId();
    const rows = reporter.callbacks.rowsOf("default", own, []);
    await reporter.store.conversations.create(
      conversationRow({ id: own, sandboxId: "sandbox-1", userId: "default", callbacks: rows }),
    );
    const body = { role: "user", content: [{ type: "text", text: "Hello" }], run: true };
    await reporter.call("POST", `/api/conversations/${own}/events`, { body });
    const shown = async () =>
      (await read(receiver.call("GET", `/api/v1/app-conversations?ids=${own}`))).body[0];
    await until(async () => (await shown())?.execution_status === "finished");
    const events = async (server: TestServer) =>
      (await read(server.call("GET", `/api/v1/conversation/${own}/events/search`))).body.items.map(
        (event: any) => event.id,
      );
    expect(await events(receiver)).toEqual(await events(reporter));
    // A change is reported only after the cursor of the first delivery is stored.
    const { callbacks } = reporter.store;
    await until(async () => (await callbacks.get(own))!.nextSeq > 1);
    await reporter.call("PATCH", `/api/v1/app-conversations/${own}`, { body: { title: "Named" } });
    await until(async () => (await shown()).title === "Named");
    expect(await shown()).toMatchObject({ sandbox_id: "sandbox-1" });
  } finally {
    await reporter?.close();
    await receiver.close();
  }
});
