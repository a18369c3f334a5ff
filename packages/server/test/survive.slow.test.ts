import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openGate } from "@sandpiper/core/test/support/gate";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterEach, expect, test } from "vitest";
import {
  type Json,
  removeSandboxes,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, obey, terminal } from "./support/script.ts";
import { startServerProcess } from "./support/server-process.ts";

/** Faults outside a run: the clock, the database and the model endpoint. */

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function modelOf(script: Script): Promise<ModelServer> {
  const models = await startModelServer(script);
  ends.push(() => models.close());
  return models;
}

const settings = (url: string) => ({
  llm_model: "openai/gpt-4o-mini",
  llm_api_key: "sk-test",
  llm_base_url: url,
});

type Called = Pick<TestPlatform, "call">;
const events = async ({ call }: Called, id: string): Promise<Json[]> =>
  (await call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
const waitForEnd = async ({ call }: Called, id: string, status = "finished") => {
  const shown = async () =>
    (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status;
  expect(
    await until(async () =>
      [await shown()].find((one) => one === status || ["error", "finished"].includes(one)),
    ),
  ).toBe(status);
};
const send = ({ call }: Called, id: string, text: string) =>
  call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });

test("a clock that jumps back by an hour breaks no run: timestamps keep increasing, waits end, and later work succeeds", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-clock-"));
  ends.push(() => rm(dataDir, { recursive: true, force: true }));
  const server = await startServerProcess(dataDir, {
    NODE_OPTIONS: `--import=${new URL("./support/jumping-clock.ts", import.meta.url)}`,
  });
  ends.push(
    () => server.end("SIGTERM"),
    () => removeSandboxes(server.call),
  );
  const models = await modelOf((request) => {
    const { index } = request;
    if (index === 1 || index === 3) server.child.kill("SIGUSR2");
    if (index === 2) return reply.error(429, undefined, { "retry-after": "1" });
    return index < 5 ? reply.toolCalls([terminal(`sleep 0.3; echo step ${index}`)]) : obey(request);
  });
  await server.call("POST", "/api/settings", settings(models.url));
  const { id } = await startConversation(server.call, "Work");
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  await waitForEnd(server, id);
  const before = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].updated_at;
  await send(server, id, "run: echo later");
  await until(async () => (await events(server, id)).length > 14 || undefined);
  await waitForEnd(server, id);
  const stored = await events(server, id);
  const times = stored.map(({ timestamp }) => timestamp);
  expect(times).toEqual([...times].sort());
  expect(new Set(times).size).toBe(times.length);
  const outputs = stored.flatMap(({ observation }) =>
    observation?.kind === "TerminalObservation" ? observation.content : [],
  );
  expect(outputs.map(({ text }) => text.trim())).toEqual(["step 0", "step 1", "step 3", "step 4", "later"]);
  const live = socket.frames.filter(
    ({ kind }) => !["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(kind),
  );
  expect(live.map((event) => event.id)).toEqual(stored.map((event) => event.id));
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].updated_at >= before).toBe(
    true,
  );
  const other = await startConversation(server.call, "run: echo other");
  await waitForEnd(server, other.id);
});

test("a database that another process locks for seconds delays a run, and no event is lost or duplicated", async () => {
  const server = await startTestPlatform();
  ends.push(() => server.stop());
  const database = new DatabaseSync(join(server.dataDir, "store", "sandpiper.db"), { timeout: 5_000 });
  ends.push(async () => database.close());
  const commands = ["echo 1 >> /tmp/marks", "echo 2 >> /tmp/marks; sleep 0.2", "cat /tmp/marks"];
  let locked = false;
  const models = await modelOf(({ index }) => {
    if (index === 1) {
      database.exec("BEGIN EXCLUSIVE");
      locked = true;
      setTimeout(() => database.exec("COMMIT"), 5_500);
    }
    return commands[index] ? reply.toolCalls([terminal(commands[index])]) : finish("Done.");
  });
  await server.call("POST", "/api/settings", settings(models.url));
  const { id } = await startConversation(server.call, "Work");
  await until(() => locked || undefined);
  // Readers are served during that time.
  for (let count = 0; count < 20; count++)
    expect((await server.call("GET", "/api/v1/app-conversations/search")).status).toBe(200);
  expect(await events(server, id)).toHaveLength(4);
  await waitForEnd(server, id);
  const stored = await events(server, id);
  const outputs = stored.flatMap(({ observation }) =>
    observation?.kind === "TerminalObservation" ? observation.content : [],
  );
  expect(outputs.map(({ text }) => text)).toEqual(["", "", "1\n2\n"]);
  expect(models.requests).toHaveLength(4);
});

/**
 * A conversation whose store is locked when its run is about to append two actions that need
 * approval; the lock is released once a request is under way.
 */
async function aboutToWait(): Promise<{
  server: TestPlatform;
  id: string;
  during(request: () => Promise<unknown>): Promise<void>;
}> {
  const server = await startTestPlatform();
  ends.push(() => server.stop());
  const database = new DatabaseSync(join(server.dataDir, "store", "sandpiper.db"), { timeout: 5_000 });
  ends.push(async () => database.close());
  const tasks = {
    name: "task_tracker",
    arguments: { command: "plan", task_list: [{ title: "Unasked", status: "todo" }] },
  };
  const models = await modelOf(({ index }) => {
    if (index !== 1) return finish("Done.");
    // The run's appends also wait until the request arrives.
    database.exec("BEGIN EXCLUSIVE");
    return reply.toolCalls([tasks, terminal("cat ~/.ssh/id_none; echo ran")]);
  });
  await server.call("POST", "/api/settings", {
    ...settings(models.url),
    confirmation_mode: true,
    security_analyzer: "pattern",
  });
  const { id } = await startConversation(server.call, "Hello");
  await waitForEnd(server, id);
  await send(server, id, "Work");
  await until(() => models.requests[1]);
  await models.requests[1]!.finished;
  await new Promise((resolve) => setTimeout(resolve, 300));
  return {
    server,
    id,
    async during(request) {
      const sent = request();
      await new Promise((resolve) => setTimeout(resolve, 300));
      database.exec("COMMIT");
      await sent;
    },
  };
}

test("a message at the moment when actions begin to wait rejects them: none runs, not even a repeatable one", async () => {
  const { server, id, during } = await aboutToWait();
  await during(() => send(server, id, "Something else."));
  await waitForEnd(server, id);
  const stored = await events(server, id);
  const results = stored.filter(
    (event) => event.tool_call_id?.startsWith("call_1") && event.kind !== "ActionEvent",
  );
  const reason = "it waited for the user's approval, and the user wrote instead.";
  expect(results).toMatchObject(
    [0, 1].map(() => ({ kind: "UserRejectObservation", rejection_reason: reason })),
  );
});

test("a pause at the moment when actions begin to wait approves nothing: they wait again, and run once they are approved", async () => {
  const { server, id, during } = await aboutToWait();
  await during(() => server.call("POST", `/api/conversations/${id}/pause`));
  const results = async () =>
    (await events(server, id)).filter(
      (event) => event.tool_call_id?.startsWith("call_1") && event.kind !== "ActionEvent",
    );
  const shows = (status: string) =>
    until(
      async () =>
        (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status === status,
    );
  await shows("paused");
  await server.call("POST", `/api/conversations/${id}/run`);
  await shows("waiting_for_confirmation");
  expect(await results()).toEqual([]);
  await server.call("POST", `/api/conversations/${id}/events/respond_to_confirmation`, { accept: true });
  await waitForEnd(server, id);
  expect((await results()).map(({ observation }) => observation?.kind)).toEqual([
    "TaskTrackerObservation",
    "TerminalObservation",
  ]);
});

test("a run waits with notices for an unavailable endpoint; a lasting outage ends the run with an error, and a message resumes it", async () => {
  const server = await startTestPlatform();
  ends.push(() => server.stop());
  const models = await modelOf(obey);
  const gate = await openGate(models.url);
  ends.push(() => gate.close());
  await server.call("POST", "/api/settings", settings(gate.url));
  const llm = { num_retries: 3, retry_min_wait: 0, retry_multiplier: 0.2 };
  expect((await server.call("POST", "/api/v1/settings", { agent_settings_diff: { llm } })).status).toBe(200);
  const { id } = await startConversation(server.call, "Hello");
  await waitForEnd(server, id);
  const socket = SocketClient.forConversation(server, id);
  await gate.close();
  await send(server, id, "run: echo back");
  const retry = await socket.frame((frame) => frame.key === "agent_state" && frame.value.model_retry);
  expect(retry.value.model_retry).toMatchObject({
    attempt: 1,
    delay_ms: expect.any(Number),
    reason: expect.stringMatching(/gpt-4o-mini/),
  });
  await socket.frame((frame) => frame.key === "agent_state" && frame.value.model_retry?.attempt > 3);
  await gate.open();
  await waitForEnd(server, id);
  expect((await events(server, id)).filter(({ kind }) => kind === "ConversationErrorEvent")).toEqual([]);

  await gate.close();
  await send(server, id, "run: echo gone");
  await waitForEnd(server, id, "error");
  const error = (await events(server, id)).at(-1)!;
  expect(error).toMatchObject({ kind: "ConversationErrorEvent", code: "ModelFailed" });
  expect(error.detail).toMatch(/gpt-4o-mini failed.*\d\d attempts/s);
  await gate.open();
  await send(server, id, "run: echo again");
  await waitForEnd(server, id);
  const outputs = (await events(server, id)).flatMap(({ observation }) =>
    observation?.kind === "TerminalObservation" ? observation.content : [],
  );
  expect(outputs.map(({ text }) => text)).toEqual(["back\n", "again\n"]);
});
