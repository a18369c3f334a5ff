import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, SocketClient, startConversation, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let script: Script;
let server: ServerProcess;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-crash-"));
  server = await startServerProcess(dataDir);
});

// The server that a test starts last is reused by the next test.
beforeEach(async () => {
  const { exitCode, signalCode } = server.child;
  if (exitCode !== null || signalCode !== null) server = await startServerProcess(dataDir);
  models = await startModelServer((request) => script(request));
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test",
    llm_base_url: models.url,
    confirmation_mode: false,
  };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterEach(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await models.close();
});

afterAll(async () => {
  await server?.end("SIGTERM");
  await rm(dataDir, { recursive: true, force: true });
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;

const waitForEnd = (id: string, status = "finished") =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === status ? found : undefined;
  });

async function restart(): Promise<void> {
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir);
}

test("kill -9 in the middle of a tool call: no announced event is lost, and the run continues", async () => {
  script = ({ index }) => {
    const commands = ["echo before > /tmp/mark", "echo begin; sleep 4; echo end", "cat /tmp/mark"];
    return commands[index] ? reply.toolCalls([terminal(commands[index])]) : finish("Done.");
  };
  const { id, sandboxId } = await startConversation(server.call, "Work");
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  await socket.frame((frame) => frame.action?.command?.startsWith("echo begin"));
  const announced = socket.frames.filter(
    ({ kind }) => !["ConversationStateUpdateEvent", "StreamingDeltaEvent"].includes(kind),
  );
  await restart();

  await waitForEnd(id);
  const stored = await events(id);
  const ids = stored.map((event) => event.id);
  for (const event of announced) expect(ids).toContain(event.id);
  expect(new Set(ids).size).toBe(ids.length);
  // The model read the whole result, and the sandbox is the same.
  expect(models.requests[2]?.messages.at(-1)?.text).toMatch(/^begin\nend\n/);
  const [, , after] = stored.filter(({ kind }) => kind === "ActionEvent");
  const result = stored.find((event) => event.action_id === after?.id);
  expect(result?.observation.content[0].text).toBe("before\n");
  expect((await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].status).toBe("RUNNING");
  const times = stored.map((event) => event.timestamp);
  expect([...times].sort()).toEqual(times);
});

test("kill -9 while the model answers: the call is made again", async () => {
  script = ({ index }) =>
    index === 0 ? reply.text("lost half ".repeat(100), { paceMs: 50, deltaSize: 1 }) : reply.text("Whole.");
  const { id } = await startConversation(server.call, "Hello");
  const socket = SocketClient.forConversation(server, id);
  await socket.frame(({ kind }) => kind === "StreamingDeltaEvent");
  await restart();
  await waitForEnd(id);
  const texts = (await events(id)).filter(
    ({ kind, source }) => kind === "MessageEvent" && source === "agent",
  );
  expect(texts.map((event) => event.llm_message.content[0].text)).toEqual(["Whole."]);
});

test("kill -9 right after the request: the start continues, and the first message is answered once", async () => {
  script = () => finish("Done.");
  const { body } = await server.call("POST", "/api/v1/app-conversations", {
    initial_message: { content: [{ type: "text", text: "Work" }] },
  });
  await restart();
  const task = await until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`)).body;
    return ["READY", "ERROR"].includes(found.status) ? found : undefined;
  });
  expect(task).toMatchObject({ status: "READY", detail: null });
  await waitForEnd(task.app_conversation_id);
  const kinds = (await events(task.app_conversation_id)).map(({ kind }) => kind);
  expect(kinds.filter((kind) => kind === "MessageEvent")).toHaveLength(1);
  for (const { status } of (await server.call("GET", "/api/v1/sandboxes/search")).body.items)
    expect(status).toBe("RUNNING");
});

test("a paused sandbox is still paused after a restart, and resumes", async () => {
  script = ({ index }) =>
    index === 0 ? reply.toolCalls([terminal("echo kept > note; cat note")]) : finish("Done.");
  const { id, sandboxId } = await startConversation(server.call, "Work");
  await waitForEnd(id);
  const action = (verb: string) => server.call("POST", `/api/v1/sandboxes/${sandboxId}/${verb}`, {});
  const status = async () => (await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].status;
  expect((await action("pause")).status).toBe(200);
  await restart();
  expect(await status()).toBe("PAUSED");
  expect((await action("resume")).status).toBe(200);
  expect(await status()).toBe("RUNNING");
});

test("the agent's task list survives a restart", async () => {
  const tasks = [
    { title: "Look", status: "done" },
    { title: "Act", status: "in_progress" },
  ];
  script = ({ index }) => {
    if (index === 0)
      return reply.toolCalls([{ name: "task_tracker", arguments: { command: "plan", task_list: tasks } }]);
    if (index === 2) return reply.toolCalls([{ name: "task_tracker", arguments: { command: "view" } }]);
    return finish("Done.");
  };
  const { id } = await startConversation(server.call, "Plan");
  await waitForEnd(id);
  await restart();
  const message = { role: "user", content: [{ type: "text", text: "Show the list" }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, message);
  const shown = await until(async () =>
    (await events(id)).find((event) => event.observation?.command === "view"),
  );
  expect(shown.observation.task_list.map(({ title }: Json) => title)).toEqual(["Look", "Act"]);
});

test("SIGTERM ends the server with status 0 while a tool runs, and the next server continues the run", async () => {
  script = ({ index }) => (index === 0 ? reply.toolCalls([terminal("sleep 3")]) : finish("Done."));
  const { id } = await startConversation(server.call, "Work");
  await until(async () => (await events(id)).some(({ kind }) => kind === "ActionEvent") || undefined);
  expect(await server.end("SIGTERM")).toBe(0);
  server = await startServerProcess(dataDir);
  await waitForEnd(id);
});

test("a conversation that was running at three kills in a row is stored as failed, and a message continues it", async () => {
  let isPoison = true;
  // Each kill comes before the answer, so that a new process would ask the model again.
  script = () => (isPoison ? reply.hang() : finish("Done."));
  const { id } = await startConversation(server.call, "Work");
  const asked = (count: number) => until(async () => models.requests.length >= count || undefined);
  await asked(1);
  await restart();
  await asked(2);
  // A clean shutdown does not count.
  expect(await server.end("SIGTERM")).toBe(0);
  server = await startServerProcess(dataDir);
  await asked(3);
  await restart();
  await asked(4);
  await restart();
  await waitForEnd(id, "error");
  expect((await events(id)).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    code: "TurnFailed",
    detail: expect.stringMatching(/ended 3 times in a row/),
  });
  expect(models.requests).toHaveLength(4);

  const message = { role: "user", content: [{ type: "text", text: "Go on" }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, message);
  await asked(5);
  isPoison = false;
  await restart();
  await waitForEnd(id);
  expect(models.requests).toHaveLength(6);
});

test("a second server on the same data folder is refused with one sentence", async () => {
  await expect(startServerProcess(dataDir)).rejects.toThrow(/ended with 2.*in use/s);
});

test("kill -9 during condensation: the server requests the summary again, and the run continues with it", async () => {
  let summaries = 0;
  const asked = Promise.withResolvers<void>();
  let thoughts = 0;
  script = ({ system, messages }) => {
    if (!system.includes("You keep the memory")) {
      const isSummarised = messages.some(({ text }) => text.includes("WHAT WAS DONE"));
      return isSummarised
        ? finish("Done.")
        : reply.toolCalls([{ name: "think", arguments: { thought: `${thoughts++}` } }]);
    }
    summaries += 1;
    if (summaries > 1) return reply.text("WHAT WAS DONE");
    asked.resolve();
    return reply.hang();
  };
  await server.call("POST", "/api/settings", { condenser_max_size: 20 });
  const { id } = await startConversation(server.call, "Hello");
  await asked.promise;
  const before = thoughts;
  await restart();
  await waitForEnd(id);
  expect([summaries, thoughts]).toEqual([2, before]);
  expect((await events(id)).filter(({ kind }) => kind === "Condensation")).toHaveLength(1);
});

test("kill -9 after an approval: executed actions are not reported as rejected, even after an earlier message", async () => {
  expect((await server.call("POST", "/api/settings", { confirmation_mode: true })).status).toBe(200);
  script = ({ index }) => (index === 0 ? reply.toolCalls([terminal("sleep 3")]) : finish("Done."));
  const { id } = await startConversation(server.call, "Work");
  await waitForEnd(id, "waiting_for_confirmation");
  const message = { role: "user", content: [{ type: "text", text: "Take your time." }], run: false };
  expect((await server.call("POST", `/api/conversations/${id}/events`, message)).status).toBe(200);
  await waitForEnd(id, "waiting_for_confirmation");
  const accepted = server.call("POST", `/api/conversations/${id}/events/respond_to_confirmation`, {
    accept: true,
  });
  expect((await accepted).status).toBe(200);
  await waitForEnd(id, "running");
  await restart();
  await waitForEnd(id);
  const results = (await events(id)).filter(
    (event) => event.tool_name === "terminal" && event.kind !== "ActionEvent",
  );
  expect(results).toHaveLength(1);
  // Where the kill came before the shell, nothing is known of the command.
  if (results[0]?.kind !== "ObservationEvent")
    expect(results[0]).toMatchObject({
      kind: "AgentErrorEvent",
      error: expect.stringMatching(/interrupted.*unknown/),
    });
});

test("kill -9 of a paused conversation: its paused sub-agent resumes with it", async () => {
  const agent_settings_diff = { enable_sub_agents: true };
  expect((await server.call("POST", "/api/v1/settings", { agent_settings_diff })).status).toBe(200);
  const asked = Promise.withResolvers<void>();
  script = async ({ system, messages }) => {
    const { role, text } = messages.at(-1)!;
    if (!system.includes("<SUB_AGENT>"))
      return role === "tool"
        ? finish(text)
        : reply.toolCalls([{ name: "task", arguments: { prompt: "Do it." } }]);
    asked.resolve();
    return role === "tool" ? finish("I did it.") : reply.toolCalls([terminal("sleep 1")]);
  };
  const { id } = await startConversation(server.call, "Have it done.");
  await asked.promise;
  expect((await server.call("POST", `/api/conversations/${id}/pause`)).status).toBe(200);
  const { items } = (
    await server.call("GET", "/api/v1/app-conversations/search?include_sub_conversations=true")
  ).body;
  const child = items.find((item: Json) => item.parent_conversation_id === id).id;
  await waitForEnd(child, "paused");
  await restart();
  expect((await server.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await waitForEnd(id);
  expect(JSON.stringify(await events(id))).toContain("I did it.");
});
