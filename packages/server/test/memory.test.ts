import {
  type ModelRequestSeen,
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { finish } from "./support/script.ts";

/** Histories that get too long: automatic condensation and prompts that the model refuses. */

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
/** The answers of the agent's model and of the condenser's model. */
let work: (request: ModelRequestSeen) => Reply | Promise<Reply>;
let summarise: (request: ModelRequestSeen) => Reply | Promise<Reply>;

const isSummary = ({ system }: Pick<ModelRequestSeen, "system">) => system.includes("You keep the memory");

beforeAll(async () => {
  models = await startModelServer((request) => (isSummary(request) ? summarise(request) : work(request)));
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});
afterEach(() => {
  models.requests.length = 0;
});

const lengthOf = ({ body }: Pick<ModelRequestSeen, "body">) => JSON.stringify(body.messages).length;

/** An answer that counts the tokens of its prompt as providers do. */
const think = (thought: string, request: Pick<ModelRequestSeen, "body">) =>
  reply.toolCalls([{ name: "think", arguments: { thought } }], {
    usage: { prompt: Math.round(lengthOf(request) / 4), completion: Math.round(thought.length / 4) },
  });
const message = (text: string) => ({ role: "user", content: [{ type: "text", text }], run: true });
const condenser = { kind: "LLMSummarizingCondenser", max_size: 20, keep_first: 2 };

/** Thinks this many times since the user's last message, then finishes. */
function thinker(times: number, thought: (index: number) => string = (index) => `thought ${index}`) {
  let index = 0;
  return (request: ModelRequestSeen) => {
    index += 1;
    return index % (times + 1) === 0 ? finish(`Finished ${index}.`) : think(thought(index), request);
  };
}

/** Refuses prompts that are longer than so many characters, in OpenAI's words. */
function window(chars: number, inside: (request: ModelRequestSeen) => Reply | Promise<Reply>) {
  return (request: ModelRequestSeen) =>
    lengthOf(request) <= chars
      ? inside(request)
      : reply.error(400, {
          error: {
            message: "Your input exceeds the context window of this model.",
            code: "context_length_exceeded",
          },
        });
}

async function start(change: Json = {}, llm: Json = {}): Promise<string> {
  const request = sdkRequest(models.url);
  Object.assign(request.agent, { condenser }, change);
  Object.assign(request.agent.llm, llm);
  const { status, body } = await agent.call("POST", "/api/conversations", request);
  expect(status).toBe(201);
  return body.id;
}

const info = async (id: string) => (await agent.call("GET", `/api/conversations/${id}`)).body as Json;
const send = (id: string, text: string) =>
  agent.call("POST", `/api/conversations/${id}/events`, message(text));
const rest = (id: string, wanted = "finished") =>
  until(async () => {
    const { execution_status: status } = await info(id);
    if (status === "error" && wanted !== "error") throw new Error(JSON.stringify((await events(id)).at(-1)));
    return status === wanted || undefined;
  });

async function events(id: string): Promise<Json[]> {
  const all: Json[] = [];
  for (let page: string | undefined; ; ) {
    const { body } = await agent.call(
      "GET",
      `/api/conversations/${id}/events/search?limit=100${page ? `&page_id=${page}` : ""}`,
    );
    all.push(...body.items);
    page = body.next_page_id;
    if (!page) return all;
  }
}

const kinds = async (id: string, ...wanted: string[]) =>
  (await events(id)).map(({ kind }) => kind).filter((kind) => wanted.includes(kind));
const lastPrompt = () =>
  models.requests.findLast((request) => !isSummary(request))!.messages.map(({ text }: Json) => text);
const summaryCalls = () => models.requests.filter(isSummary);

test("a history of too many events is condensed during the run, and the first and latest messages stay unchanged", async () => {
  const id = await start();
  work = thinker(2);
  summarise = () => reply.text("WHAT WAS DONE", { usage: { prompt: 1000, completion: 10 } });
  await send(id, "first words");
  await rest(id);
  work = thinker(25);
  await send(id, "latest words");
  await rest(id);
  expect((await kinds(id, "Condensation")).length).toBeGreaterThan(2);
  expect(Math.max(...models.requests.map(({ messages }) => messages.length))).toBeLessThanOrEqual(20);
  const read = lastPrompt();
  expect(read[0]).toBe("first words");
  expect(read[1]).toBe("latest words");
  expect(read[2]).toContain("WHAT WAS DONE");
  expect(read.filter((text) => text.includes("CONVERSATION_SUMMARY"))).toHaveLength(1);
  // Each summary takes the one before in.
  expect(summaryCalls().at(-1)!.messages[0]!.text).toContain("WHAT WAS DONE");
  const { usage_to_metrics: usage } = (await info(id)).stats;
  expect(usage.condenser.accumulated_token_usage.prompt_tokens).toBe(1000 * summaryCalls().length);
});

test("a history of too many tokens is condensed before a call that its model would refuse", async () => {
  const id = await start({ condenser: { ...condenser, max_size: 1000 } }, { max_input_tokens: 20_000 });
  work = window(
    70_000,
    thinker(12, (index) => `${index} ${"words of some length ".repeat(400)}`),
  );
  summarise = () => reply.text("WHAT WAS DONE");
  await send(id, "go");
  await rest(id);
  expect(await kinds(id, "Condensation", "CondensationRequest")).toEqual(["Condensation"]);
  expect(models.requests.filter((request) => !isSummary(request))).toHaveLength(13);
});

test("a prompt that is too long is condensed and sent again, and the context window of an unknown model is learnt", async () => {
  const id = await start({ condenser: { ...condenser, max_size: 1000 } }, { model: "openai/unknown-window" });
  const thinks = thinker(8, (index) => `${index} ${"a thought of some length ".repeat(200)}`);
  let refused = 0;
  work = async (request) => {
    const answer = await window(30_000, thinks)(request);
    if (answer.kind === "error") refused++;
    return answer;
  };
  summarise = () => reply.text("WHAT WAS DONE");
  await send(id, "go");
  await rest(id);
  expect(refused).toBe(1);
  expect((await kinds(id, "Condensation", "CondensationRequest")).slice(0, 2)).toEqual([
    "CondensationRequest",
    "Condensation",
  ]);
  await send(id, "go on");
  await rest(id);
  expect(refused).toBe(1);
  expect((await kinds(id, "Condensation")).length).toBeGreaterThan(1);
});

test("without a condenser a prompt that is too long ends the run, and the error says what to do; condensation on request lets it continue", async () => {
  const id = await start({ condenser: null });
  const thinks = thinker(3, (index) => `${index} ${"a thought of some length ".repeat(200)}`);
  work = window(22_000, thinks);
  await send(id, "go");
  await rest(id);
  await send(id, "go on");
  await rest(id, "error");
  expect((await events(id)).at(-1)).toMatchObject({
    kind: "ConversationErrorEvent",
    code: "ContextWindowExceeded",
    detail: expect.stringMatching(/context window.*no condenser/s),
  });
  summarise = () => reply.text("WHAT WAS DONE");
  expect((await agent.call("POST", `/api/conversations/${id}/condense`)).status).toBe(200);
  work = () => finish("Done.");
  await send(id, "now");
  await rest(id);
});

test("a prompt that stays too long ends the run after a few summaries", async () => {
  const id = await start({ condenser: { ...condenser, max_size: 1000 } }, { model: "openai/takes-nothing" });
  work = thinker(6);
  summarise = () => reply.text("WHAT WAS DONE");
  await send(id, "go");
  await rest(id);
  work = window(10, () => finish("Never."));
  await send(id, "go on");
  await rest(id, "error");
  expect((await events(id)).at(-1)).toMatchObject({ code: "ContextWindowExceeded" });
  expect(summaryCalls().length).toBeLessThan(7);
  const calls = models.requests.length;
  // The next message finds the same wall, and no endless loop.
  await send(id, "again");
  await until(async () => models.requests.length > calls || undefined);
  await rest(id, "error");
});

test("a model that refused a short history is called normally in the next conversation, without condensation", async () => {
  summarise = () => reply.text("S");
  const llm = { model: "openai/capricious" };
  work = window(10, () => finish("Never."));
  const first = await start({}, llm);
  await send(first, "Hi");
  await rest(first, "error");
  work = () => finish("Now I can.");
  const id = await start({}, llm);
  await send(id, "Hi");
  await rest(id);
  expect((await events(id)).filter(({ kind }) => kind === "ConversationErrorEvent")).toEqual([]);
});

test("a history whose format is refused is condensed as a whole", async () => {
  const id = await start();
  work = thinker(3);
  await send(id, "first words");
  await rest(id);
  const refusal =
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: call_1";
  work = ({ messages }) =>
    messages.some(({ role }) => role === "tool")
      ? reply.error(400, { error: { message: refusal } })
      : finish("Done.");
  summarise = () => reply.text("WHAT WAS DONE");
  await send(id, "latest words");
  await rest(id);
  const read = lastPrompt();
  expect(read.slice(0, 2)).toEqual(["first words", "latest words"]);
  expect(read[2]).toContain("WHAT WAS DONE");
  expect(read).toHaveLength(3);
});

test.each<[string, () => Reply]>([
  ["is empty", () => reply.text("  ")],
  ["is a refusal", () => reply.answer({ text: "No.", finish: "content_filter" })],
  ["calls a tool", () => reply.toolCalls([{ name: "terminal", arguments: { command: "rm -rf /" } }])],
  ["fails", () => reply.error(400, "no summary today")],
])("a summary that %s is reported once, and the run continues without it", async (_what, answer) => {
  const id = await start();
  work = thinker(14);
  summarise = answer;
  await send(id, "go");
  await rest(id);
  const errors = (await events(id)).filter(({ kind }) => kind === "ConversationErrorEvent");
  expect(errors).toMatchObject([
    { code: "CondensationFailed", detail: expect.stringMatching(/could not be summarised/) },
  ]);
  // Not with each step.
  expect(summaryCalls().length).toBeLessThan(8);
  expect(await kinds(id, "Condensation")).toEqual([]);
});

test("pauses, interrupts and messages during condensation take effect", async () => {
  const id = await start();
  work = thinker(12);
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<Reply>();
  summarise = () => {
    asked.resolve();
    return answer.promise;
  };
  await send(id, "go");
  await asked.promise;
  const agentCalls = () => models.requests.length - summaryCalls().length;
  const before = agentCalls();
  await agent.call("POST", `/api/conversations/${id}/events`, { ...message("meanwhile"), run: false });
  await agent.call("POST", `/api/conversations/${id}/pause`);
  answer.resolve(reply.text("WHAT WAS DONE"));
  await until(async () => (await kinds(id, "Condensation")).length === 1 || undefined);
  await rest(id, "paused");
  expect(agentCalls()).toBe(before);
  const hanging = Promise.withResolvers<ModelRequestSeen>();
  work = () => finish("Done.");
  await agent.call("POST", `/api/conversations/${id}/run`);
  await rest(id);
  expect(lastPrompt()).toContain("meanwhile");
  expect(lastPrompt()[0]).toBe("go");

  work = thinker(12);
  summarise = (request) => {
    hanging.resolve(request);
    return reply.hang();
  };
  await send(id, "more");
  const { finished } = await hanging.promise;
  await agent.call("POST", `/api/conversations/${id}/interrupt`);
  expect(await finished).toBe(false);
  await rest(id, "paused");
  summarise = () => reply.text("AGAIN");
  await agent.call("POST", `/api/conversations/${id}/run`);
  await rest(id);
  expect(lastPrompt().join()).toContain("AGAIN");
});

test("skills of a condensed message are repeated with the summary", async () => {
  const skill = {
    name: "deploying",
    content: "Deploy with make ship.",
    trigger: { type: "keyword", keywords: ["deploy"] },
  };
  const id = await start({ agent_context: { skills: [skill] } });
  work = thinker(1);
  await send(id, "hello");
  await rest(id);
  await send(id, "please deploy");
  await rest(id);
  work = thinker(12);
  summarise = () => reply.text("WHAT WAS DONE");
  await send(id, "go on");
  await rest(id);
  await send(id, "and on");
  await rest(id);
  const read = lastPrompt();
  expect(read.find((text) => text.includes("CONVERSATION_SUMMARY"))).toMatch(
    /WHAT WAS DONE[\s\S]*Deploy with make ship\./,
  );
  expect(read.join().split("Deploy with make ship.")).toHaveLength(2);
});
