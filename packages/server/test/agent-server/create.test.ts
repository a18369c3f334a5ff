import {
  type ModelRequestSeen,
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "../support/platform.ts";
import { obey } from "../support/script.ts";

/** Conversations that clients make in a sandbox, with agents of their own. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
/** Answers of one test's models. */
let script: ((request: ModelRequestSeen) => Reply | undefined) | undefined;

beforeAll(async () => {
  models = await startModelServer((request) => {
    const said = request.messages.at(-1)!.text.startsWith("Say") ? reply.text("It is said.") : undefined;
    return script?.(request) ?? said ?? obey(request);
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const message = (text: string) => ({ role: "user", content: [{ type: "text", text }] });
const waitForEnd = (id: string) =>
  follow(id).frame(({ key, value }) => key === "full_state" && value.execution_status === "finished");
const follow = (id: string) =>
  new SocketClient(`${agent.url.replace("http", "ws")}/sockets/events/${id}?session_api_key=${agent.key}`);

test("followers get the growing text only if the client's model says stream: true", async () => {
  const { agent: given } = sdkRequest(models.url);
  const deltasWith = async (change: Json) => {
    const request = sdkRequest(models.url, { agent: { ...given, llm: { ...given.llm, ...change } } });
    const { id } = (await agent.call("POST", "/api/conversations", request)).body;
    const socket = follow(id);
    await socket.frame(({ key }) => key === "full_state");
    await agent.call("POST", `/api/conversations/${id}/events`, { ...message("Say it"), run: true });
    await socket.frame(({ key, value }) => key === "full_state" && value.execution_status === "finished");
    return socket.frames.filter(({ kind }) => kind === "StreamingDeltaEvent").length;
  };
  expect(await deltasWith({ stream: true })).toBeGreaterThan(0);
  for (const change of [{}, { stream: false }, { stream: null }]) expect(await deltasWith(change)).toBe(0);
});

test("followers get each call of a model that asks for it, masked and unstored", async () => {
  const { agent: given } = sdkRequest(models.url);
  const callsWith = async (change: Json) => {
    const request = sdkRequest(models.url, {
      agent: { ...given, llm: { ...given.llm, model: "openai/a b:../scripted", ...change } },
      secrets: { HUSH: "a-planted-value" },
    });
    const { id } = (await agent.call("POST", "/api/conversations", request)).body;
    const socket = follow(id);
    await socket.frame(({ key }) => key === "full_state");
    const text = "run: echo a-planted-value";
    await agent.call("POST", `/api/conversations/${id}/events`, { ...message(text), run: true });
    await socket.frame(({ key, value }) => key === "full_state" && value.execution_status === "finished");
    const { body } = await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`);
    expect(body.items.map(({ kind }: Json) => kind)).not.toContain("LLMCompletionLogEvent");
    return socket.frames.filter(({ kind }) => kind === "LLMCompletionLogEvent");
  };
  const calls = await callsWith({ log_completions: true });
  expect(calls).toHaveLength(2);
  expect(calls[0]).toMatchObject({ source: "environment", usage_id: "agent" });
  expect(calls[0]!.filename).toMatch(/^openai__a_b_\.\.__scripted-\d+\.\d{3}-[0-9a-f]{4}\.json$/);
  const logged = calls.map(({ log_data }) => JSON.parse(log_data));
  expect(logged[1].messages.map(({ role }: Json) => role)).toEqual(["system", "user", "assistant", "tool"]);
  expect(logged[0].response.choices[0].message.tool_calls[0].function.name).toBe("terminal");
  expect(logged[0]).toMatchObject({ cost: expect.any(Number), latency_sec: expect.any(Number) });
  expect(JSON.stringify(calls)).not.toContain("planted");
  expect(JSON.stringify(calls)).not.toContain("sk-own-model-key");
  for (const change of [{}, { log_completions: false }]) expect(await callsWith(change)).toEqual([]);
});

test("an agent delegates to the sub-agents that its client defines, by their names", async () => {
  const { agent: given } = sdkRequest(models.url);
  const seen: ModelRequestSeen[] = [];
  script = (request) => {
    const isChild = request.system.includes("<SUB_AGENT>");
    seen.push(request);
    if (isChild) return reply.text("A rhyme.");
    if (!request.messages.at(-1)!.text.startsWith("Delegate")) return undefined;
    return reply.toolCalls(
      ["poet", "nobody"].map((kind) => ({
        name: "task",
        arguments: { prompt: "Rhyme", subagent_type: kind },
      })),
    );
  };
  const skills = ["one", "two"].map((name) => ({ name, content: `The skill ${name}.`, source: null }));
  const poet = {
    name: "poet",
    description: "makes rhymes",
    system_prompt: "You only rhyme.",
    tools: ["glob"],
    skills: ["two"],
    model: "inherit",
    max_iteration_per_run: 3,
    max_budget_per_run: 0.5,
    color: "red",
  };
  const request = sdkRequest(models.url, {
    agent: { ...given, tools: [...given.tools, { name: "task_tool_set" }], agent_context: { skills } },
    agent_definitions: [{ ...poet, description: "is replaced" }, poet],
    initial_message: { ...message("Delegate this"), run: true },
  });
  const { id } = (await agent.call("POST", "/api/conversations", request)).body;
  await waitForEnd(id);
  script = undefined;
  const tool = seen[0]!.body.tools.find(({ function: { name } }: Json) => name === "task").function;
  expect(tool.description).toContain("- poet: makes rhymes\n");
  const child = seen.find(({ system }) => system.includes("<SUB_AGENT>"))!;
  expect(child.system).toContain("<SUB_AGENT>\nYou only rhyme.\n</SUB_AGENT>");
  expect(child.system).toContain("The skill two.");
  expect(child.system).not.toContain("The skill one.");
  expect(child.tools).toEqual(expect.arrayContaining(["glob", "finish"]));
  expect(child.tools).not.toContain("terminal");
  const { body } = await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`);
  const results = body.items.flatMap(({ observation }: Json) => observation ?? []);
  expect(results.map(({ subagent, is_error }: Json) => [subagent, is_error])).toEqual(
    expect.arrayContaining([
      ["poet", false],
      ["nobody", true],
    ]),
  );
  const refused = { ...request, agent_definitions: [{ ...poet, permission_mode: "never" }] };
  expect((await agent.call("POST", "/api/conversations", refused)).status).toBe(422);
});

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
    await agent.call("POST", `/api/conversations/${id}/events`, {
      ...message("run: echo hi > made.txt"),
      run: false,
    }),
  ).toEqual({ status: 200, body: { success: true } });
  expect((await agent.call("POST", `/api/conversations/${id}/run`)).status).toBe(200);
  await waitForEnd(id);
  const { items } = (await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body;
  const kinds = items.map(({ kind }: Json) => kind);
  expect(kinds.slice(0, 4)).toEqual(["SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent"]);
  expect(items[0].tools.map(({ title }: Json) => title)).toEqual([
    "terminal",
    "file_editor",
    "finish",
    "think",
  ]);
  expect(models.requests.at(-1)!.headers.authorization).toBe("Bearer sk-own-model-key");
  const read = await agent.call("GET", `/api/conversations/${id}`);
  expect(JSON.stringify([made, read, items])).not.toContain("sk-own-model-key");
});

test("the model is called with the client's parameters, and its cost is reported", async () => {
  const base = sdkRequest(models.url);
  const extra_headers = { "X-Team": "planted-header-value" };
  const llm = {
    ...base.agent.llm,
    model: "openai/own-settings",
    temperature: 0.25,
    max_output_tokens: 321,
    extra_headers,
  };
  const priced = {
    ...llm,
    reasoning_effort: "high",
    input_cost_per_token: 0.5,
    output_cost_per_token: 0,
    max_input_tokens: 7000,
  };
  const made = await agent.call("POST", "/api/conversations", {
    ...base,
    agent: { ...base.agent, llm: priced },
  });
  expect(made).toMatchObject({
    status: 201,
    body: { agent: { llm: { temperature: 0.25, extra_headers: { "X-Team": "**********" } } } },
  });
  const { id } = made.body;
  const say = (text: string) =>
    agent.call("POST", `/api/conversations/${id}/events`, { ...message(text), run: true });
  await say("Hello");
  await waitForEnd(id);
  const first = models.requests.at(-1)!;
  expect(first.body).toMatchObject({ model: "own-settings", temperature: 0.25, max_tokens: 321 });
  expect(first.body).not.toHaveProperty("reasoning_effort");
  expect(first.headers["x-team"]).toBe("planted-header-value");
  const { stats } = (await agent.call("GET", `/api/conversations/${id}`)).body;
  const { accumulated_cost: cost, accumulated_token_usage: usage } = stats.usage_to_metrics.agent;
  expect(usage.context_window).toBe(7000);
  expect(cost).toBeGreaterThan(0);
  expect(cost).toBeCloseTo(usage.prompt_tokens * 0.5, 6);
  // Returned as it was read, the masked header stays; for another URL it is dropped.
  const shown = (await agent.call("GET", `/api/conversations/${id}`)).body.agent.llm;
  const switched = { ...shown, temperature: null, seed: 9 };
  expect((await agent.call("POST", `/api/conversations/${id}/switch_llm`, { llm: switched })).status).toBe(
    200,
  );
  const before = models.requests.length;
  await say("More");
  const second = await until(() => models.requests[before]);
  expect(second.body).toMatchObject({ seed: 9, max_tokens: 321 });
  expect(second.body).not.toHaveProperty("temperature");
  expect(second.headers["x-team"]).toBe("planted-header-value");
  const elsewhere = { ...shown, base_url: `${models.url}/v1`, api_key: "sk-for-elsewhere" };
  expect((await agent.call("POST", `/api/conversations/${id}/switch_llm`, { llm: elsewhere })).status).toBe(
    200,
  );
  await say("Even more");
  const third = await until(() => models.requests.find(({ apiKey }) => apiKey === "sk-for-elsewhere"));
  expect(third.headers).not.toHaveProperty("x-team");
  const events = await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`);
  expect(JSON.stringify([made, shown, events])).not.toContain("planted-header");
});

test("the settings' model is called with its parameters, and its headers are sent only with its own key", async () => {
  const stored = {
    model: "openai/stored",
    api_key: "sk-stored-planted",
    base_url: models.url,
    temperature: 0.75,
  };
  const llm = { ...stored, extra_headers: { "X-Team": "planted-header-value" } };
  await platform.call("POST", "/api/v1/settings", { agent_settings_diff: { llm } });
  await startConversation(platform.call, "Hello");
  const first = await until(() => models.requests.find(({ body }) => body.model === "stored"));
  expect(first).toMatchObject({
    apiKey: stored.api_key,
    body: { temperature: 0.75 },
    headers: { "x-team": "planted-header-value" },
  });
  const base = sdkRequest(models.url);
  const keyless = { ...base.agent.llm, model: stored.model, api_key: null, seed: 4 };
  await agent.call("POST", "/api/conversations", {
    ...base,
    agent: { ...base.agent, llm: keyless },
    initial_message: message("Hello"),
  });
  const second = await until(() =>
    models.requests.find(({ body }) => body.seed === 4 && body.model === "stored"),
  );
  expect(second).toMatchObject({
    apiKey: stored.api_key,
    body: { seed: 4 },
    headers: { "x-team": "planted-header-value" },
  });
  expect(second.body).not.toHaveProperty("temperature");
  const elsewhere = { ...keyless, model: "openai/elsewhere", base_url: `${models.url}/v1` };
  await agent.call("POST", "/api/conversations", {
    ...base,
    agent: { ...base.agent, llm: elsewhere },
    initial_message: message("Hello"),
  });
  const third = await until(() => models.requests.find(({ body }) => body.model === "elsewhere"));
  expect(third.apiKey).not.toBe(stored.api_key);
  expect(third.headers).not.toHaveProperty("x-team");
});

test.each([
  { temperature: -1 },
  { temperature: 3 },
  { top_p: 1.5 },
  { top_k: -1 },
  { seed: "x" },
  { max_output_tokens: 0 },
  { max_input_tokens: -5 },
  { timeout: -1 },
  { num_retries: -1 },
  { num_retries: 1.5 },
  { extra_headers: { A: { b: 1 } } },
  { extra_headers: ["A"] },
  { input_cost_per_token: -0.1 },
  { output_cost_per_token: 1e300 },
])("a model of %j is refused", async (change) => {
  const base = sdkRequest(models.url);
  const agentOf = { ...base.agent, llm: { ...base.agent.llm, ...change } };
  expect((await agent.call("POST", "/api/conversations", { ...base, agent: agentOf })).status).toBe(422);
});

test("creating a conversation with an existing id returns that conversation", async () => {
  const first = (await agent.call("POST", "/api/conversations", sdkRequest(models.url))).body;
  const again = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { conversation_id: first.id, max_iterations: 7 }),
  );
  expect(again).toMatchObject({ status: 200, body: { id: first.id, max_iterations: 500 } });
});

test("the features for the released GUI are listed, and settings switches select their tools", async () => {
  const info = (await agent.call("GET", "/server_info")).body;
  expect(info.usable_tools).toEqual(
    expect.arrayContaining(["terminal", "glob", "apply_patch", "browser_tool_set", "task_tool_set"]),
  );
  const llm = { model: "openai/switches", base_url: models.url, api_key: "sk-test" };
  await platform.call("POST", "/api/v1/settings/profiles/other", { llm });
  const offered = async (settings: Json) => {
    const first = models.requests.length;
    const { status } = await agent.call("POST", "/api/conversations", {
      workspace: { working_dir: "/workspace/project" },
      agent_settings: { agent_kind: "openhands", llm, ...settings },
      initial_message: message("Hello"),
    });
    expect(status).toBe(201);
    return (await until(() => models.requests.slice(first).find(({ tools }) => tools.length > 0))).tools;
  };
  const tools = [{ name: "terminal", params: {} }];
  expect(await offered({ tools, enable_sub_agents: true })).toEqual([
    "terminal",
    "finish",
    "think",
    "task",
    "switch_llm",
  ]);
  expect(await offered({ tools, enable_switch_llm_tool: false })).toEqual(["terminal", "finish", "think"]);
  expect(await offered({ tools: [...tools, { name: "task_tool_set" }], enable_sub_agents: true })).toContain(
    "task",
  );
});
