import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Command } from "./support/command.ts";
import {
  caller,
  type Json,
  removeSandboxes,
  startConversation,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let script: Script;
let server: ServerProcess;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-limits-"));
  models = await startModelServer((request) => script(request));
});

afterEach(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  await models.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(env: Record<string, string>): Promise<void> {
  // Named users reach the model server of the test only where the operator allows it.
  server = await startServerProcess(dataDir, { SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8", ...env });
}

const useModel = (call: TestPlatform["call"], more: Json = {}) =>
  call("POST", "/api/settings", {
    llm_model: "openai/gpt-4o",
    llm_api_key: "sk-test",
    llm_base_url: models.url,
    ...more,
  });

const errors = async (call: TestPlatform["call"], id: string): Promise<Json[]> =>
  (await call("GET", `/api/v1/conversation/${id}/events/search?kind__eq=ConversationErrorEvent`)).body.items;

const status = (id: string, wanted: string, call = server.call) =>
  until(async () => {
    const [found] = (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === wanted ? found : undefined;
  });

test("runs beyond the limit wait in order, also across kill -9, and a paused run loses its turn", async () => {
  /** The texts of the calls, and what lets each be answered. */
  const asked: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<void>>();
  script = async ({ messages }) => {
    const { text } = messages.findLast(({ role }) => role === "user")!;
    const gate = Promise.withResolvers<void>();
    gates.set(text, gate);
    asked.push(text);
    await gate.promise;
    return reply.text(`Answer to ${text}.`);
  };
  const env = { SANDPIPER_MAX_RUNS: "1" };
  await start(env);
  await useModel(server.call);
  const first = await startConversation(server.call, "one");
  const sharing = { sandbox_id: first.sandboxId };
  const second = await startConversation(server.call, "two", sharing);
  const third = await startConversation(server.call, "three", sharing);
  const fourth = await startConversation(server.call, "four", sharing);
  for (const { id } of [first, second, third, fourth]) await status(id, "running");
  expect(asked).toEqual(["one"]);
  expect((await server.call("POST", `/api/conversations/${second.id}/run`)).status).toBe(409);
  expect((await server.call("POST", `/api/conversations/${second.id}/pause`)).status).toBe(200);

  await server.end("SIGKILL");
  await start(env);
  await until(() => asked.length === 2);
  expect(asked).toEqual(["one", "one"]);
  gates.get("one")!.resolve();
  await status(first.id, "finished");
  await until(() => asked.length === 3);
  expect(
    (await server.call("GET", `/api/v1/app-conversations?ids=${fourth.id}`)).body[0].execution_status,
  ).toBe("running");
  gates.get("three")!.resolve();
  await until(() => asked.length === 4);
  gates.get("four")!.resolve();
  await status(fourth.id, "finished");
  await status(second.id, "paused");
  expect(asked).toEqual(["one", "one", "three", "four"]);

  const { id } = second;
  expect((await server.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await until(() => asked.length === 5);
  gates.get("two")!.resolve();
  await status(id, "finished");
});

test("a user's daily budget ends runs, refuses new ones and says when it resets; other users are not affected", async () => {
  // A million tokens of this model cost 2.50 USD.
  script = () => reply.text("An expensive answer.", { usage: { prompt: 1_000_000, completion: 0 } });
  await start({ SANDPIPER_DAILY_BUDGET: "2" });
  await useModel(server.call);
  const first = await startConversation(server.call, "Think hard");
  await status(first.id, "finished");
  expect(models.requests).toHaveLength(1);

  const said = { role: "user", content: [{ type: "text", text: "Go on" }], run: true };
  expect((await server.call("POST", `/api/conversations/${first.id}/events`, said)).status).toBe(200);
  await status(first.id, "error");
  const second = await startConversation(server.call, "Something else", { sandbox_id: first.sandboxId });
  await status(second.id, "error");
  for (const { id } of [first, second]) {
    const [event] = await errors(server.call, id);
    expect(event).toMatchObject({
      code: "DailyBudgetReached",
      detail: expect.stringMatching(
        /^Today's budget of 2 USD .* is used up: .* from \d{4}-\d\d-\d\dT00:00:00Z on\.$/,
      ),
    });
  }
  expect(models.requests).toHaveLength(1);

  const ann = caller(server.url, await annsKey());
  await useModel(ann);
  const hers = await startConversation(ann, "Hello");
  await status(hers.id, "finished", ann);
  await ann("DELETE", `/api/v1/app-conversations/${hers.id}`);
});

test("the budget of a task ends its runs in an error", async () => {
  script = () => reply.text("An expensive answer.", { usage: { prompt: 1_000_000, completion: 0 } });
  await start({});
  await useModel(server.call, { max_budget_per_task: 4 });
  const { id } = await startConversation(server.call, "Think hard");
  await status(id, "finished");
  const said = { role: "user", content: [{ type: "text", text: "Go on" }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, said);
  await until(async () => models.requests.length === 2);
  await status(id, "finished");
  await server.call("POST", `/api/conversations/${id}/events`, said);
  const { metrics } = await status(id, "error");
  expect(metrics).toMatchObject({ accumulated_cost: 5, max_budget_per_task: 4 });
  expect(models.requests).toHaveLength(2);
  const [event] = await errors(server.call, id);
  expect(event).toMatchObject({
    code: "MaxBudgetReached",
    detail: "The conversation reached its budget of 4 USD.",
  });
});

/** A key of another user, created while the server runs. */
async function annsKey(): Promise<string> {
  const command = new Command(["keys", "create", "--user", "ann"], { SANDPIPER_DATA: dataDir });
  expect(await command.exit, command.stderr).toBe(0);
  return command.stdout.trim();
}

test("more starts than sandboxes may run wait for their turn, which their tasks show, and all succeed", async () => {
  script = () => reply.text("Done.");
  await start({ SANDPIPER_MAX_SANDBOXES: "2" });
  await useModel(server.call);
  const message = { content: [{ type: "text", text: "Work" }] };
  const starts = await Promise.all(
    Array.from({ length: 4 }, () =>
      server.call("POST", "/api/v1/app-conversations", { initial_message: message }),
    ),
  );
  const details = new Set<string>();
  const ended = await Promise.all(
    starts.map(({ body: { id } }) =>
      until(async () => {
        const [found] = (await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body;
        if (found.detail) details.add(found.detail);
        return ["READY", "ERROR"].includes(found.status) ? found : undefined;
      }),
    ),
  );
  expect(ended.map((task) => [task.status, task.detail])).toEqual(Array(4).fill(["READY", null]));
  expect([...details]).toContainEqual(expect.stringMatching(/^Waiting in position \d: all 2 sandboxes/));
});

test("a conversation that has stored its quota ends in an error that says so, and can be deleted", async () => {
  script = () => reply.text("x".repeat(2 ** 20));
  await start({ SANDPIPER_CONVERSATION_STORAGE: "1M" });
  await useModel(server.call);
  const { id } = await startConversation(server.call, "Talk");
  await status(id, "error");
  expect((await errors(server.call, id))[0]).toMatchObject({
    code: "StorageQuotaReached",
    detail: expect.stringMatching(/^The conversation has stored as much .*: continue in a new one\.$/),
  });
  const content = [{ type: "text", text: "y".repeat(2 ** 20) }];
  const answer = await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content,
    run: true,
  });
  expect([answer.status, JSON.stringify(answer.body)]).toEqual([
    507,
    expect.stringContaining("in a new one"),
  ]);
  expect((await server.call("DELETE", `/api/v1/app-conversations/${id}`)).status).toBe(200);
});
