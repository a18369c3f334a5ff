import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
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
import { editor, finish, terminal } from "./support/script.ts";

/** Project context that a sandbox gives its agents: path rules, skills read by name, a memory. */

let server: TestPlatform;
let models: ModelServer;
let script: Script;
let first = 0;
let sandboxId: string;

const work = "/workspace/project";

/** Conversations of one sandbox, the first of which makes the project. */
beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
  const files: Record<string, string> = {
    "AGENTS.md": "Use tabs.",
    "docs/AGENTS.md": "Short sentences.",
    "docs/deep/CLAUDE.md": "Only for others.",
    "node_modules/x/AGENTS.md": "Never this.",
    ".agents/skills/style.md": "---\nname: style \"x\"\npaths: ['*.css', src/**/*.ts]\n---\nNo ids.",
    ".agents/skills/release/SKILL.md":
      "---\nname: release\ndescription: Makes a release\n---\nBranch: !`echo main; pwd`\n!`exit 3`\n```\n!`not run`\n```\nSee steps.txt.",
    ".agents/skills/odd/SKILL.md": "---\ndescription: [unclosed\n---\nOdd text.",
    ".agents/skills/deploy.md":
      "---\nname: deploy\ninputs:\n- name: PLACE\n  description: where to\n---\nDeploy to ${PLACE}.",
    ".openhands/memory/MEMORY.md": `${"old line\n".repeat(2_000)}The tests need a database.`,
  };
  const write = Object.entries(files).map(([path, text]) =>
    terminal(`mkdir -p "$(dirname ${path})" && cat >${path} <<'END'\n${text}\nEND`),
  );
  replies([
    reply.toolCalls(write),
    reply.toolCalls([terminal("head -c 300000 /dev/zero | tr '\\0' x >.cursorrules; touch a.css")]),
  ]);
  const made = await startConversation(server.call, "Make it");
  sandboxId = made.sandboxId;
  await waitForEnd(made.id);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

function replies(list: Reply[]): void {
  first = models.requests.length;
  script = ({ index }) => list[index - first] ?? finish("Done.");
}
const start = async (text: string): Promise<string> =>
  (await startConversation(server.call, text, { sandbox_id: sandboxId })).id;
const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
const info = async (id: string): Promise<Json> => (await server.call("GET", `/api/conversations/${id}`)).body;
async function waitForEnd(id: string): Promise<Json[]> {
  const status = await until(async () => {
    const { execution_status: now } = await info(id);
    return now === "running" || now === "idle" ? undefined : now;
  });
  const all = await events(id);
  expect(status, JSON.stringify(all.at(-1))).toBe("finished");
  return all;
}
const say = async (id: string, text: string) => {
  const before = models.requests.length;
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });
  await until(() => models.requests.length > before);
  return waitForEnd(id);
};
const added = (all: Json[]) =>
  all
    .filter(({ kind }) => kind === "ObservationEvent")
    .map(({ extended_content: more }) => (more ?? []).map(({ text }: Json) => text));

test("rules are added to the first result of a file tool for their paths, once per conversation, also after a restart", async () => {
  const view = (path: string) => editor({ command: "view", path: `${work}/${path}` });
  replies([
    reply.toolCalls([terminal("ls")]),
    reply.toolCalls([
      view("a.css"),
      view("a.css"),
      editor({ command: "create", path: `${work}/docs/a.md`, file_text: "x" }),
      view("none.css"),
    ]),
  ]);
  const id = await start("Read");
  const all = await waitForEnd(id);
  const rules = added(all);
  expect(rules.map((texts) => texts.length)).toEqual([0, 1, 0, 1, 0, 0]);
  expect(rules[1]![0]).toMatch(
    /^<PATH_RULE name="style 'x'" path="\/workspace\/project\/a\.css">[\s\S]*No ids\./,
  );
  expect(rules[3]![0]).toContain("Short sentences.");
  expect(JSON.stringify(models.requests[first + 2]!.messages)).toContain("Short sentences.");
  expect(models.requests[first]!.system).not.toMatch(/No ids|Short sentences|Never this/);
  expect((await info(id)).activated_path_rules).toEqual(["style 'x'", "docs/AGENTS.md"]);
  replies([reply.toolCalls([view("a.css"), view("docs/a.md")])]);
  const later = added(await say(id, "Again"));
  expect(later.flat().length).toBe(2);
});

test("skills are listed and read by name with the output of their commands, and file problems are reported once", async () => {
  const read = (name: string) => ({ name: "invoke_skill", arguments: { name } });
  replies([finish("Hello.")]);
  const id = await start("Hello");
  const opened = await waitForEnd(id);
  replies([reply.toolCalls([read("release"), read("nothing")])]);
  const all = await say(id, "Release it");
  const [found, missing] = all.filter(({ observation }) => observation?.kind === "InvokeSkillObservation");
  expect(found!.observation).toMatchObject({ skill_name: "release", is_error: false });
  const text = found!.observation.content[0].text;
  expect(text).toContain(`Branch: main\n${work}`);
  expect(text).toContain("[The command ended with code 3: ]");
  expect(text).toContain("```\n!`not run`\n```");
  expect(text).toContain(`${work}/.agents/skills/release`);
  expect(missing!.observation.is_error).toBe(true);
  expect(missing!.observation.content[0].text).toMatch(
    /^There is no skill nothing\. The skills are: .*release/,
  );
  expect(models.requests[first]!.tools).toContain("invoke_skill");
  expect((await info(id)).invoked_skills).toEqual(["release"]);
  expect(opened[0]!.kind).toBe("SystemPromptEvent");
  expect(models.requests[first]!.system).toContain("Use tabs.");
  expect(models.requests[first]!.system).toContain("<name>release</name>");
  const notes = all.filter(({ kind, source }) => kind === "MessageEvent" && source === "environment");
  const texts = notes.map(({ llm_message }) => llm_message.content[0].text).join("\n");
  expect(texts).toContain("odd/SKILL.md: its front matter cannot be read");
  expect(texts.match(/\.cursorrules: it is longer than 64 KiB/g)).toHaveLength(1);
});

test("a task's skill asks for its inputs", async () => {
  replies([]);
  const id = await start("Hello");
  await waitForEnd(id);
  await say(id, "please /deploy now");
  const prompt = JSON.stringify(models.requests.at(-1)!.messages);
  expect(prompt).toContain("Deploy to ${PLACE}.");
  expect(prompt).toContain("- PLACE: where to");
});

test("the newest lines of the memory are in the prompt of agents that use it", async () => {
  replies([]);
  const without = await start("Hello");
  await waitForEnd(without);
  expect(models.requests[first]!.system).not.toContain("<MEMORY>");
  const change = { agent_settings_diff: { agent_context: { load_memory: true } } };
  expect((await server.call("POST", "/api/v1/settings", change)).status).toBe(200);
  replies([]);
  const id = await start("Hello");
  await waitForEnd(id);
  const { system } = models.requests[first]!;
  const memory = system.slice(system.indexOf("<MEMORY>"), system.indexOf("</MEMORY>"));
  expect(memory).toContain("The tests need a database.");
  expect(memory).toContain(`${work}/.openhands/memory/MEMORY.md`);
  expect(memory.length).toBeGreaterThan(5_000);
  expect(memory.length).toBeLessThan(7_000);
});

test("context from the settings is read with each message and shown in its event", async () => {
  const change = { agent_settings_diff: { agent_context: { user_message_suffix: "Answer in one line." } } };
  expect((await server.call("POST", "/api/v1/settings", change)).status).toBe(200);
  replies([]);
  const id = await start("Hello");
  await waitForEnd(id);
  const all = await say(id, "please /deploy now");
  const messages = all.filter(({ kind, source }) => kind === "MessageEvent" && source === "user");
  expect(messages.map(({ extended_content: more }) => more.map(({ text }: Json) => text))).toEqual([
    ["Answer in one line."],
    [expect.stringContaining("Deploy to"), "Answer in one line."],
  ]);
  expect(models.requests.at(-1)!.messages.at(-1)!.text).toContain("Answer in one line.");
});
