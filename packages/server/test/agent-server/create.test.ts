import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type ModelServer, startModelServer } from "../support/model-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform } from "../support/platform.ts";
import { obey } from "../support/script.ts";

/** Conversations that clients make in a sandbox, with agents of their own. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;

beforeAll(async () => {
  models = await startModelServer(obey);
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const message = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const ended = (id: string) => follow(id).frame(({ key, value }) => key === "full_state" && value.execution_status === "finished");
const follow = (id: string) =>
  new SocketClient(`${agent.url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${agent.key}`);

test("a full agent works in the sandbox with its own model and key, which is never shown again", async () => {
  const made = await agent.call("POST", "/api/conversations", sdkRequest(models.url));
  expect(made.status).toBe(201);
  const { id } = made.body;
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-/);
  expect(made.body).toMatchObject({
    execution_status: "idle",
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    confirmation_policy: { kind: "NeverConfirm" },
    agent: {
      kind: "Agent",
      llm: { model: "openai/scripted", api_key: "**********", num_retries: 5 },
      tools: [{ name: "terminal" }, { name: "file_editor" }],
    },
  });
  expect((await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body).toEqual({
    items: [],
    next_page_id: null,
  });
  expect(
    await agent.call("POST", `/api/conversations/${id}/events`, { ...message("run: echo hi > made.txt"), run: false }),
  ).toEqual({ status: 200, body: { success: true } });
  expect((await agent.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await ended(id);
  const { items } = (await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body;
  const kinds = items.map(({ kind }: Json) => kind);
  expect(kinds.slice(0, 4)).toEqual(["SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent"]);
  expect(items[0].tools.map(({ title }: Json) => title)).toEqual(["terminal", "file_editor", "finish", "think"]);
  expect(models.requests.at(-1)!.headers.authorization).toBe("Bearer sk-own-model-key");
  const read = await agent.call("GET", `/api/conversations/${id}`);
  expect(JSON.stringify([made, read, items])).not.toContain("sk-own-model-key");
});

test("an id that is taken gives the conversation as it is", async () => {
  const first = (await agent.call("POST", "/api/conversations", sdkRequest(models.url))).body;
  const again = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { conversation_id: first.id, max_iterations: 7 }),
  );
  expect(again).toMatchObject({ status: 200, body: { id: first.id, max_iterations: 500 } });
});
