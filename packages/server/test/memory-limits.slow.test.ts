import {
  type ModelRequestSeen,
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "./support/agent-server.ts";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish } from "./support/script.ts";

/** Condensation with failing models, interrupts, settings, size limits and budgets. */

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
const summaryCalls = () => models.requests.filter(isSummary);

test("an unreachable condenser model is reported, and the run continues", async () => {
  const gone = await startModelServer([]);
  await gone.close();
  const llm = {
    model: "openai/summariser",
    api_key: "sk-of-the-summariser",
    base_url: gone.url,
    num_retries: 1,
  };
  const id = await start({ condenser: { ...condenser, llm } });
  work = thinker(12);
  await send(id, "go");
  await rest(id);
  const errors = (await events(id)).filter(({ kind }) => kind === "ConversationErrorEvent");
  expect(errors).toMatchObject([
    { code: "CondensationFailed", detail: expect.stringMatching(/openai\/summariser failed/) },
  ]);
});

test("a model of the condenser's own that never answers, or reads little, does not stop the run", async () => {
  const llm = {
    model: "openai/summariser",
    api_key: "sk-of-the-summariser",
    base_url: models.url,
    num_retries: 1,
  };
  const silent = await start({ condenser: { ...condenser, llm: { ...llm, timeout: 1 } } });
  work = thinker(12);
  summarise = () => reply.hang();
  await send(silent, "go");
  await rest(silent);
  expect((await events(silent)).find(({ kind }) => kind === "ConversationErrorEvent")?.detail).toMatch(
    /did not finish/,
  );

  const short = await start({ condenser: { ...condenser, llm: { ...llm, model: "openai/reads-little" } } });
  work = thinker(12, (index) => `${index} ${"a thought of some length ".repeat(200)}`);
  summarise = window(16_000, () => reply.text("WHAT WAS DONE"));
  await send(short, "go");
  await rest(short);
  expect(await kinds(short, "Condensation", "ConversationErrorEvent")).toEqual(["Condensation"]);
});

test("the settings determine whether and when conversations are condensed", async () => {
  const llm = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  const count = async (settings: Json, text: string) => {
    expect((await platform.call("POST", "/api/settings", { ...llm, ...settings })).status).toBe(200);
    work = thinker(14);
    summarise = () => reply.text("WHAT WAS DONE");
    const before = summaryCalls().length;
    const { id } = await startConversation(platform.call, text, { sandbox_id: agent.sandboxId });
    await until(
      async () =>
        (await platform.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished" ||
        undefined,
    );
    return summaryCalls().length - before;
  };
  expect(await count({ condenser_max_size: 20 }, "few events")).toBe(1);
  expect(await count({ condenser_max_size: 200 }, "many events")).toBe(0);
  expect(await count({ condenser_max_size: 20, enable_default_condenser: false }, "no condenser")).toBe(0);
  await platform.call("POST", "/api/settings", { enable_default_condenser: true });
  const own = await agent.call("POST", "/api/conversations", {
    workspace: { working_dir: "/workspace/project" },
    agent_settings: { condenser: { max_size: 12 }, tools: [] },
  });
  work = thinker(8);
  await send(own.body.id, "own settings");
  await rest(own.body.id);
  expect(await kinds(own.body.id, "Condensation")).toEqual(["Condensation"]);
});

test("a summary of nearly a megabyte is cut, and lone surrogates in a summary are replaced", async () => {
  const id = await start();
  work = thinker(12);
  summarise = () => reply.text(`\ud800 begins ${"x".repeat(990_000)} ends`, { deltaSize: 100_000 });
  await send(id, "go");
  await rest(id);
  const { summary } = (await events(id)).find(({ kind }) => kind === "Condensation")!;
  expect(summary.length).toBeLessThan(40_000);
  expect(summary).toMatch(/begins x[\s\S]*left out[\s\S]*x ends/);
});

test("the cost of condensation counts against the budget before the next model call", async () => {
  await platform.call("POST", "/api/settings", { max_budget_per_task: 1 });
  try {
    const id = await start({}, { input_cost_per_token: 0.000001, output_cost_per_token: 0 });
    work = thinker(12);
    summarise = () => reply.text("WHAT WAS DONE", { usage: { prompt: 1_500_000 } });
    await send(id, "go");
    await rest(id, "error");
    expect(await kinds(id, "Condensation")).toHaveLength(1);
    expect((await events(id)).at(-1)).toMatchObject({ code: "MaxBudgetReached" });
    expect(isSummary(models.requests.at(-1)!)).toBe(true);
    const calls = models.requests.length;
    expect((await agent.call("POST", `/api/conversations/${id}/condense`)).status).toBe(429);
    expect(models.requests.length).toBe(calls);
  } finally {
    await platform.call("POST", "/api/settings", { max_budget_per_task: null });
  }
});
