import { browserTools } from "@sandpiper/agent/tools/browser/index";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { parseId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish } from "./support/script.ts";

/** Starts of other kinds of agents, and in existing sandboxes. */

let server: TestPlatform;
let models: ModelServer;
let script: Script = () => finish("Done.");

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});
afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;
const waitForEnd = (id: string) =>
  until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return ["finished", "error"].includes(found.execution_status) ? found : undefined;
  });

test("a planning agent reads and writes its plan, and nothing else", async () => {
  const first = models.requests.length;
  const plan = "/workspace/project/.agents_tmp/PLAN.md";
  const edit = (path: string) => ({
    name: "planning_file_editor",
    arguments: { command: "create", path, file_text: "# Plan\n" },
  });
  script = ({ index }) =>
    index === first
      ? reply.toolCalls([
          edit(plan),
          edit("/workspace/project/x"),
          { name: "terminal", arguments: { command: "id" } },
        ])
      : index === first + 1
        ? reply.toolCalls([{ name: "glob", arguments: { pattern: "**/*.md" } }])
        : finish("Planned.");
  const { id } = await startConversation(server.call, "Plan the work", { agent_type: "plan" });
  await waitForEnd(id);
  expect(models.requests[first]?.tools).toEqual(["glob", "grep", "planning_file_editor", "think", "finish"]);
  expect(models.requests[first]?.system).toContain(plan);
  const stored = await events(id);
  const results = stored
    .filter(({ kind }) => kind === "ObservationEvent")
    .map(({ observation }) => observation);
  expect(results[0]).toMatchObject({ kind: "PlanningFileEditorObservation", is_error: false, path: plan });
  expect(results[1]).toMatchObject({ kind: "PlanningFileEditorObservation", is_error: true });
  expect(results[2]).toMatchObject({ kind: "GlobObservation", files: [plan] });
  expect(stored.find(({ kind }) => kind === "AgentErrorEvent")?.error).toMatch(/Unknown tool 'terminal'/);
});

test("an agent of the settings has the tools they name, or the default tools", async () => {
  const choose = (tools: { name: string }[] | null) =>
    server.call("POST", "/api/v1/settings", { agent_settings_diff: { tools } });
  const offered = async () => {
    const first = models.requests.length;
    script = () => finish("Done.");
    const { id } = await startConversation(server.call, "Look around");
    await waitForEnd(id);
    return models.requests[first]?.tools;
  };
  expect(
    (
      await choose([
        { name: "terminal" },
        { name: "GrepTool" },
        { name: "task_tool_set" },
        { name: "of_nobody" },
      ])
    ).status,
  ).toBe(200);
  try {
    expect(await offered()).toEqual(["terminal", "grep", "finish", "think", "task"]);
  } finally {
    await choose(null);
  }
  // The machine has a Chromium, so its sandboxes have one.
  expect(await offered()).toEqual([
    ...["terminal", "file_editor", "task_tracker", "think", "finish"],
    ...browserTools.map(({ name }) => name),
  ]);
});

test("a conversation in an existing sandbox reads the instructions in it, and disabled skills are left out", async () => {
  script = () => finish("Done.");
  await server.call("POST", "/api/v1/settings", { disabled_skills: ["loud"] });
  const { body } = await server.call("POST", "/api/v1/sandboxes");
  const put = (path: string, text: string) =>
    fetch(`${server.url}/api/v1/sandboxes/${body.id}/files?path=${encodeURIComponent(path)}`, {
      method: "PUT",
      headers: { "x-session-api-key": server.key, "content-type": "application/octet-stream" },
      body: text,
    });
  expect((await put("AGENTS.md", "Speak softly.")).ok).toBe(true);
  await put(".openhands/skills/loud.md", "Shout.");
  const { id } = await startConversation(server.call, "Hello", { sandbox_id: body.id });
  await waitForEnd(id);
  const [prompt] = await events(id);
  expect(prompt?.dynamic_context.text).toContain("Speak softly.");
  expect(prompt?.dynamic_context.text).not.toContain("Shout.");
});

test("the user's title model generates the title during the run, and its cost is counted", async () => {
  const asked = (text: string) => models.requests.some(({ system }) => system.includes(text));
  script = ({ system }) =>
    system.includes("You name conversations") ? reply.text('"🔧 Repair the\tpump"\nmore') : finish("Done.");
  const llm = { model: "openai/titles", api_key: "sk-title", base_url: models.url };
  expect((await server.call("POST", "/api/v1/settings/profiles/titles", { llm })).status).toBe(201);
  await server.call("POST", "/api/v1/settings", { title_llm_profile: "titles" });
  const { id } = await startConversation(server.call, "The pump is broken, please repair it");
  const socket = SocketClient.forConversation(server, id);
  await socket.frame(({ key, value }) => key === "full_state" && value.title === "🔧 Repair the pump");
  socket.close();
  const [titled] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
  expect(titled.title).toBe("🔧 Repair the pump");
  await waitForEnd(id);
  const stats = async () => {
    const records = (await server.platform.store.events.read(parseId(id)!, 0, 1_000)).map(
      ({ event }) => event as Json,
    );
    return Object.keys(records.findLast(({ key }) => key === "stats")?.value.usage_to_metrics ?? {}).sort();
  };
  await until(async () => (await stats()).join() === "agent,title" || undefined);

  const named = await startConversation(server.call, "Hello", { title: "My own" });
  await waitForEnd(named.id);
  const count = models.requests.filter(({ system }) => system.includes("You name conversations")).length;
  expect(asked("You name conversations") && count).toBe(1);
  script = ({ system }) => (system.includes("You name conversations") ? reply.error(400) : finish("Done."));
  const failing = await startConversation(server.call, "First line\nsecond");
  await waitForEnd(failing.id);
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${failing.id}`)).body[0].title).toBe(
    "First line",
  );
  await server.call("POST", "/api/v1/settings", { title_llm_profile: "" });
});
