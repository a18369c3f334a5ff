import { ConversationClient } from "@openhands/typescript-client/clients";
import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";

/** Conversation states, their transitions and their frames (agent-server.md section 4). */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let client: ConversationClient;
/** Answers that the model holds back until a test gives them, by the text that asks for them. */
const held = new Map<string, PromiseWithResolvers<Reply>>();

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const last = messages.at(-1)!;
    const [, verb, rest = ""] = (last.role === "user" && /^(\w+): (.*)/m.exec(last.text)) || [];
    if (verb === "run") return reply.toolCalls([terminal(rest)]);
    if (verb === "slow") return reply.toolCalls([terminal("sleep 700"), terminal("echo never")]);
    if (messages.some(({ role, text }) => role === "user" && text.startsWith("silence")))
      return reply.answer({});
    if (verb === "two") return reply.toolCalls([terminal("echo one"), terminal("echo two")]);
    if (verb === "view")
      return reply.toolCalls([
        { name: "file_editor", arguments: { command: "view", path: rest, summary: "look" } },
      ]);
    if (verb === "risk") return reply.toolCalls([terminal("echo risky", { security_risk: rest })]);
    if (verb === "hold") return held.get(rest)!.promise;
    if (verb === "fail") return reply.error(400, { error: { message: "no such thing" } });
    // A model that repeats itself is stuck.
    if (messages.some(({ role, text }) => role === "user" && text.startsWith("loop")))
      return reply.toolCalls([terminal("echo same")]);
    return last.role === "user" ? reply.text(`Said ${last.text}`) : finish("Done.");
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
  client = new ConversationClient({ host: agent.url, apiKey: agent.key });
});
afterAll(async () => {
  for (const { resolve } of held.values()) resolve(finish("Late."));
  client?.close();
  await platform?.stop();
  await models?.close();
});

/** One conversation with a socket that follows it. */
async function conversation(change: Json = {}) {
  const { status, body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect([status, body]).toEqual([201, body]);
  const { id } = body;
  const socket = SocketClient.forConversation({ url: agent.url, key: agent.key }, id);
  await socket.frame(({ key }) => key === "full_state");
  return {
    id,
    socket,
    status: async () => ((await client.getConversation(id)) as Json).execution_status,
    send: (text: string, run = false) =>
      client.sendEvent(id, { role: "user", content: [{ type: "text", text }] }, { run }),
    run: () => client.runConversation(id),
    events: async () => ((await client.searchEvents(id)) as Json).items as Json[],
    /** Waits for a full state with this status that is newer than the frames received so far. */
    async closing(status: string, from = socket.frames.length): Promise<Json> {
      const became = await socket.frame(
        (frame) =>
          frame.key === "execution_status" && frame.value === status && socket.frames.indexOf(frame) >= from,
      );
      const after = socket.frames.indexOf(became);
      return socket.frame(
        (frame) =>
          frame.key === "full_state" &&
          frame.value.execution_status === status &&
          socket.frames.indexOf(frame) > after,
      );
    },
    /** Sends, runs, and waits for the end. */
    async until(text: string, status: string): Promise<void> {
      const from = socket.frames.length;
      await this.send(text, true);
      await this.closing(status, from);
      expect(await this.status()).toBe(status);
    },
  };
}
const kinds = (events: Json[]) => events.map(({ kind }) => kind);
const hold = (name: string) => {
  const answer = Promise.withResolvers<Reply>();
  held.set(name, answer);
  return (one: Reply) => answer.resolve(one);
};
const asking = async (text: string, count: number) => {
  const asked = () => models.requests.filter(({ messages }) => messages.at(-1)!.text.includes(text)).length;
  while (asked() < count) await new Promise((resolve) => setTimeout(resolve, 5));
};

test("a conversation is idle, running, finished by a text or the finish tool, and idle again with the next message", async () => {
  const one = await conversation();
  expect(await one.status()).toBe("idle");
  await one.send("hello");
  expect(await one.status()).toBe("idle");
  const from = one.socket.frames.length;
  expect(await one.run()).toEqual({ success: true });
  await one.closing("finished", from);
  expect(kinds(await one.events())).toEqual(["SystemPromptEvent", "MessageEvent", "MessageEvent"]);
  const statuses = one.socket.frames
    .filter(({ key }) => key === "execution_status")
    .map(({ value }) => value);
  expect(statuses).toEqual(["running", "finished"]);
  await one.send("again");
  expect(await one.status()).toBe("idle");
  await one.until("run: true", "finished");
  expect(kinds(await one.events()).slice(-4)).toEqual([
    "ActionEvent",
    "ObservationEvent",
    "ActionEvent",
    "ObservationEvent",
  ]);
});

test("a second run is refused during a run, and a message with run joins the run", async () => {
  const one = await conversation();
  const answer = hold("second");
  await one.send("hold: second", true);
  await asking("hold: second", 1);
  expect(await agent.call("POST", `/api/conversations/${one.id}/run`)).toEqual({
    status: 409,
    body: { detail: "Conversation already running. Wait for completion or pause first." },
  });
  await one.send("and this", true);
  answer(reply.text("First answer."));
  await one.closing("finished", 0);
  const said = (await one.events()).filter(
    ({ kind, source }) => kind === "MessageEvent" && source === "agent",
  );
  expect(said.map(({ llm_message }) => llm_message.content[0].text)).toEqual([
    "First answer.",
    "Said and this",
  ]);
});

test("a pause takes effect after the step, and a run continues from there", async () => {
  const one = await conversation();
  const answer = hold("pause");
  await one.send("hold: pause", true);
  await asking("hold: pause", 1);
  expect(await client.pauseConversation(one.id)).toEqual({ success: true });
  expect(await one.status()).toBe("paused");
  answer(reply.toolCalls([terminal("echo after > after.txt")]));
  await one.socket.frame(({ kind }) => kind === "ObservationEvent");
  await one.closing("paused", 0);
  expect(kinds(await one.events())).toEqual([
    "SystemPromptEvent",
    "MessageEvent",
    "PauseEvent",
    "ActionEvent",
    "ObservationEvent",
  ]);
  const from = one.socket.frames.length;
  await one.run();
  await one.closing("finished", from);

  const idle = await conversation();
  await client.pauseConversation(idle.id);
  expect(await idle.status()).toBe("paused");
  await client.pauseConversation(idle.id);
  expect(kinds(await idle.events())).toEqual(["PauseEvent"]);
});

test("an interrupt cancels the model call, or the tools, whose calls get a result", async () => {
  const one = await conversation();
  hold("interrupt");
  await one.send("hold: interrupt", true);
  await asking("hold: interrupt", 1);
  expect(await client.interruptConversation(one.id)).toEqual({ success: true });
  expect(await one.status()).toBe("paused");
  expect(kinds(await one.events()).at(-1)).toBe("InterruptEvent");

  const two = await conversation();
  await two.send("run: sleep 600", true);
  const action = await two.socket.frame(({ kind }) => kind === "ActionEvent");
  await client.interruptConversation(two.id);
  const events = await two.events();
  expect(kinds(events).slice(-3)).toEqual(["ActionEvent", "AgentErrorEvent", "InterruptEvent"]);
  expect(events.at(-2)).toMatchObject({ tool_call_id: action.tool_call_id });
  await two.closing("paused", 0);
  expect(models.requests.at(-1)!.messages.at(-1)!.text).toBe("run: sleep 600");

  const three = await conversation();
  await three.send("slow: both", true);
  await three.socket.frame(({ kind }) => kind === "ActionEvent");
  const sleeping = { command: "pgrep -fx 'sleep 700'" };
  await until(
    async () =>
      (await agent.call("POST", "/api/bash/execute_bash_command", sleeping)).body.exit_code === 0 ||
      undefined,
  );
  await client.interruptConversation(three.id);
  expect(
    (await three.events()).filter(({ kind }) => kind === "AgentErrorEvent").map(({ error }) => error),
  ).toEqual([
    expect.stringContaining("outcome is unknown"),
    expect.stringContaining("nothing of it was done"),
  ]);
});

test("stuck, errors and limits end a run, and a run or a message continues from there", async () => {
  const stuck = await conversation();
  await stuck.until("loop", "stuck");
  const actions = async () => (await stuck.events()).filter(({ kind }) => kind === "ActionEvent").length;
  expect(await actions()).toBe(4);
  const again = stuck.socket.frames.length;
  await stuck.run();
  await stuck.closing("stuck", again);
  expect(await actions()).toBe(8);
  await stuck.send("Something else");
  expect(await stuck.status()).toBe("idle");

  const silent = await conversation();
  await silent.until("silence", "stuck");
  expect((await silent.events()).filter(({ source }) => source === "agent").length).toBe(4);

  const failing = await conversation();
  await failing.until("fail: now", "error");
  expect((await failing.events()).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    source: "environment",
    code: "ModelFailed",
  });
  await failing.until("better", "finished");

  const limited = await conversation({ max_iterations: 1 });
  await limited.until("run: true", "error");
  expect((await limited.events()).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    code: "MaxIterationsReached",
  });
  const from = limited.socket.frames.length;
  await limited.run();
  await limited.closing("finished", from);
});

test("a running conversation can be deleted: the model is not asked again", async () => {
  const one = await conversation();
  await one.send("run: sleep 600", true);
  await one.socket.frame(({ kind }) => kind === "ActionEvent");
  const asked = models.requests.length;
  const [deleted, ran] = await Promise.all([
    agent.call("DELETE", `/api/conversations/${one.id}`),
    agent.call("POST", `/api/conversations/${one.id}/run`),
  ]);
  expect(deleted.status).toBe(200);
  expect([200, 404, 409]).toContain(ran.status);
  for (const verb of ["run", "pause", "interrupt"])
    expect((await agent.call("POST", `/api/conversations/${one.id}/${verb}`)).status).toBe(404);
  const after = await conversation();
  await after.until("hello", "finished");
  expect(models.requests.length).toBe(asked + 1);
});
