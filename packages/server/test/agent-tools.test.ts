import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

/** Tools over the whole way: a message, the model's calls, a real sandbox, the events. */

let platform: TestPlatform;
let models: ModelServer;

beforeAll(async () => {
  // The user's message holds the calls of its turn.
  models = await startModelServer(({ messages }) => {
    const from = messages.findLastIndex(({ role, text }) => role === "user" && text.startsWith("["));
    const calls = JSON.parse(messages[from]!.text);
    const call = calls[messages.slice(from).filter(({ role }) => role === "tool").length];
    return call ? reply.toolCalls([call]) : finish("Done.");
  });
  platform = await startTestPlatform();
  await platform.call("POST", "/api/settings", {
    llm_model: "openai/first",
    llm_api_key: "sk-x",
    llm_base_url: models.url,
  });
});
afterAll(async () => {
  await platform?.stop();
  await models?.close();
});

let conversation: { id: string } | undefined;

/** Makes the agent run calls; returns their observations. */
async function turn(...calls: object[]): Promise<Json[]> {
  const text = JSON.stringify(calls);
  const before = conversation ? (await observations()).length : 0;
  if (!conversation) conversation = await startConversation(platform.call, text);
  else {
    const message = { role: "user", content: [{ type: "text", text }], run: true };
    const { status, body } = await platform.call(
      "POST",
      `/api/v1/app-conversations/${conversation.id}/send-message`,
      message,
    );
    expect([status, body]).toEqual([200, expect.anything()]);
  }
  return until(async () => {
    const found = (await observations()).slice(before);
    return found.at(-1)?.kind === "FinishObservation" ? found.slice(0, -1) : undefined;
  });
}
async function observations(): Promise<Json[]> {
  const query = "kind__eq=ObservationEvent&limit=100";
  const { body } = await platform.call(
    "GET",
    `/api/v1/conversation/${conversation!.id}/events/search?${query}`,
  );
  return body.items.map(({ observation }: Json) => observation);
}
const input = (command: string) => terminal(command, { is_input: true, timeout: 0.5 });
const outputs = (found: Json[]) => found.map(({ content }) => content[0].text);

test("a running command can be waited for, answered and stopped, and the next one runs", async () => {
  const seen = await turn(
    terminal("read -p 'name? ' name; echo hello $name; sleep 1; echo later; sleep 100", { timeout: 0.5 }),
    input("Ada"),
    terminal("", { timeout: 3 }),
    terminal("echo refused"),
    input("C-c"),
    terminal("echo $name is free"),
    terminal("yes | head -c 3000000; printf '\\377\\033[31mred'"),
    terminal("", {}),
  );
  expect(seen.map(({ exit_code, is_error }) => [exit_code, is_error])).toEqual([
    [-1, false],
    [-1, false],
    [-1, false],
    [-1, true],
    [130, false],
    [0, false],
    [0, false],
    [-1, true],
  ]);
  const texts = outputs(seen);
  expect(texts[0]).toBe("name? ");
  expect(texts[1]! + texts[2]).toContain("hello Ada\nlater\n");
  expect(seen[3]!.metadata.suffix).toContain("NOT run");
  expect(texts[5]).toBe("Ada is free\n");
  expect(texts[6]!.length).toBeLessThanOrEqual(30_000);
  expect(texts[6]).toMatch(/characters are left out[\s\S]*\ufffdred$/);
  expect(texts[7]).toContain("Nothing is running");
});

test("each edit can be undone once in its file, also after a restart of the server", async () => {
  const path = "/workspace/project/a.txt";
  const replace = (old_str: string, new_str: string, file = path) =>
    editor({ command: "str_replace", path: file, old_str, new_str });
  const undo = editor({ command: "undo_edit", path });
  await turn(
    editor({ command: "create", path, file_text: "one\n" }),
    replace("one", "two"),
    replace("two", "three"),
    replace("three", "four"),
    undo,
    editor({ command: "create", path: "/workspace/project/b.txt", file_text: "other\n" }),
  );
  await platform.platform.close();
  platform = await startTestPlatform({ dataDir: platform.dataDir });
  const seen = await turn(undo, replace("two", "five"), undo, undo, undo, undo);
  expect(seen.map(({ new_content }) => new_content)).toEqual([
    "two\n",
    "five\n",
    "two\n",
    "one\n",
    "one\n",
    undefined,
  ]);
  expect(seen.at(-1)).toMatchObject({
    is_error: true,
    content: [{ text: expect.stringContaining("no edit of this file to undo") }],
  });
});

test("the user and the model are notified once of unknown tools in the settings", async () => {
  const tools = ["terminal", "BrowserToolSet", "delegate", "TaskToolSet", "termnal"].map((name) => ({
    name,
    params: {},
  }));
  const set = (agent_settings_diff: Json) =>
    platform.call("POST", "/api/v1/settings", { agent_settings_diff });
  expect((await set({ tools })).status).toBe(200);
  const notes = async (): Promise<string[]> => {
    const query = "kind__eq=MessageEvent&limit=100";
    const { body } = await platform.call(
      "GET",
      `/api/v1/conversation/${conversation!.id}/events/search?${query}`,
    );
    const said = body.items.filter(({ source }: Json) => source === "environment");
    return said.map(({ llm_message }: Json) => llm_message.content[0].text);
  };
  try {
    await turn();
    await turn();
    const warnings = (await notes()).filter((text) => text.includes("termnal"));
    expect(warnings).toEqual([
      expect.stringMatching(
        /^The settings name tools that do not exist here.*: delegate, termnal\. There are terminal, .*browser_tool_set/,
      ),
    ]);
    expect(models.requests.at(-1)!.messages.some(({ text }) => text.includes("delegate, termnal"))).toBe(
      true,
    );
    expect(models.requests.at(-1)!.tools).toEqual(expect.arrayContaining(["terminal", "browser_navigate"]));
    await set({ tools: [...tools, { name: "sketch" }] });
    await turn();
    expect((await notes()).filter((text) => text.includes(": sketch. "))).toHaveLength(1);
  } finally {
    await set({ tools: null });
  }
});

test("a model can switch to an existing profile, which gets the next call", async () => {
  await turn();
  expect(models.requests.at(-1)!.tools).not.toContain("switch_llm");
  const llm = { model: "openai/second", api_key: "sk-y", base_url: models.url };
  expect((await platform.call("POST", "/api/v1/settings/profiles/fast", { llm })).status).toBeLessThan(300);
  const call = (profile_name: string) => ({
    name: "switch_llm",
    arguments: { profile_name, reason: "It is asked for." },
  });
  const from = models.requests.length;
  const seen = await turn(call("slow"), call("fast"));
  expect(seen[0]).toMatchObject({
    is_error: true,
    content: [{ text: "There is no such profile. There are:\n- fast: openai/second" }],
  });
  expect(seen[1]).toMatchObject({
    kind: "SwitchLLMObservation",
    is_error: false,
    profile_name: "fast",
    active_model: "openai/second",
  });
  expect(models.requests.slice(from).map(({ body }) => body.model)).toEqual(["first", "first", "second"]);
});
