import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, startConversation, until } from "../support/platform.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { finish, terminal } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** Servers on one machine, with one data folder and one PostgreSQL database. */

let postgres: PostgresServer;
let dataDir: string;
let database: string;
let models: ModelServer;
let nodes: ServerProcess[];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.remove());

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-nodes-"));
  database = await postgres.createDatabase();
  nodes = [];
});
afterEach(async () => {
  await removeSandboxes(nodes.at(-1)!.call).catch(() => {});
  for (const { child } of nodes) child.kill("SIGCONT");
  await Promise.all(nodes.map((node) => node.end("SIGTERM")));
  await models?.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function startNode(): Promise<ServerProcess> {
  const node = await startServerProcess(dataDir, { SANDPIPER_DATABASE_URL: database });
  nodes.push(node);
  return node;
}

async function useModels(node: ServerProcess): Promise<void> {
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test",
    llm_base_url: models.url,
    confirmation_mode: false,
  };
  expect((await node.call("POST", "/api/settings", settings)).status).toBe(200);
}

const eventsOf = async (node: ServerProcess, id: string): Promise<Json[]> =>
  (await node.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;

/** Returns the output of the last command of a conversation. */
const lastOutput = (events: readonly Json[]): string =>
  events.findLast(({ kind, tool_name: tool }) => kind === "ObservationEvent" && tool === "terminal")
    ?.observation.content[0].text;

/** Returns when the lease of a node ends or has ended, milliseconds since the epoch. */
async function readLease(node: ServerProcess): Promise<number> {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  const { rows } = await client.query("SELECT expires_at FROM nodes WHERE url = $1", [node.url]);
  await client.end();
  return rows[0].expires_at.getTime();
}

async function waitForEnd(node: ServerProcess, id: string): Promise<void> {
  await until(async () => {
    const [found] = (await node.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === "finished";
  });
}

async function waitForAction(node: ServerProcess, id: string, command: string): Promise<void> {
  await until(async () => (await eventsOf(node, id)).some(({ action }) => action?.command === command));
}

/** Starts a conversation at one of two nodes, and waits until its second command has begun. */
async function startWork(commands: readonly string[]) {
  models = await startModelServer(({ index }) =>
    commands[index] ? reply.toolCalls([terminal(commands[index])]) : finish("Done."),
  );
  const one = await startNode();
  const two = await startNode();
  await useModels(one);
  const { id } = await startConversation(one.call, "Work");
  await waitForAction(two, id, commands[1]!);
  return { one, two, id };
}

test("a node is killed: another one continues its conversation within seconds, and nothing is done twice", async () => {
  const { one, two, id } = await startWork([
    "echo one >> /tmp/done",
    "sleep 4; echo two >> /tmp/done",
    "cat /tmp/done",
  ]);
  // A process that stands still renews no lease, so the time at which its lease ends is known.
  one.child.kill("SIGSTOP");
  const lease = await readLease(one);
  const killedAt = performance.now();
  await one.end("SIGKILL");
  await waitForEnd(two, id);
  expect(performance.now() - killedAt).toBeLessThan(30_000);
  expect(await readLease(one)).toBeLessThan(lease);
  const events = await eventsOf(two, id);
  expect(new Set(events.map((event) => event.id)).size).toBe(events.length);
  expect(events.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  expect(lastOutput(events)).toBe("one\ntwo\n");
});

test("a node that is told to end hands its conversation over after the current step", async () => {
  const { one, two, id } = await startWork([
    "echo one >> /tmp/done",
    "sleep 1; echo two >> /tmp/done",
    "cat /tmp/done",
  ]);
  await one.end("SIGTERM");
  await waitForEnd(two, id);
  const events = await eventsOf(two, id);
  expect(events.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  expect(lastOutput(events)).toBe("one\ntwo\n");
});

test("a node that was frozen for longer than its lease does nothing when it wakes", async () => {
  const { one, two, id } = await startWork([
    "echo one >> /tmp/done",
    "sleep 4; echo two >> /tmp/done",
    "cat /tmp/done",
  ]);
  one.child.kill("SIGSTOP");
  await waitForEnd(two, id);
  const before = await eventsOf(two, id);
  one.child.kill("SIGCONT");
  // Within seconds the node renews its lease or finds that the lease is lost, and then answers
  // again.
  await until(async () => (await one.call("GET", `/api/v1/app-conversations?ids=${id}`)).status === 200);
  expect(await eventsOf(two, id)).toEqual(before);
  expect(await eventsOf(one, id)).toEqual(before);
  expect(before.filter(({ kind }) => kind === "AgentErrorEvent")).toEqual([]);
  expect(lastOutput(before)).toBe("one\ntwo\n");
});

test("a node is killed right after the request to start: another one starts the conversation once", async () => {
  models = await startModelServer(() => finish("Done."));
  const one = await startNode();
  const two = await startNode();
  await useModels(one);
  const text = (index: number) => ({ content: [{ type: "text", text: `Work ${index}` }] });
  const begun = await Promise.all(
    Array.from({ length: 4 }, (_, index) =>
      one.call("POST", "/api/v1/app-conversations", { initial_message: text(index) }),
    ),
  );
  await one.end("SIGKILL");
  const ids = begun.map(({ body }) => body.id).join("&ids=");
  const tasks = await until(async () => {
    const { body } = await two.call("GET", `/api/v1/app-conversations/start-tasks?ids=${ids}`);
    return body.every((task: Json) => task.status === "READY") ? body : undefined;
  });
  for (const { app_conversation_id: id } of tasks) {
    await waitForEnd(two, id);
    const messages = (await eventsOf(two, id)).filter(
      ({ source, kind }) => source === "user" && kind === "MessageEvent",
    );
    expect(messages).toHaveLength(1);
  }
});

test("a machine is lost: another one continues its conversation, and the open call says what is lost", async () => {
  const commands = ["echo one > kept.txt", "sleep 600", "ls"];
  models = await startModelServer(({ index }) =>
    commands[index] ? reply.toolCalls([terminal(commands[index])]) : finish("Done."),
  );
  const one = await startNode();
  // The other machine has a data folder of its own, and the same vault key.
  const elsewhere = await mkdtemp(join(tmpdir(), "sandpiper-nodes-"));
  await copyFile(join(dataDir, "vault.key"), join(elsewhere, "vault.key"));
  const two = await startServerProcess(elsewhere, {
    SANDPIPER_DATABASE_URL: database,
    SANDPIPER_NODE_LOST_AFTER: "5",
  });
  nodes.push(two);
  await useModels(one);
  const { id, sandboxId } = await startConversation(one.call, "Work");
  await waitForAction(two, id, commands[1]!);
  await one.end("SIGKILL");
  await waitForEnd(two, id);
  const events = await eventsOf(two, id);
  expect(events.filter(({ kind }) => kind === "AgentErrorEvent")).toMatchObject([
    { error: expect.stringMatching(/outcome is unknown.*machine with the sandbox is gone.*begins anew/) },
  ]);
  expect(lastOutput(events)).not.toContain("kept.txt");
  expect((await two.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].status).toBe("RUNNING");
  await removeSandboxes(two.call);
  await two.end("SIGTERM");
  await rm(elsewhere, { recursive: true, force: true });
});
