import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";

/**
 * Runs beyond the limit (agent-server-1.58.md section 3.4): the reference answers 429 and keeps the
 * message, after which the client has to call `/run` again. Released clients of 1.43 and 1.49 know
 * no 429, so here the run is accepted, waits, and says that it waits.
 */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
/** The model answers when this resolves. */
const answer = Promise.withResolvers<Reply>();
const asked: string[] = [];

beforeAll(async () => {
  models = await startModelServer(({ messages }) => {
    const { text } = messages.findLast(({ role }) => role === "user")!;
    asked.push(text);
    return text === "first" ? answer.promise : reply.text("Done.");
  });
  platform = await startTestPlatform({ maxRuns: 1 });
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  answer.resolve(reply.text("Late."));
  await platform?.stop();
  await models?.close();
});

const post = (id: string, path: string, body?: Json) =>
  agent.call("POST", `/api/conversations/${id}/${path}`, body);
const say = (id: string, text: string, run: boolean) =>
  post(id, "events", { role: "user", content: [{ type: "text", text }], run });
const info = async (id: string) => (await agent.call("GET", `/api/conversations/${id}`)).body;
const create = async (change: Json = {}) => {
  const { status, body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect(status).toBe(201);
  return body.id as string;
};
const finished = (id: string) => until(async () => (await info(id)).execution_status === "finished");

test("at the limit every way to begin a run is accepted, nothing is lost, and clients see the wait", async () => {
  const [first, second, third, fourth] = await Promise.all([create(), create(), create(), create()]);
  const socket = SocketClient.forConversation(agent, second!);
  await socket.frame(({ key }) => key === "full_state");
  expect((await say(first!, "first", true)).status).toBe(200);
  await until(() => asked.length === 1);
  expect((await info(first!)).agent_state).toEqual({});

  // A message with run, a message and then run, a goal, and a create with a message.
  expect((await say(second!, "second", true)).status).toBe(200);
  expect((await say(third!, "third", false)).status).toBe(200);
  expect((await post(third!, "run")).status).toBe(200);
  expect((await post(fourth!, "goal", { objective: "fourth", max_iterations: 1 })).status).toBe(200);
  const content = [{ type: "text", text: "fifth" }];
  const fifth = await create({ initial_message: { role: "user", content, run: true } });

  const waiting = [second!, third!, fourth!, fifth];
  for (const [index, id] of waiting.entries()) {
    const { execution_status, agent_state } = await info(id);
    expect([execution_status, agent_state.run_queue]).toEqual(["running", { position: index + 1 }]);
  }
  const { value } = await socket.frame(({ key, value }) => key === "agent_state" && value.run_queue);
  expect(value).toEqual({ run_queue: { position: 1 } });
  const late = SocketClient.forConversation(agent, third!);
  const opening = await late.frame(({ key }) => key === "full_state");
  expect(opening.value.agent_state).toEqual({ run_queue: { position: 2 } });
  late.close();

  // A second run call is a run that is under way; a pause gives up the turn and keeps the message.
  expect((await post(second!, "run")).status).toBe(409);
  expect((await post(third!, "pause")).status).toBe(200);
  expect((await info(third!)).agent_state).toEqual({});
  expect((await info(fourth!)).agent_state.run_queue).toEqual({ position: 2 });

  answer.resolve(reply.text("Done."));
  await Promise.all([second!, fifth].map(finished));
  const began = await socket.frame(({ key, value }) => key === "agent_state" && !value.run_queue);
  expect(began.value).toEqual({});
  expect(asked).not.toContain("third");
  expect((await post(third!, "run")).status).toBe(200);
  await finished(third!);
  for (const text of ["second", "third", "fifth"])
    expect(asked.filter((one) => one === text)).toHaveLength(1);
  socket.close();
});
