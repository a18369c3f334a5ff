import { checkTools, chooseTools } from "@sandpiper/agent/tools/choose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sdkRequest } from "../../../../test/support/agent-server.ts";
import type { Json } from "../../../../test/support/platform.ts";

import {
  isFullState,
  startServer,
  type TestServer,
  TestSocket,
} from "../../../../test/support/test-server.ts";

/** Agents built to cost the server memory and time. */

let server: TestServer;
let key: string;
beforeAll(async () => {
  server = await startServer({ bodyLimit: 32 * 2 ** 20 });
  key = server.addSandbox().sessionKey!;
});
afterAll(() => server.close());

const agent = (change: Json) => ({ agent: { ...sdkRequest("http://127.0.0.1:9").agent, ...change } });
const skills = (characters: number) =>
  agent({ agent_context: { skills: [{ name: "long", content: "x".repeat(characters) }] } });
const fields = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`field${index}`, "é".repeat(100)]));
async function create(change: Json): Promise<{ status: number; body: Json }> {
  const answer = await server.call("POST", "/api/conversations", {
    body: sdkRequest("http://127.0.0.1:9", change),
    key,
  });
  return { status: answer.status, body: (await answer.json()) as Json };
}

test("oversized agents, tools and hooks are rejected", async () => {
  const tool = {
    name: "ask",
    description: "Asks",
    parameters: { type: "object", properties: fields(3_000) },
  };
  for (const change of [
    skills(4 * 2 ** 20),
    agent({ more: fields(3_000) }),
    { hook_config: fields(3_000) },
    { client_tools: [tool] },
  ]) {
    const { status, body } = await create(change);
    expect([status, body.detail]).toEqual([
      422,
      expect.stringMatching(/^The agent, tools and hooks of a conversation exceed/),
    ]);
  }
  const { status, body } = await create({});
  expect(status).toBe(201);
  const switched = await server.call("POST", `/api/conversations/${body.id}/switch_llm`, {
    body: { llm: { model: "openai/x", more: fields(3_000) } },
    key,
  });
  expect(switched.status).toBe(422);
});

test("the whole state of the largest agent fits into a frame", async () => {
  const { status, body } = await create({
    ...agent({ more: fields(1_000), system_prompt: "é".repeat(1_000_000) }),
    hook_config: { pre_tool_use: "x".repeat(1_000_000), more: fields(1_000) },
    tags: Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`tag${index}`, "é".repeat(256)])),
  });
  expect(status).toBe(201);
  const socket = new TestSocket(server, `/sockets/events/${body.id}?session_api_key=${key}`);
  await socket.until(isFullState);
  const [frame] = socket.frames;
  expect(Buffer.byteLength(JSON.stringify(frame))).toBeLessThan(2 ** 20);
  socket.socket.terminate();
});

test("a list of conversations with large agents does not block other requests", async () => {
  for (let index = 0; index < 12; index++) expect((await create(skills(3_900_000))).status).toBe(201);
  let over = false;
  const list = server.call("GET", "/api/conversations/search?limit=100", { key }).finally(() => {
    over = true;
  });
  let between = 0;
  while (!over) {
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    if (!over) between++;
  }
  expect(((await (await list).json()) as Json).items.length).toBeGreaterThan(12);
  expect(between).toBeGreaterThan(1);
});

test("an expression that selects tools is evaluated once, when the conversation is created", async () => {
  const { status, body } = await create(agent({ filter_tools_regex: "file_.*|finish" }));
  expect(status).toBe(201);
  const row = (await server.store.agents.get(body.id))!;
  expect(row.keptTools).toEqual(["file_editor", "finish"]);
  // The expression is not evaluated again.
  const slow = { ...row.agent!, filter_tools_regex: `${"(.*)*".repeat(12)}x` };
  expect(() => checkTools(slow, [])).toThrow(/takes too long/);
  const tools = chooseTools({ agentType: "default", agent: slow, allowed: row.keptTools!, clientTools: [] });
  expect(tools.map(({ name }) => name)).toEqual(["file_editor", "finish"]);
});
