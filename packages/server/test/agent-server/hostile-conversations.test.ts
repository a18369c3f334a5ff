import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";

/** Agent-server clients that send everything concurrently, or send invalid requests. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(({ messages }): Reply => {
    const last = messages.at(-1)!;
    return last.role === "user" && last.text.startsWith("run")
      ? reply.toolCalls([terminal("sleep 0.05")])
      : finish("Done.");
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const make = async (change: Json = {}): Promise<string> => {
  const { status, body } = await agent.call("POST", "/api/conversations", sdkRequest(models.url, change));
  expect([status, body]).toEqual([201, body]);
  return body.id;
};
const content = (text: string) => ({ role: "user", content: [{ type: "text", text }] });

/** Every change of one conversation, several at a time, in an order that a number decides. */
function everything(id: string, turn: number): Promise<{ status: number; body: unknown }>[] {
  const path = `/api/conversations/${id}`;
  const llm = { model: "openai/scripted", api_key: "sk-own-model-key", base_url: models.url };
  const calls: [string, string, unknown?][] = [
    ["POST", "/run"],
    ["POST", "/events", { ...content("run it"), run: true }],
    ["POST", "/pause", {}],
    ["POST", "/interrupt", {}],
    ["POST", "/events/respond_to_confirmation", { accept: turn % 2 === 0 }],
    ["POST", "/confirmation_policy", { policy: { kind: turn % 2 ? "AlwaysConfirm" : "NeverConfirm" } }],
    ["POST", "/security_analyzer", { security_analyzer: turn % 2 ? { kind: "LLMSecurityAnalyzer" } : null }],
    ["POST", "/switch_llm", { llm: { ...llm, usage_id: `u${turn}` } }],
    ["POST", "/secrets", { secrets: { [`S${turn}`]: "planted-secret-value" } }],
    ["PATCH", "", { title: `Title ${turn}`, tags: { turn: String(turn) } }],
    ["GET", ""],
    ["GET", "/agent_final_response"],
    ["GET", "/events/search"],
  ];
  const shift = (turn * 5) % calls.length;
  return [...calls.slice(shift), ...calls.slice(0, shift)].map(([method, rest, body]) =>
    agent.call(method, path + rest, body),
  );
}

test("concurrent requests of every kind are answered, the log stays consistent, and the conversation continues", async () => {
  const id = await make();
  const socket = SocketClient.forConversation(agent, id);
  await socket.frame(({ key }) => key === "full_state");
  const answers = (await Promise.all([1, 2, 3, 4].map((turn) => Promise.all(everything(id, turn))))).flat();
  for (const { status, body } of answers) expect([200, 409], JSON.stringify(body)).toContain(status);
  // Ends everything that still runs.
  await agent.call("POST", `/api/conversations/${id}/interrupt`);
  await agent.call("POST", `/api/conversations/${id}/confirmation_policy`, {
    policy: { kind: "NeverConfirm" },
  });
  await agent.call("POST", `/api/conversations/${id}/events/respond_to_confirmation`, { accept: false });
  const from = socket.frames.length;
  await agent.call("POST", `/api/conversations/${id}/events`, { ...content("And now?"), run: true });
  await socket.frame(
    (frame) =>
      frame.key === "execution_status" && frame.value === "finished" && socket.frames.indexOf(frame) > from,
  );
  const { items } = (await agent.call("GET", `/api/conversations/${id}/events/search`)).body;
  expect(items.filter(({ kind }: Json) => kind === "SystemPromptEvent")).toHaveLength(1);
  const results = (kinds: string[]) =>
    items.filter(({ kind }: Json) => kinds.includes(kind)).map((event: Json) => event.tool_call_id);
  // Each call has one result.
  expect(results(["ObservationEvent", "AgentErrorEvent", "UserRejectObservation"]).sort()).toEqual(
    results(["ActionEvent"]).sort(),
  );
  const shown = (await agent.call("GET", `/api/conversations/${id}`)).body;
  expect(shown).toMatchObject({
    execution_status: "finished",
    title: expect.stringMatching(/^Title/),
    leaf_event_id: items.at(-1).id,
  });
  expect(JSON.stringify([shown, socket.frames, items])).not.toMatch(/planted-secret|sk-own-model-key/);
  socket.close();
});

test("a deletion during other requests leaves nothing behind, not even secrets that arrive late", async () => {
  for (let round = 11; round <= 13; round++) {
    const id = await make();
    const calls = everything(id, round);
    const deleted = agent.call("DELETE", `/api/conversations/${id}`);
    const answers = await Promise.all([...calls, ...everything(id, round + 1), deleted]);
    for (const { status, body } of answers) expect([200, 404, 409], JSON.stringify(body)).toContain(status);
    expect((await deleted).status).toBe(200);
    expect((await agent.call("GET", `/api/conversations/${id}`)).status).toBe(404);
  }
  const { body } = await platform.call(
    "GET",
    `/api/v1/sandboxes/${agent.sandboxId}/settings/secrets`,
    undefined,
    {
      "X-Session-API-Key": agent.key,
    },
  );
  expect(JSON.stringify(body)).not.toMatch(/"S1\d"/);
});

test("incomplete creations are refused and leave nothing behind", async () => {
  const before = (await agent.call("GET", "/api/conversations/count")).body;
  const whole = sdkRequest(models.url);
  const bodies: unknown[] = [
    "",
    "[]",
    "7",
    "{",
    {},
    { ...whole, workspace: null },
    { ...whole, workspace: { working_dir: "" } },
    { ...whole, agent: null },
    { ...whole, agent: { llm: {} } },
    { ...whole, agent: { ...whole.agent, kind: "ACPAgent" } },
    { ...whole, agent_settings: {} },
    { ...whole, agent: { ...whole.agent, tools: [{ name: "no_such_tool" }] } },
    { ...whole, agent: { ...whole.agent, agent_context: { secrets: { "a b": "x" } } } },
    { ...whole, conversation_id: "no-id" },
    { ...whole, parent_conversation_id: newId() },
    { ...whole, max_iterations: 0 },
    { ...whole, max_iterations: 1e300 },
    { ...whole, tags: { UPPER: "x" } },
    { ...whole, confirmation_policy: { kind: "Perhaps" } },
    { ...whole, initial_message: { role: "assistant", content: [{ type: "text", text: "x" }] } },
    { ...whole, initial_message: { content: [] } },
    { ...whole, client_tools: [{ name: "terminal", description: "x", parameters: { type: "object" } }] },
    { ...whole, secrets: { A: { url: "file:///etc/passwd" } } },
    { ...whole, plugins: [{ source: "../.." }] },
  ];
  for (const body of bodies) {
    const { status, body: answer } = await agent.call("POST", "/api/conversations", body);
    expect([body, status], JSON.stringify(answer)).toEqual([body, 422]);
  }
  expect((await agent.call("GET", "/api/conversations/count")).body).toBe(before);
});

test("a conversation id of another sandbox is refused, and that conversation cannot be reached", async () => {
  const other = await startAgentServer(platform);
  const id = await make();
  const taken = await other.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { conversation_id: id }),
  );
  expect(taken.status).toBe(409);
  expect((await other.call("GET", `/api/conversations/${id}`)).status).toBe(404);
});

test("secrets of an agent's context work like the conversation's secrets, and are masked", async () => {
  const { agent: given } = sdkRequest(models.url);
  const agent_context = {
    secrets: { IN_CONTEXT: { kind: "StaticSecret", value: "planted-in-context" } },
    skills: [],
  };
  const { body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { agent: { ...given, agent_context } }),
  );
  expect(body).toMatchObject({
    secret_registry: { secret_sources: { IN_CONTEXT: { value: "**********" } } },
    agent: { agent_context: { secrets: { IN_CONTEXT: { kind: "StaticSecret", value: "**********" } } } },
  });
});
