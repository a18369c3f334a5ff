import {
  type ModelRequestSeen,
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

/** Sub-agents with a real server and sandbox and a scripted model: each is its own conversation. */

let server: TestPlatform;
let models: ModelServer;
/** The answers of this test's models. */
let script: (request: ModelRequestSeen) => Reply | Promise<Reply>;

const task = (prompt: string, more: object = {}) => ({ name: "task", arguments: { prompt, ...more } });
const isChild = ({ system }: ModelRequestSeen) => system.includes("<SUB_AGENT>");
const lastText = ({ messages }: ModelRequestSeen) => messages.at(-1)!.text;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform({ maxRuns: 1 });
  await configure({});
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

async function configure(more: Json, conversation: Json = {}): Promise<void> {
  const agent_settings_diff = {
    llm: { model: "openai/scripted", base_url: models.url, api_key: "sk-test" },
    enable_sub_agents: true,
    tool_concurrency_limit: 4,
    ...more,
  };
  const { status } = await server.call("POST", "/api/v1/settings", {
    agent_settings_diff,
    conversation_settings_diff: conversation,
  });
  expect(status).toBe(200);
}

async function conversation(id: string): Promise<Json> {
  return (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
}

const waitForEnd = (id: string, status = "finished") =>
  until(async () => {
    const found = await conversation(id);
    return found.execution_status === status ? found : undefined;
  });

async function eventsOf(id: string, kind?: string): Promise<Json[]> {
  const { body } = await server.call(
    "GET",
    `/api/v1/conversation/${id}/events/search?limit=100${kind ? `&kind__eq=${kind}` : ""}`,
  );
  return body.items;
}

async function childrenOf(id: string): Promise<string[]> {
  const { body } = await server.call(
    "GET",
    "/api/v1/app-conversations/search?include_sub_conversations=true&sort_order=CREATED_AT",
  );
  return body.items.filter((item: Json) => item.parent_conversation_id === id).map((item: Json) => item.id);
}

const observations = async (id: string) =>
  (await eventsOf(id, "ObservationEvent")).map(({ observation }) => observation);

test("a task runs in its own conversation in the same folder, concurrently with another, even if only one run is allowed", async () => {
  const both = Promise.withResolvers<void>();
  let begun = 0;
  script = async (request) => {
    if (isChild(request)) {
      expect(request.tools).not.toContain("task");
      if (request.messages.at(-1)!.role === "tool")
        return finish(`I wrote ${lastText(request).includes("[Exit code: 0]") ? "it" : "nothing"}.`);
      if (++begun === 2) both.resolve();
      await both.promise;
      return reply.toolCalls([terminal(lastText(request))], {
        usage: { prompt: 10, completion: 5 },
      });
    }
    if (request.messages.at(-1)!.role === "user")
      return reply.toolCalls([task("echo one > one"), task("echo two > two", { description: "Write two" })]);
    if (request.messages.filter(({ role }) => role === "tool").length === 2)
      return reply.toolCalls([terminal("cat one two")]);
    return finish(lastText(request).includes("one\ntwo") ? "Both are there." : "Something is missing.");
  };
  const { id } = await startConversation(server.call, "Have two files written.");
  const parent = await waitForEnd(id);
  const results = await observations(id);
  const shown = { kind: "TaskObservation", subagent: "general-purpose", content: [{ text: "I wrote it." }] };
  const done = { ...shown, status: "completed", is_error: false };
  expect(results.slice(0, 2)).toMatchObject([done, done]);
  // Either may have begun first.
  const taskIds = results
    .slice(0, 2)
    .map((result) => result.task_id)
    .sort();
  expect(taskIds).toEqual(["task_00000001", "task_00000002"]);
  expect((await eventsOf(id)).at(-1)).toMatchObject({
    observation: { content: [{ text: "Both are there." }] },
  });
  // The released GUI takes those for its planners.
  expect(parent.sub_conversation_ids).toEqual([]);
  const children = await Promise.all((await childrenOf(id)).map(conversation));
  expect(children).toHaveLength(2);
  expect(children.map(({ title }) => title).sort()).toEqual(["Write two", "echo one > one"]);
  expect(
    children.every((child) => child.parent_conversation_id === id && child.sandbox_id === parent.sandbox_id),
  ).toBe(true);
  const top = (await server.call("GET", "/api/v1/app-conversations/search?include_sub_conversations=false"))
    .body.items;
  expect(top.map((item: Json) => item.id)).toContain(id);
  expect(top.map((item: Json) => item.id)).not.toContain(children[0]!.id);
});

test("a task resumes a sub-agent with its history; unknown agent types and tasks get errors", async () => {
  script = (request) => {
    const seen = request.messages.map(({ text }) => text).join("\n");
    if (isChild(request))
      return reply.text(
        seen.includes("the word is heron") && lastText(request).includes("Which") ? "heron" : "Noted.",
      );
    const results = request.messages.filter(({ role }) => role === "tool").map(({ text }) => text);
    if (results.length === 0)
      return reply.toolCalls([
        task("the word is heron"),
        task("x", { subagent_type: "nobody" }),
        task("x", { resume: "task_77" }),
      ]);
    // The model knows only what the result contains.
    const [, resume = "nobody"] = /\[task_id: (\w+)\]/.exec(results[0]!) ?? [];
    if (results.length === 3) return reply.toolCalls([task("Which word?", { resume })]);
    return finish("Done.");
  };
  const { id } = await startConversation(server.call, "Remember a word.");
  await waitForEnd(id);
  const results = await observations(id);
  expect(results.map(({ content }) => content[0].text)).toEqual([
    "Noted.",
    expect.stringContaining(
      "There is no sub-agent nobody: they are general-purpose, bash-runner, code-explorer, web-researcher",
    ),
    "There is no task task_77: the tasks are task_00000001.",
    "heron",
    "Done.",
  ]);
  expect(results.slice(1, 3).every(({ is_error, status }) => is_error && status === "error")).toBe(true);
  expect(results.slice(1, 3).map(({ task_id }) => task_id)).toEqual(["", ""]);
  const read = models.requests.flatMap(({ messages }) => messages.map(({ text }) => text));
  expect(read.some((text) => text.includes("There is no task task_77"))).toBe(true);
  expect(read.some((text) => text.includes("[task_id: task_77]"))).toBe(false);
  expect(await childrenOf(id)).toHaveLength(1);
});

test("the cost of a sub-agent counts once in its parent, and both share one budget", async () => {
  await configure({
    llm: {
      model: "openai/scripted",
      base_url: models.url,
      api_key: "sk-test",
      input_cost_per_token: 0.001,
      output_cost_per_token: 0.001,
    },
  });
  await server.call("POST", "/api/v1/settings", { max_budget_per_task: 1 });
  try {
    let calls = 0;
    script = (request) => {
      if (!isChild(request)) return reply.toolCalls([task("go on and on")]);
      calls++;
      return reply.toolCalls([terminal(`echo ${calls}`)]);
    };
    const { id } = await startConversation(server.call, "Spend.");
    const parent = await waitForEnd(id, "error");
    const child = await conversation((await childrenOf(id))[0]!);
    expect(child.execution_status).toBe("error");
    expect((await observations(id))[0]).toMatchObject({
      is_error: true,
      content: [{ text: expect.stringContaining("budget of 1 USD") }],
    });
    expect(parent.metrics.accumulated_cost).toBeGreaterThanOrEqual(1);
    expect(parent.metrics.accumulated_cost).toBeGreaterThan(child.metrics.accumulated_cost);
    const { stats } = (await server.call("GET", `/api/conversations/${id}`)).body ?? {};
    if (stats) expect(Object.keys(stats.usage_to_metrics)).toContain("task:task_00000001");
  } finally {
    await server.call("POST", "/api/v1/settings", { max_budget_per_task: null });
    await configure({});
  }
});

test("a sub-agent that waits for the user makes its parent wait, and is answered there", async () => {
  await configure({}, { confirmation_mode: true, security_analyzer: "llm" });
  try {
    script = (request) => {
      if (!isChild(request))
        return request.messages.at(-1)!.role === "user" && !lastText(request).includes("asks before")
          ? reply.toolCalls([{ name: "task", arguments: { prompt: "delete", security_risk: "LOW" } }])
          : finish("All done.");
      if (request.messages.at(-1)!.role === "user")
        return reply.toolCalls([
          { name: "terminal", arguments: { command: "rm -f nothing", security_risk: "HIGH" } },
        ]);
      return finish(`Result: ${lastText(request).includes("Exit code: 0") ? "removed" : "refused"}`);
    };
    const { id } = await startConversation(server.call, "Have something deleted.");
    const waiting = await waitForEnd(id, "waiting_for_confirmation");
    const asked = (await eventsOf(id, "MessageEvent")).at(-1)!;
    expect(asked).toMatchObject({ source: "environment" });
    expect(asked.llm_message.content[0].text).toMatch(
      /task_00000001 \(general-purpose\) asks before it runs terminal \(risk HIGH\)/,
    );
    const key = (await server.call("GET", `/api/v1/sandboxes?id=${waiting.sandbox_id}`)).body[0]
      .session_api_key;
    const approve = await fetch(`${server.url}/api/conversations/${id}/run`, {
      method: "POST",
      headers: { "X-Session-API-Key": key },
    });
    expect(approve.status).toBe(200);
    await waitForEnd(id);
    expect((await observations(id))[0]).toMatchObject({
      status: "completed",
      content: [{ text: "Result: removed" }],
    });
  } finally {
    await configure({}, { confirmation_mode: false });
  }
});

test("an approval of the parent covers only what its questions show, and they show all", async () => {
  await configure({}, { confirmation_mode: true, security_analyzer: "llm" });
  try {
    const long = `: ${"x".repeat(5_000)}; touch last`;
    const low = { security_risk: "LOW" };
    const risky = (command: string) => terminal(command, { security_risk: "HIGH" });
    const asks = (calls: ReturnType<typeof terminal>[]) => reply.toolCalls(calls);
    const firstAsked = Promise.withResolvers<void>();
    script = async (request) => {
      if (request.messages.some(({ role }) => role === "tool")) return finish("Done.");
      if (!isChild(request)) return asks([task("first", low), task("second", low)]);
      if (lastText(request).includes("first")) return asks([risky("rm -f one"), risky(long)]);
      await firstAsked.promise;
      return asks([risky("rm -f other")]);
    };
    const { id } = await startConversation(server.call, "Have something deleted.");
    const questions = async () => {
      const all = await eventsOf(id, "MessageEvent");
      return all
        .filter(({ source }) => source === "environment")
        .map(({ llm_message }) => llm_message.content[0].text as string);
    };
    await until(async () => (await questions()).length === 1 || undefined);
    const [first] = await questions();
    expect(first).toContain("rm -f one");
    expect(first).toContain("touch last");
    firstAsked.resolve();
    await until(async () => (await questions()).length === 2 || undefined);
    expect((await questions())[1]).toContain("rm -f other");
    const approval = `/api/conversations/${id}/events/respond_to_confirmation`;
    expect((await server.call("POST", approval, { accept: true })).status).toBe(200);
    await waitForEnd(id);
    // The parent's model does not read what its sub-agents ask.
    const read = models.requests.filter((request) => !isChild(request)).at(-1)!;
    expect(JSON.stringify(read.messages)).not.toContain("rm -f one");
  } finally {
    await configure({}, { confirmation_mode: false });
  }
});

test("interrupt and deletion of the parent reach the sub-agent; a deleted sub-agent is reported", async () => {
  let hold = Promise.withResolvers<void>();
  script = async (request) => {
    if (isChild(request)) {
      hold.resolve();
      return reply.toolCalls([terminal("sleep 100", { timeout: 100 })]);
    }
    return request.messages.at(-1)!.role === "tool"
      ? finish(lastText(request))
      : reply.toolCalls([task("sleep")]);
  };
  const { id, sandboxId } = await startConversation(server.call, "Sleep.");
  await hold.promise;
  const child = await until(async () => {
    const [first] = await childrenOf(id);
    return first && (await eventsOf(first, "ActionEvent")).length > 0 ? first : undefined;
  });
  const key = (await server.call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].session_api_key;
  const interrupted = await fetch(`${server.url}/api/conversations/${id}/interrupt`, {
    method: "POST",
    headers: { "X-Session-API-Key": key },
  });
  expect(interrupted.status).toBe(200);
  await waitForEnd(id, "paused");
  await waitForEnd(child, "paused");
  expect((await eventsOf(child)).map(({ kind }) => kind)).toContain("InterruptEvent");

  hold = Promise.withResolvers<void>();
  const second = await startConversation(server.call, "Sleep.");
  await hold.promise;
  const [born] = await until(async () => {
    const ids = await childrenOf(second.id);
    return ids.length > 0 ? ids : undefined;
  });
  expect((await server.call("DELETE", `/api/v1/app-conversations/${born}`)).status).toBe(200);
  await waitForEnd(second.id);
  expect((await observations(second.id))[0]).toMatchObject({
    is_error: true,
    content: [{ text: expect.stringContaining("deleted") }],
  });
  expect((await server.call("DELETE", `/api/v1/app-conversations/${id}`)).status).toBe(200);
  expect(await conversation(child)).toBeNull();
});

test("the sub-agents that a project defines are listed and used", async () => {
  const file = "---\nname: reviewer\ndescription: reads changes\n  line by line\n---\nYou review.";
  script = (request) => {
    if (isChild(request)) return reply.text(request.system.includes("You review.") ? "Fine." : "Who am I?");
    const step = request.messages.filter(({ role }) => role === "tool").length;
    if (step === 1 || request.messages.at(-1)!.text === "Nothing") return finish("Done.");
    const write = `mkdir -p .agents/agents && cat >.agents/agents/reviewer.md <<'END'\n${file}\nEND`;
    return reply.toolCalls([
      lastText(request) === "Write" ? terminal(write) : task("Look", { subagent_type: "reviewer" }),
    ]);
  };
  const first = await startConversation(server.call, "Write");
  await waitForEnd(first.id);
  const from = models.requests.length;
  const { id } = await startConversation(server.call, "Review", { sandbox_id: first.sandboxId });
  await waitForEnd(id);
  expect((await observations(id)).map(({ content, subagent }) => [subagent, content[0].text])).toEqual([
    ["reviewer", "Fine."],
    [undefined, "Done."],
  ]);
  // The sandbox's files are read during the first call.
  const tools = models.requests
    .slice(from)
    .filter((request) => !isChild(request))
    .at(-1)!.body.tools as Json[];
  const { description } = tools.find((tool) => tool.function.name === "task")!.function;
  expect(description).toContain("- reviewer: reads changes line by line\n- general-purpose:");
});
