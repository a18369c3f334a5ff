import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";

let platform: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let script: Script;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

const bash = async (command: string): Promise<string> =>
  (await agent.call("POST", "/api/bash/execute_bash_command", { command })).body.stdout;

test("hooks of a client's sub-agent guard only it, after those of the conversation", async () => {
  const { agent: given } = sdkRequest(models.url);
  const hooks = (...commands: string[]) => ({
    pre_tool_use: [{ matcher: "*", hooks: commands.map((command) => ({ command })) }],
  });
  const guard = `case $(cat) in *forbidden*) echo "not for sub-agents" >&2; exit 2;; esac`;
  const kinds = ["guarded", "free"];
  script = ({ messages }) => {
    const said = messages.findLast(({ role }) => role === "user")!.text;
    if (said.startsWith("Ask "))
      return messages.at(-1)!.role === "tool"
        ? finish("Child.")
        : reply.toolCalls([terminal("echo forbidden")]);
    const kind = kinds.shift();
    const task = { prompt: `Ask ${kind}`, subagent_type: kind, security_risk: "LOW" };
    return kind ? reply.toolCalls([{ name: "task", arguments: task }]) : finish("Done.");
  };
  const request = sdkRequest(models.url, {
    agent: { ...given, tools: [...given.tools, { name: "task_tool_set" }] },
    hook_config: hooks("echo outer >>ran"),
    agent_definitions: [{ name: "guarded", hooks: hooks("echo inner >>ran", guard) }, { name: "free" }],
    initial_message: { role: "user", content: [{ type: "text", text: "Delegate" }], run: true },
  });
  const { id } = (await agent.call("POST", "/api/conversations", request)).body;
  await until(
    async () => (await agent.call("GET", `/api/conversations/${id}`)).body.execution_status === "finished",
  );
  const list = "/api/v1/app-conversations/search?limit=100&include_sub_conversations=true";
  const { items } = (await platform.call("GET", list)).body as { items: Json[] };
  const children = items.filter(({ parent_conversation_id: parent }) => parent === id.replaceAll("-", ""));
  const rejections = await Promise.all(
    children.map(async (child) => {
      const { body } = await agent.call("GET", `/api/conversations/${child.id}/events/search?limit=100`);
      return body.items.flatMap(({ rejection_reason: reason }: Json) => reason ?? []);
    }),
  );
  expect(rejections.sort()).toEqual([[], ["not for sub-agents"]]);
  const ran = (await bash("cat ran")).split("\n");
  // The parent's two calls and its end, and those of both sub-agents.
  expect(ran.filter((line) => line === "outer")).toHaveLength(7);
  expect(ran.filter((line) => line === "inner")).toHaveLength(2);
  expect(ran[ran.indexOf("inner") - 1]).toBe("outer");
});

test("clients list the sub-agents of a project, of the home folder and the built-in ones", async () => {
  const command = `mkdir -p ~/.agents/agents p/.agents/agents
printf -- '---\\ndescription: Makes rhymes.\\ncolor: teal\\ntools: [grep]\\nmodel: fast\\n---\\nRhyme.' >p/.agents/agents/poet.md
printf 'Explore.' >p/.agents/agents/code-explorer.md; printf 'Mine.' >~/.agents/agents/own.md`;
  await agent.call("POST", "/api/bash/execute_bash_command", { command });
  const list = async (change: Json = {}) => {
    const { status, body } = await agent.call("POST", "/api/sub-agents", { project_dir: "p", ...change });
    expect(status).toBe(200);
    return body.agents as Json[];
  };
  const all = await list();
  expect(all.map(({ name, level }) => `${name} ${level}`).sort()).toEqual([
    "bash-runner builtin",
    "code-explorer project",
    "general-purpose builtin",
    "own user",
    "poet project",
    "web-researcher builtin",
  ]);
  expect(all.find(({ name }) => name === "poet")).toEqual({
    ...{ name: "poet", description: "Makes rhymes.", system_prompt: "Rhyme.", color: "teal", model: "fast" },
    ...{ tools: ["grep"], skills: [], permission_mode: null, max_iteration_per_run: null },
    ...{
      level: "project",
      source: expect.stringMatching(/p\/\.agents\/agents\/poet\.md$/),
      is_builtin: false,
    },
  });
  expect(all.find(({ name }) => name === "bash-runner")).toMatchObject({ source: null, is_builtin: true });
  const names = async (change: Json) => (await list(change)).map(({ name }) => name).sort();
  expect(await names({ load_builtin: false })).toEqual(["code-explorer", "own", "poet"]);
  expect(await names({ load_builtin: false, load_user: false })).toEqual(["code-explorer", "poet"]);
  expect(await names({ load_user: false, load_project: false })).toHaveLength(4);
  expect((await agent.call("POST", "/api/sub-agents", { load_user: 1 })).status).toBe(422);
});
