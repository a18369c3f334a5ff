import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { finish, obey } from "../support/script.ts";

/** Side calls of a conversation: questions, summaries, goals. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
/** The verdicts of the judge, in order. */
let verdicts: string[];
let summaries: (string | undefined)[];
/** The status by which the provider refuses every call. */
let refusal: number | undefined;
let [atOnce, mostAtOnce] = [0, 0];
/** Questions are answered once it is open. */
let gate = Promise.resolve();

/** The answer to a question, and how many of them are given at once. */
async function answer(): Promise<Reply> {
  mostAtOnce = Math.max(mostAtOnce, ++atOnce);
  await gate;
  atOnce--;
  return reply.text("It is 42.");
}

beforeAll(async () => {
  models = await startModelServer(async (request) => {
    const { system, messages } = request;
    const last = messages.at(-1)!;
    if (refusal !== undefined) return reply.error(refusal, "not like this");
    if (last.text.includes("What is")) return answer();
    if (system.includes("You name conversations")) {
      return last.text.includes("unnamed")
        ? reply.error(400, "no title today")
        : reply.text(`"Title of ${last.text}"`);
    }
    if (system.includes("You judge"))
      return reply.text(verdicts.shift() ?? '{"done": true, "feedback": "fine"}');
    if (system.includes("You keep the memory")) {
      const summary = summaries.shift();
      return summary === undefined ? reply.error(400, "no summary today") : reply.text(summary);
    }
    if (last.text.includes("Go on with the goal")) return finish("Done.");
    return obey(request);
  });
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});
beforeEach(() => {
  verdicts = [];
  summaries = [];
  refusal = undefined;
});

const message = (text: string) => ({ role: "user", content: [{ type: "text", text }], run: true });
const info = async (id: string) => (await agent.call("GET", `/api/conversations/${id}`)).body as Json;
const rested = (id: string) =>
  until(async () => {
    const { execution_status } = await info(id);
    return execution_status === "finished" || undefined;
  });
const events = async (id: string) =>
  (await agent.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body.items as Json[];

async function conversation(...texts: string[]): Promise<string> {
  const { id } = (await agent.call("POST", "/api/conversations", sdkRequest(models.url))).body;
  for (const text of texts) {
    await agent.call("POST", `/api/conversations/${id}/events`, message(text));
    await rested(id);
  }
  return id;
}

test("a question is answered from the conversation and adds only its cost to it", async () => {
  const id = await conversation("run: echo one");
  const before = await events(id);
  const answer = await agent.call("POST", `/api/conversations/${id}/ask_agent`, { question: "What is it?" });
  expect(answer).toEqual({ status: 200, body: { response: "It is 42." } });
  const asked = models.requests.at(-1)!;
  expect(asked.messages.map(({ role }: Json) => role)).toEqual([
    "user",
    "assistant",
    "tool",
    "assistant",
    "tool",
    "user",
  ]);
  expect(await events(id)).toEqual(before);
  expect(Object.keys((await info(id)).stats.usage_to_metrics)).toContain("ask-agent");
});

test("concurrent questions are answered a few at a time, and too many are refused", async () => {
  const id = await conversation("hello");
  const ask = () => agent.call("POST", `/api/conversations/${id}/ask_agent`, { question: "What is it?" });
  const { promise, resolve: open } = Promise.withResolvers<void>();
  gate = promise;
  let refused = 0;
  const count = ({ status }: Json) => {
    if (status === 429) refused += 1;
    return status;
  };
  const asked = Promise.all(Array.from({ length: 130 }, () => ask().then(count)));
  await until(() => (refused === 30 && mostAtOnce === 4) || undefined);
  open();
  const statuses = await asked;
  expect(statuses.filter((status) => status === 200)).toHaveLength(100);
  expect(mostAtOnce).toBe(4);
  expect((await ask()).status).toBe(200);
});

test("after condensation the model reads the summary instead of the condensed events, which stay stored", async () => {
  const id = await conversation("run: echo first", "run: echo second", "run: echo third");
  const before = await events(id);
  summaries = ["SUMMARY OF IT"];
  expect(await agent.call("POST", `/api/conversations/${id}/condense`)).toEqual({
    status: 200,
    body: { success: true },
  });
  const after = await events(id);
  expect(after.slice(0, before.length)).toEqual(before);
  expect(after.slice(before.length).map(({ kind }) => kind)).toEqual(["CondensationRequest", "Condensation"]);
  expect(after.at(-1)).toMatchObject({ summary: "SUMMARY OF IT", summary_offset: 2 });
  expect((await info(id)).execution_status).toBe("finished");
  await agent.call("POST", `/api/conversations/${id}/events`, message("go on"));
  await rested(id);
  const read = models.requests.at(-1)!.messages.map(({ text }: Json) => text);
  expect(read[0]).toBe("run: echo first");
  expect(read[1]).toContain("SUMMARY OF IT");
  expect(read.join("\n")).not.toContain("echo second");
  expect(read.at(-1)).toBe("go on");
});

test.each([
  [401, 400],
  [404, 400],
  [400, 502],
])("a provider's %i is a %i for questions and for summaries", async (status, expected) => {
  const id = await conversation("run: echo first", "run: echo second");
  refusal = status;
  const question = { question: "What is it?" };
  expect((await agent.call("POST", `/api/conversations/${id}/ask_agent`, question)).status).toBe(expected);
  const condensed = await agent.call("POST", `/api/conversations/${id}/condense`);
  expect(condensed.status).toBe(expected);
  expect(condensed.body.detail).toMatch(/^The history could not be summarised: .*HTTP \d+\): not like this/);
});

test("a failed condensation is reported, and the conversation continues without it", async () => {
  const id = await conversation("run: echo first", "run: echo second");
  expect((await agent.call("POST", `/api/conversations/${id}/condense`)).status).toBe(502);
  expect((await events(id)).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    code: "CondensationFailed",
  });
  await agent.call("POST", `/api/conversations/${id}/events`, message("run: echo third"));
  await rested(id);
  expect(models.requests.at(-1)!.messages.map(({ text }: Json) => text)).toContain("run: echo second");
});

test("a goal is judged after each run, and pursued until it is reached", async () => {
  const id = await conversation();
  const socket = SocketClient.forConversation(agent, id);
  await socket.frame(({ key }) => key === "full_state");
  verdicts = [
    "not json, but not done",
    '{"done": false, "score": 0.5, "feedback": "the test fails"}',
    'So: {"done": true, "feedback": "ok"}',
  ];
  expect(
    (await agent.call("POST", `/api/conversations/${id}/goal`, { objective: "All tests pass" })).status,
  ).toBe(200);
  const again = await agent.call("POST", `/api/conversations/${id}/goal`, { objective: "Another" });
  expect(again.status).toBe(409);
  const goal = await until(async () => {
    const { agent_state } = await info(id);
    return agent_state.goal.status === "complete" ? agent_state.goal : undefined;
  });
  expect(goal).toMatchObject({ objective: "All tests pass", iteration: 3, max_iterations: 10, detail: "ok" });
  // The goal bar of the GUI reads these frames, and a client that comes later gets the last one.
  const last = await socket.frame(({ key, value }) => key === "goal" && value.status === "complete");
  const common = { objective: "All tests pass", max_iterations: 10 };
  expect(socket.frames.filter(({ key }) => key === "goal").map(({ value }) => value)).toEqual([
    { ...common, active: true, status: "running", iteration: 0, verdict: null },
    {
      ...common,
      active: true,
      status: "running",
      iteration: 1,
      verdict: { score: 0, complete: false, missing: "not json, but not done" },
    },
    {
      ...common,
      active: true,
      status: "running",
      iteration: 2,
      verdict: { score: 0.5, complete: false, missing: "the test fails" },
    },
    {
      ...common,
      active: false,
      status: "complete",
      iteration: 3,
      verdict: { score: 1, complete: true, missing: "" },
    },
  ]);
  const later = SocketClient.forConversation(agent, id);
  expect((await later.frame(({ key }) => key === "goal")).value).toEqual(last.value);
  const said = (await events(id)).filter(({ kind, source }) => kind === "MessageEvent" && source === "user");
  expect(said.map(({ llm_message }) => /<FEEDBACK>\n(.*)\n/.exec(llm_message.content[0].text)?.[1])).toEqual([
    undefined,
    "not json, but not done",
    "the test fails",
  ]);
});

test("a goal ends after enough rounds, by a message of the user, and by stop; a stopped one can be resumed", async () => {
  const status = async (id: string) => (await info(id)).agent_state.goal?.status;
  const few = await conversation();
  verdicts = ['{"done": false, "feedback": "no"}', '{"done": false, "feedback": "no"}'];
  await agent.call("POST", `/api/conversations/${few}/goal`, { objective: "x", max_iterations: 2 });
  await until(async () => (await status(few)) === "exhausted" || undefined);
  const late = SocketClient.forConversation(agent, few);
  expect((await late.frame(({ key }) => key === "goal")).value).toMatchObject({
    active: false,
    status: "capped",
    verdict: { missing: "no" },
  });

  const id = await conversation();
  await agent.call("POST", `/api/conversations/${id}/goal`, { objective: "run: sleep 30" });
  expect((await agent.call("POST", `/api/conversations/${id}/goal/stop`, {})).status).toBe(200);
  expect(await status(id)).toBe("interrupted");
  await agent.call("POST", `/api/conversations/${id}/interrupt`);
  await until(async () => (await info(id)).execution_status === "paused" || undefined);
  expect((await agent.call("POST", `/api/conversations/${id}/goal/resume`, {})).status).toBe(200);
  await until(async () => (await status(id)) === "complete" || undefined);
  expect((await agent.call("POST", `/api/conversations/${id}/goal/resume`, {})).status).toBe(400);
  expect((await agent.call("POST", `/api/conversations/${id}/goal`, { objective: " " })).status).toBe(400);
});

test("a title is generated on request with the client's model or the conversation's; without a model it is the message", async () => {
  const path = (id: string) => `/api/conversations/${id}/generate_title`;
  const make = async (text?: string) => {
    const first = text === undefined ? {} : { initial_message: message(text) };
    const { body } = await agent.call(
      "POST",
      "/api/conversations",
      sdkRequest(models.url, { autotitle: false, ...first }),
    );
    if (text !== undefined) await rested(body.id);
    return body.id as string;
  };
  const id = await make("the long way home");
  expect(await agent.call("POST", path(id), { max_length: 50, llm: null })).toEqual({
    status: 200,
    body: { title: "Title of the long way home" },
  });
  expect((await agent.call("POST", path(id), { max_length: 10 })).body).toEqual({ title: "Title o..." });
  const llm = { model: "openai/namer", api_key: "sk-of-the-namer", base_url: models.url, usage_id: "title" };
  expect((await agent.call("POST", path(id), { llm })).body.title).toBe("Title of the long way home");
  expect(models.requests.at(-1)).toMatchObject({ apiKey: "sk-of-the-namer", body: { model: "namer" } });
  const { title, stats } = await info(id);
  expect(title).toBeNull();
  expect(stats.usage_to_metrics).toHaveProperty("title");
  const unnamed = await make("unnamed, and the model refuses\nmore");
  expect((await agent.call("POST", path(unnamed))).body).toEqual({ title: "unnamed, and the model refuses" });
  expect((await agent.call("POST", path(await make()), {})).status).toBe(400);
  expect((await agent.call("POST", path(id), { max_length: 201 })).status).toBe(422);
});

test("a page of events begins at the event of its page id", async () => {
  const { body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest(models.url, { initial_message: message("run: true") }),
  );
  await rested(body.id);
  const all = await events(body.id);
  const search = async (query: string): Promise<string[]> => {
    const page = await agent.call("GET", `/api/conversations/${body.id}/events/search?${query}`);
    expect(page.status).toBe(200);
    return page.body.items.map(({ id }: Json) => id);
  };
  const path = `/api/conversations/${body.id}/events/search?limit=2&sort_order=TIMESTAMP_DESC`;
  const newest = (await agent.call("GET", path)).body;
  await agent.call("POST", `/api/conversations/${body.id}/events`, { ...message("meanwhile"), run: false });
  const next = (await agent.call("GET", `${path}&page_id=${newest.next_page_id}`)).body;
  expect([...newest.items, ...next.items].map(({ id }: Json) => id)).toEqual(
    all
      .toReversed()
      .slice(0, 4)
      .map(({ id }) => id),
  );
  all.push((await events(body.id)).at(-1)!);
  const from = (some: Json[], event: Json) => some.slice(some.indexOf(event)).map(({ id }) => id);
  const last = all.at(-1)!;
  const filters: [query: string, matches: (event: Json) => boolean][] = [
    ["", () => true],
    ["kind=ActionEvent", ({ kind }) => kind === "ActionEvent"],
    ["source=agent", ({ source }) => source === "agent"],
    [`timestamp__lt=${last.timestamp}`, (event) => event !== last],
    [`timestamp__gte=${all[1]!.timestamp}`, (event) => event !== all[0]],
  ];
  for (const [filter, matches] of filters) {
    const wanted = all.filter(matches);
    expect(wanted.length).toBeGreaterThan(1);
    for (const event of wanted) {
      expect(await search(`${filter}&page_id=${event.id}`)).toEqual(from(wanted, event));
      expect(
        await search(`${filter}&page_id=${event.id.replaceAll("-", "")}&sort_order=TIMESTAMP_DESC`),
      ).toEqual(from(wanted.toReversed(), event));
    }
  }
});
