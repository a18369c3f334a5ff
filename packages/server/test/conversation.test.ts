import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

let server: TestPlatform;
let models: ModelServer;
let script: Script;

/** Sets the answers of the next model calls and stores the scripted model in the settings. */
async function useModel(replies: Reply[] | Script, model = "openai/scripted"): Promise<void> {
  const first = models.requests.length;
  script = Array.isArray(replies)
    ? ({ index }) => replies[index - first] ?? reply.text("The script has ended.")
    : replies;
  const settings = { llm_model: model, llm_api_key: "sk-planted-secret", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
}

async function events(id: string): Promise<Json[]> {
  return (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;
}

async function conversation(id: string): Promise<Json> {
  return (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
}

const waitForEnd = (id: string, status = "finished") =>
  until(async () => {
    const found = await conversation(id);
    return found.execution_status === status ? found : undefined;
  });

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

describe.each(["openai/scripted", "anthropic/scripted"])("with %s", (model) => {
  test("the agent works in a real sandbox and every reader sees the same events", async () => {
    await useModel(
      [
        reply.toolCalls([terminal("echo one > a.txt; cat a.txt; exit_code_probe; (exit 3)")], {
          text: "I look around.",
        }),
        reply.toolCalls([
          editor({
            command: "str_replace",
            path: "/workspace/project/a.txt",
            old_str: "one",
            new_str: "two",
          }),
          terminal("cat a.txt"),
        ]),
        finish("The file says two."),
      ],
      model,
    );
    const { id } = await startConversation(server.call, "Make a.txt say two");
    const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
    const summary = await waitForEnd(id);
    await socket.status("finished").catch(() => {});

    const stored = await events(id);
    expect(stored.map(({ kind }) => kind)).toEqual([
      "SystemPromptEvent",
      "MessageEvent",
      "ActionEvent",
      "ObservationEvent",
      "ActionEvent",
      "ActionEvent",
      "ObservationEvent",
      "ObservationEvent",
      "ActionEvent",
      "ObservationEvent",
    ]);
    const observations = stored.filter(({ kind }) => kind === "ObservationEvent");
    expect(observations[0]?.observation).toMatchObject({
      exit_code: 3,
      is_error: false,
      command: expect.stringContaining("echo one"),
    });
    expect(observations[0]?.observation.content[0].text).toMatch(/^one\n/);
    expect(observations[1]?.observation).toMatchObject({
      old_content: "one\n",
      new_content: "two\n",
      is_error: false,
    });
    expect(observations[2]?.observation.content[0].text).toBe("two\n");
    expect(summary.metrics.accumulated_token_usage.prompt_tokens).toBeGreaterThan(0);

    // The model read the results, and the socket gave the same events once each, in the same order.
    expect(models.requests.at(-1)?.messages.at(-1)?.text).toContain("two");
    await until(() => socket.frames.some((frame) => frame.id === stored.at(-1)?.id) || undefined);
    const seen = socket.frames
      .filter((frame) => stored.some(({ id }) => id === frame.id))
      .map((frame) => frame.id);
    expect(seen).toEqual(stored.map(({ id }) => id));
    expect(socket.frames[0]).toMatchObject({ kind: "ConversationStateUpdateEvent", key: "full_state" });
    socket.close();
  });
});

test("a text answer ends the turn, and a message over the socket starts the next one", async () => {
  await useModel([reply.text("Hello, what shall I do?"), reply.text("Four.")]);
  const { id } = await startConversation(server.call, "Hello");
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  await waitForEnd(id);
  await socket.frame(({ key }) => key === "full_state");
  socket.socket.send(JSON.stringify({ role: "user", content: [{ type: "text", text: "What is 2 + 2?" }] }));
  await socket.frame(
    (frame) => frame.kind === "MessageEvent" && frame.llm_message.content[0]?.text === "Four.",
  );
  await socket.status("running");
  const last = await until(() => {
    const states = socket.frames.filter((frame) => frame.key === "full_state");
    return states.at(-1)?.value.execution_status === "finished" ? states.at(-1) : undefined;
  });
  expect(last.value.stats.usage_to_metrics.agent.accumulated_token_usage.completion_tokens).toBeGreaterThan(
    0,
  );
  const deltas = socket.frames.filter(({ kind }) => kind === "StreamingDeltaEvent");
  expect(deltas.map((delta) => delta.content).join("")).toContain("Four.");
  socket.close();
});

test("unusable tool calls become results that the model reads, and the loop continues", async () => {
  await useModel([
    reply.toolCalls([
      { name: "teleport", arguments: { to: "mars" } },
      { name: "terminal", arguments: '{"command": "ls' },
      { name: "file_editor", arguments: { path: "/tmp/x" } },
    ]),
    reply.answer({ text: "" }),
    finish("I give up."),
  ]);
  const { id } = await startConversation(server.call, "Confuse yourself");
  await waitForEnd(id);
  const stored = await events(id);
  const errors = stored.filter(({ kind }) => kind === "AgentErrorEvent");
  expect(errors[0]?.error).toMatch(/teleport.*terminal/s);
  expect(errors.length + stored.filter(({ kind }) => kind === "ObservationEvent").length).toBe(4);
  for (const event of stored) if (event.kind === "ActionEvent") expect(event.action).not.toBeNull();
  expect(
    stored.find((event) => event.source === "environment" && event.kind === "MessageEvent"),
  ).toBeDefined();
});

test("a failing model ends the run with the provider's message and without the key", async () => {
  await useModel(() =>
    reply.error(401, { error: { message: "Incorrect API key provided: sk-planted-secret" } }),
  );
  const { id } = await startConversation(server.call, "Hello");
  await waitForEnd(id, "error");
  const error = (await events(id)).find(({ kind }) => kind === "ConversationErrorEvent");
  expect(error).toMatchObject({ code: "ModelRefused", source: "environment" });
  expect(error?.detail).toContain("Incorrect API key");
  expect(JSON.stringify(error)).not.toContain("sk-planted-secret");

  // The conversation is not lost: with a working model the next message continues it.
  await useModel([reply.text("Better now.")]);
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Again" }],
    run: true,
  });
  await waitForEnd(id);
});

test("followers see that a model call is retried", async () => {
  const busy = reply.error(503, { error: { message: "The engine is overloaded" } }, { "retry-after": "0" });
  await useModel([reply.text("Ready."), busy, reply.text("At last.")]);
  const { id } = await startConversation(server.call, "Hello");
  await waitForEnd(id);
  const socket = SocketClient.forConversation(server, id);
  await socket.frame(({ key }) => key === "full_state");
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Go" }],
    run: true,
  });
  const notice = await socket.frame(({ key }) => key === "agent_state");
  expect(notice.value.model_retry).toMatchObject({
    attempt: 1,
    reason: expect.stringContaining("overloaded"),
  });
  await socket.status("finished");
  socket.close();
});

test("a model that is not configured is reported by the start task and by the run", async () => {
  await server.call("POST", "/api/settings", { llm_model: "", llm_api_key: "", llm_base_url: "" });
  await expect(startConversation(server.call, "Hello")).rejects.toThrow(/llm_model/);

  const { body } = await server.call("POST", "/api/v1/app-conversations", {});
  const task = await until(async () => {
    const answer = await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${body.id}`);
    return answer.body[0].status === "READY" ? answer.body[0] : undefined;
  });
  const id = task.app_conversation_id;
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "Hi" }],
    run: true,
  });
  await waitForEnd(id, "error");
  const error = (await events(id)).find(({ kind }) => kind === "ConversationErrorEvent");
  expect(error).toMatchObject({ code: "ModelNotConfigured", detail: expect.stringContaining("llm_model") });
});

test("the iteration limit ends a run that never finishes", async () => {
  await server.call("POST", "/api/settings", { max_iterations: 3 });
  try {
    let counter = 0;
    await useModel(() => reply.toolCalls([terminal(`echo ${counter++}`)]));
    const { id } = await startConversation(server.call, "Loop");
    await waitForEnd(id, "error");
    expect((await events(id)).at(-1)).toMatchObject({
      code: "MaxIterationsReached",
      detail: expect.stringContaining("3"),
    });
  } finally {
    await server.call("POST", "/api/settings", { max_iterations: null });
  }
});

test("a loop of the same call is stopped as stuck", async () => {
  await useModel(() => reply.toolCalls([terminal("true")]));
  const { id } = await startConversation(server.call, "Loop");
  await waitForEnd(id, "stuck");
  const actions = (await events(id)).filter(({ kind }) => kind === "ActionEvent");
  expect(actions.map(({ action }) => action.command)).toEqual(["true", "true", "true", "true"]);
});

test("the sandbox's session key opens its own conversation and no platform route", async () => {
  await useModel([reply.text("Hi."), reply.text("Hi again.")]);
  const { id } = await startConversation(server.call, "Hello");
  const own = await waitForEnd(id);
  const other = await startConversation(server.call, "Hello");
  const key = own.session_api_key;
  const get = (path: string) =>
    fetch(`${server.url}${path}`, { headers: { "X-Session-API-Key": key } }).then(({ status }) => status);
  expect(await get(`/api/conversations/${id}/events/search`)).toBe(200);
  expect(await get(`/api/conversations/${other.id}/events/search`)).toBe(404);
  expect(await get("/api/v1/settings")).toBe(401);
  expect(await get("/api/v1/app-conversations/search")).toBe(401);
});

test("no stored event, log file or database holds the model's key", async () => {
  const { execFileSync } = await import("node:child_process");
  const found = execFileSync("sh", [
    "-c",
    'grep -rla "sk-planted-secret" "$1" || :',
    "sh",
    server.dataDir,
  ]).toString();
  expect(found).toBe("");
});
