import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import WebSocket from "ws";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { terminal } from "../support/script.ts";

/**
 * What a client that waits in `run()` takes for the end of the run: each full state that is not
 * `running` and that it handles after the answer to its run call (remote-clients.md section 4).
 */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
/** The model answers when this resolves. */
let answer: PromiseWithResolvers<Reply>;

beforeAll(async () => {
  models = await startModelServer(({ messages }) =>
    messages.at(-1)!.role === "user" ? answer.promise : reply.text("That is all."),
  );
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
beforeEach(() => {
  answer = Promise.withResolvers();
});
afterAll(async () => {
  answer?.resolve(reply.text("Late."));
  await platform?.stop();
  await models?.close();
});

const isState = ({ key }: Json) => key === "full_state";
const isEnd = (frame: Json) => isState(frame) && frame.value.execution_status !== "running";
const post = (id: string, path: string, body?: Json) =>
  agent.call("POST", `/api/conversations/${id}/${path}`, body);
const say = (id: string, run = false) =>
  post(id, "events", { role: "user", content: [{ type: "text", text: "Hello" }], run });
const info = async (id: string) => (await agent.call("GET", `/api/conversations/${id}`)).body;
const follow = (id: string, query = "") => SocketClient.forConversation(agent, id, query);

async function create(): Promise<string> {
  const { body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url));
  return body.id;
}

async function conversation(): Promise<{ id: string; socket: SocketClient }> {
  const id = await create();
  const socket = follow(id);
  await socket.frame(isState);
  return { id, socket };
}

/** Waits for the next end of a run behind the frames so far. */
const nextEnd = (socket: SocketClient) => {
  const from = socket.frames.length;
  return socket.frame((frame) => isEnd(frame) && socket.frames.indexOf(frame) >= from);
};

test("a run has one closing state, behind its events and the answer to the run call, however short it is", async () => {
  const { id, socket } = await conversation();
  answer.resolve(reply.text("Done."));
  const ends: string[] = [];
  for (const text of ["first", "second", "third"]) {
    await say(id);
    const from = socket.frames.length;
    await post(id, "run");
    expect(socket.frames.slice(from).filter(isState)).toEqual([]);
    const end = await nextEnd(socket);
    ends.push(`${text} ${end.value.execution_status}`);
    const last = socket.frames.findLastIndex(({ kind }) => kind !== "ConversationStateUpdateEvent");
    expect(socket.frames.indexOf(end)).toBeGreaterThan(last);
  }
  expect(ends).toEqual(["first finished", "second finished", "third finished"]);
  // A run call with nothing to do has an end too.
  expect((await post(id, "run")).status).toBe(200);
  await nextEnd(socket);
  expect(socket.frames.filter(isState)).toHaveLength(5);
});

test("between a message and the end of its run, changes are frames of their field, for two clients", async () => {
  const { id, socket } = await conversation();
  const other = follow(id);
  await other.frame(isState);
  await say(id);
  const llm = { ...sdkRequest(models.url).agent.llm, temperature: 0.5 };
  const changes: [path: string, body: Json, key: string][] = [
    ["confirmation_policy", { policy: { kind: "NeverConfirm" } }, "confirmation_policy"],
    ["security_analyzer", { security_analyzer: { kind: "LLMSecurityAnalyzer" } }, "security_analyzer"],
    ["security_analyzer", { security_analyzer: null }, "security_analyzer"],
    ["secrets", { secrets: { TOKEN: "planted-secret-value" } }, "secret_registry"],
    ["switch_llm", { llm }, "agent"],
  ];
  for (const [path, body, key] of changes) {
    const from = socket.frames.length;
    expect([path, (await post(id, path, body)).status]).toEqual([path, 200]);
    await socket.frame((frame) => frame.key === key && socket.frames.indexOf(frame) >= from);
  }
  await agent.call("PATCH", `/api/conversations/${id}`, { title: "New title", tags: { a: "b" } });
  for (const one of [socket, other]) {
    await one.frame(({ key, value }) => key === "title" && value === "New title");
    await one.frame(({ key, value }) => key === "tags" && value.a === "b");
    await one.frame(({ key, value }) => key === "secret_registry" && "TOKEN" in value.secret_sources);
  }
  await post(id, "run");
  expect((await post(id, "run")).status).toBe(409);
  await agent.call("PATCH", `/api/conversations/${id}`, { title: "Newer title" });
  answer.resolve(reply.toolCalls([terminal("true")]));
  await nextEnd(socket);
  await other.frame((frame) => isEnd(frame) && other.frames.indexOf(frame) > 0);
  for (const { frames } of [socket, other]) {
    expect(frames.filter(isState).map(({ value }) => value.execution_status)).toEqual(["idle", "finished"]);
    expect(frames.findLast(isState)!.value.title).toBe("Newer title");
  }
  expect(JSON.stringify(socket.frames)).not.toContain("planted-secret-value");
});

test("a run call is answered when a follower has handled the earlier states, or is gone", async () => {
  const id = await create();
  const url = `${agent.url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${agent.key}`;
  const slow = new WebSocket(url, { autoPong: false });
  const pings: Buffer[] = [];
  const frames: Json[] = [];
  slow.on("ping", (data) => pings.push(data));
  slow.on("message", (data) => frames.push(JSON.parse(String(data))));
  await until(() => pings.length === 1 || undefined);
  await say(id);
  let answered = false;
  const call = post(id, "run").then(({ status }) => {
    answered = true;
    return status;
  });
  await until(() => frames.some(({ key, value }) => key === "execution_status" && value === "running"));
  // The network code of a client answers the first ping before its handlers have run.
  slow.pong(pings[0]);
  await until(() => pings.length === 2 || undefined);
  expect(answered).toBe(false);
  slow.pong(pings[1]);
  expect(await call).toBe(200);

  answer.resolve(reply.text("Done."));
  await until(() => frames.filter(isState).length === 2 || undefined);
  await say(id);
  const again = post(id, "run");
  await until(() => frames.filter(({ value }) => value === "running").length === 2 || undefined);
  slow.terminate();
  expect((await again).status).toBe(200);
});

test("the closing state waits for two pings behind the answer to the run call", async () => {
  const { id } = await conversation();
  const url = `${agent.url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${agent.key}`;
  const busy = new WebSocket(url, { autoPong: false });
  const times: Json = {};
  // A client whose threads wait for a processor answers late.
  busy.on("ping", (data) => setTimeout(() => busy.pong(data), 150));
  busy.on("message", (data) => {
    const frame = JSON.parse(String(data));
    if (isEnd(frame)) times[frame.value.execution_status] = performance.now();
  });
  await until(() => times.idle);
  answer.resolve(reply.text("Done."));
  await say(id);
  await post(id, "run");
  const answeredAt = performance.now();
  await until(() => times.finished);
  expect(times.finished - answeredAt).toBeGreaterThan(250);
  busy.terminate();
});

test("a client that reads the state again and again, and no events, gets the closing state once more", async () => {
  const { id, socket } = await conversation();
  answer.resolve(reply.text("Done."));
  await say(id);
  await post(id, "run");
  await nextEnd(socket);
  const ends = () => socket.frames.filter(isEnd).length;
  expect(ends()).toBe(2);
  // The client has missed it: it read it before the answer to its call.
  await info(id);
  const repeated = nextEnd(socket);
  await info(id);
  expect((await repeated).value.execution_status).toBe("finished");
  for (let i = 0; i < 5; i++) await info(id);

  // The end of a client that reads the events is seen.
  await say(id);
  await post(id, "run");
  await nextEnd(socket);
  await info(id);
  await agent.call("GET", `/api/conversations/${id}/events/search`);
  for (let i = 0; i < 5; i++) await info(id);

  // A message begins new work.
  await say(id);
  for (let i = 0; i < 5; i++) await info(id);
  await agent.call("PATCH", `/api/conversations/${id}`, { title: "The last frame" });
  await socket.frame(({ key, value }) => key === "title" && value === "The last frame");
  expect(ends()).toBe(4);
});

test("a client that comes back gets no status that could end its next run, but the end of a run that it missed", async () => {
  const { id, socket } = await conversation();
  socket.socket.terminate();
  await socket.closed;
  await until(async () => (await info(id)).num_connections === 0 || undefined);
  await say(id);
  const back = follow(id);
  await back.frame(({ key, value }) => key === "execution_status" && value === "idle");
  expect(back.frames[0]).toMatchObject({ key: "full_state", value: { id, agent: { kind: "Agent" } } });
  expect(back.frames.filter(isState).map(({ value }) => value.execution_status)).toEqual([undefined]);

  await post(id, "run");
  back.socket.terminate();
  await until(async () => (await info(id)).num_connections === 0 || undefined);
  answer.resolve(reply.text("Done."));
  await until(async () => (await info(id)).execution_status === "finished" || undefined);
  // The client waits for this run, and nobody was there for its closing state.
  const waiting = follow(id);
  expect((await waiting.frame(isState)).value.execution_status).toBe("finished");
});

test("a pause ends the client's wait when the current step has ended", async () => {
  const { id, socket } = await conversation();
  await say(id);
  answer.resolve(reply.toolCalls([terminal("while [ ! -e /tmp/go-on ]; do sleep 0.1; done")]));
  await post(id, "run");
  await socket.frame(({ kind }) => kind === "ActionEvent");
  expect((await post(id, "pause")).status).toBe(200);
  await socket.frame(({ key, value }) => key === "execution_status" && value === "paused");
  const end = nextEnd(socket);
  await agent.call("POST", "/api/bash/execute_bash_command", { command: "touch /tmp/go-on" });
  expect((await end).value.execution_status).toBe("paused");
  const result = socket.frames.findIndex(({ kind }) => kind === "ObservationEvent");
  expect(result).toBeGreaterThan(0);
  expect(socket.frames.findIndex((frame, at) => at > 0 && isEnd(frame))).toBeGreaterThan(result);
});

test("state frames are in no list and no count, and a resumed client misses nothing", async () => {
  const { id, socket } = await conversation();
  answer.resolve(reply.toolCalls([terminal("true")]));
  await say(id);
  await post(id, "run");
  await nextEnd(socket);
  const events = (await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body.items;
  expect((await agent.call("GET", `/api/conversations/${id}/events/count`)).body).toBe(events.length);
  expect(events.filter(({ kind }: Json) => kind === "ConversationStateUpdateEvent")).toEqual([]);
  const ids = events.map(({ id }: Json) => id);
  for (const query of ["&resend_mode=all", "&resend_mode=since&after_seq=0"]) {
    const resumed = follow(id, query);
    await resumed.frame((frame) => frame.id === ids.at(-1));
    const [state, ...stored] = resumed.frames;
    expect(stored.map(({ id }) => id)).toEqual(ids);
    // The state has what state frames said before.
    const { stats, execution_status } = socket.frames.findLast(isState)!.value;
    expect(state!.value).toMatchObject({ stats, execution_status });
    resumed.close();
  }
});
