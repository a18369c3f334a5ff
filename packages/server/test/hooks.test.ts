import {
  type ModelServer,
  type Reply,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

/** Hooks of projects and clients, over a whole platform with a real sandbox. */

let server: TestPlatform;
let models: ModelServer;
let agent: AgentServer;
let script: Script;
let first = 0;
let folders = 0;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  agent = await startAgentServer(server);
});

// All tests share a sandbox, which what one of them finds would restrict.
afterEach(async () => {
  for (const { digest } of (await server.call("GET", "/api/v1/behaviours")).body)
    await server.call("PUT", `/api/v1/behaviours/${digest}/acceptance`);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const bash = async (command: string): Promise<string> => {
  const { status, body } = await agent.call("POST", "/api/bash/execute_bash_command", { command });
  expect([status, body.exit_code], JSON.stringify(body)).toEqual([200, 0]);
  return body.stdout ?? "";
};

/** A conversation in a folder of its own, after whose script the model is done. */
async function start(text: string, { replies = [], files = {}, ...request }: Json): Promise<string> {
  const folder = `/workspace/p${++folders}`;
  await bash(`mkdir -p ${folder}/.openhands`);
  for (const [path, content] of Object.entries(files as Record<string, string>))
    await bash(`mkdir -p "$(dirname ${folder}/${path})" && cat >${folder}/${path} <<'END'\n${content}\nEND`);
  first = models.requests.length;
  script = ({ index }) => (replies as Reply[])[index - first] ?? finish("Done.");
  const initial_message = { role: "user", content: [{ type: "text", text }] };
  const body = sdkRequest(models.url, { workspace: { working_dir: folder }, initial_message, ...request });
  const made = await agent.call("POST", "/api/conversations", body);
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  return made.body.id;
}

async function waitForEnd(id: string, status = "finished"): Promise<Json[]> {
  await until(
    async () => (await agent.call("GET", `/api/conversations/${id}`)).body.execution_status === status,
  );
  return events(id);
}
const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body.items;
const say = (id: string, text: string) =>
  agent.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run: true,
  });
const hooksOf = (all: Json[]) => all.filter(({ kind }) => kind === "HookExecutionEvent");
const seen = (index: number) => JSON.stringify(models.requests[first + index]!.messages);
const command = (text: string, more: object = {}) => ({
  matcher: "*",
  hooks: [{ type: "command", command: text, ...more }],
});

test("the project's hooks run before and after each call: exit code 2 blocks it, and added context is read with its result", async () => {
  const guard = `input=$(cat); case $input in *forbidden*) echo "no such thing" >&2; exit 2;; esac; echo "$OPENHANDS_EVENT_TYPE $OPENHANDS_TOOL_NAME $OPENHANDS_SESSION_ID" >>seen`;
  const hooks = {
    PreToolUse: [
      { matcher: "/term.*/", hooks: [{ command: "sh guard.sh" }] },
      { matcher: "nothing|else", hooks: [{ command: "touch never" }] },
    ],
    post_tool_use: [command(`cat >after.json; echo '{"additionalContext":"Mind the gap."}'`)],
  };
  const id = await start("Work", {
    files: { ".openhands/hooks.json": JSON.stringify({ hooks }), "guard.sh": guard },
    replies: [
      reply.toolCalls([terminal("echo forbidden")]),
      reply.toolCalls([terminal("echo fine; cat seen")]),
    ],
  });
  const all = await waitForEnd(id);
  const [pre, prePassed, post] = hooksOf(all);
  const action = all.find(({ kind }) => kind === "ActionEvent")!;
  expect(pre).toMatchObject({
    source: "hook",
    hook_event_type: "PreToolUse",
    hook_command: "sh guard.sh",
    tool_name: "terminal",
    success: false,
    blocked: true,
    exit_code: 2,
    stderr: "no such thing\n",
    reason: "no such thing",
    action_id: action.id,
    hook_input: {
      tool_name: "terminal",
      tool_input: { command: "echo forbidden", is_input: false, reset: false },
    },
  });
  expect(all.find(({ kind }) => kind === "UserRejectObservation")).toMatchObject({
    rejection_source: "hook",
    rejection_reason: "no such thing",
    action_id: action.id,
  });
  expect(prePassed).toMatchObject({ blocked: false, success: true, exit_code: 0 });
  expect(post).toMatchObject({ hook_event_type: "PostToolUse", additional_context: "Mind the gap." });
  const result = all.find(({ kind }) => kind === "ObservationEvent")!;
  expect(result.observation.content[0].text).toContain(`fine\nPreToolUse terminal ${id}`);
  expect(result.extended_content[0].text).toContain("Mind the gap.");
  expect(seen(1)).toContain("no such thing");
  expect(seen(2)).toContain("Mind the gap.");
  const input = JSON.parse(await bash(`cat /workspace/p${folders}/after.json`));
  expect(input).toMatchObject({
    event_type: "PostToolUse",
    tool_name: "finish",
    session_id: id,
    working_dir: `/workspace/p${folders}`,
  });
  const info = (await agent.call("GET", `/api/conversations/${id}`)).body;
  expect(info.blocked_actions).toEqual({ [action.id]: "no such thing" });
});

test("the model never reads a blocked message, and reads the context that a hook adds to another", async () => {
  const check = `case $(cat) in *password*) echo '{"decision":"deny","reason":"Secrets stay here."}';; *) echo '{"additionalContext":"Today is Friday."}';; esac`;
  const hook_config = { user_prompt_submit: [command(check)], session_start: [command("echo started")] };
  const id = await start("my password is hunter2", { hook_config });
  let all = await waitForEnd(id);
  expect(models.requests.length).toBe(first);
  const message = all.find(({ kind }) => kind === "MessageEvent")!;
  expect(hooksOf(all)).toMatchObject([
    { hook_event_type: "SessionStart", stdout: "started\n", success: true },
    {
      hook_event_type: "UserPromptSubmit",
      blocked: true,
      reason: "Secrets stay here.",
      message_id: message.id,
    },
  ]);
  await say(id, "What day is it?");
  await until(() => models.requests.length > first);
  all = await waitForEnd(id);
  expect(seen(0)).not.toContain("hunter2");
  expect(seen(0)).toContain("What day is it?");
  expect(seen(0)).toContain("Today is Friday.");
  expect(hooksOf(all).map(({ hook_event_type: type }) => type)).toEqual([
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptSubmit",
  ]);
  expect((await agent.call("GET", `/api/conversations/${id}`)).body.blocked_messages).toEqual({
    [message.id]: "Secrets stay here.",
  });
});

test("a Stop hook makes the agent continue before the end is announced, a limited number of times", async () => {
  const onceMore = `[ -e done ] && exit 0; touch done; echo "Run the tests first." >&2; exit 2`;
  const id = await start("Work", {
    hook_config: { stop: [command(onceMore)] },
    replies: [reply.text("All done."), finish("Tested.")],
  });
  const all = await waitForEnd(id);
  expect(
    all.filter(({ kind }) => kind !== "SystemPromptEvent").map(({ kind, source }) => `${kind} ${source}`),
  ).toEqual([
    "MessageEvent user",
    "MessageEvent agent",
    "HookExecutionEvent hook",
    "MessageEvent environment",
    "ActionEvent agent",
    "ObservationEvent environment",
    "HookExecutionEvent hook",
  ]);
  expect(seen(1)).toContain("Run the tests first.");
  const never = await start("Work", {
    hook_config: { hooks: { Stop: [command("exit 2")] } },
    replies: Array.from({ length: 20 }, (_, i) => finish(`Done ${i}`)),
  });
  const stubborn = await waitForEnd(never);
  expect(hooksOf(stubborn).length).toBe(11);
  expect(JSON.stringify(stubborn.at(-1))).toContain("the turn ends here");
});

test("a model may decide, its call is counted, and an unusable answer allows", async () => {
  const hook = {
    matcher: "terminal",
    hooks: [{ type: "prompt", command: "x", prompt: "Is this safe? $ARGUMENTS" }],
  };
  const id = await start("Work", {
    hook_config: { pre_tool_use: [hook] },
    replies: [
      reply.toolCalls([terminal("echo one")]),
      reply.text('I think: {"decision": "deny", "reason": "Never say one."}'),
      reply.toolCalls([terminal("echo two")]),
      reply.text("Whatever."),
    ],
  });
  const all = await waitForEnd(id);
  expect(hooksOf(all)).toMatchObject([
    { blocked: true, reason: "Never say one.", exit_code: 0, hook_command: "Is this safe? $ARGUMENTS" },
    { blocked: false, success: false, exit_code: 1, error: expect.stringContaining("no decision") },
  ]);
  expect(seen(1)).toContain("Is this safe?");
  expect(seen(1)).toContain("echo one");
  expect(all.filter(({ kind }) => kind === "ObservationEvent")[0]!.observation.content[0].text).toBe("two\n");
  const { stats } = (await agent.call("GET", `/api/conversations/${id}`)).body;
  expect(Object.keys(stats.usage_to_metrics)).toEqual(expect.arrayContaining(["agent", "prompt-hook:1"]));
});

test("an agent may inspect the project before it decides; without a decision within its limits it allows, and its event reports this", async () => {
  const hook = (prompt: string, timeout = 30) => ({
    matcher: "terminal",
    hooks: [{ type: "agent", prompt, timeout }],
  });
  const call = (name: string, args: object) => ({ name, arguments: args });
  const id = await start("Work", {
    files: { "rules.md": "Nobody may say one." },
    hook_config: { pre_tool_use: [hook("Do the project's rules allow it?")] },
    replies: [
      reply.toolCalls([terminal("echo one")]),
      reply.toolCalls([
        call("glob", { pattern: "**/*.md" }),
        call("file_editor", { command: "create", path: "/tmp/x", file_text: "x" }),
      ]),
      reply.toolCalls([
        call("file_editor", { command: "view", path: `/workspace/p${folders + 1}/rules.md` }),
        call("terminal", { command: "id" }),
      ]),
      reply.text('{"decision": "deny", "reason": "rules.md forbids it."}'),
      reply.toolCalls([terminal("ls /tmp/x; echo two")]),
      ...Array.from({ length: 15 }, () => reply.toolCalls([call("glob", { pattern: "*" })])),
    ],
  });
  const all = await waitForEnd(id);
  expect(hooksOf(all)).toMatchObject([
    {
      blocked: true,
      reason: "rules.md forbids it.",
      exit_code: 0,
      hook_command: "Do the project's rules allow it?",
    },
    { blocked: false, success: false, exit_code: 1, error: expect.stringContaining("in each of 15 answers") },
  ]);
  expect(models.requests[first + 1]!.tools.sort()).toEqual(["file_editor", "glob", "grep"]);
  const results = (index: number) =>
    models.requests[first + index]!.messages.filter(({ role }) => role === "tool").map(({ text }) => text);
  expect(results(2)[0]).toContain("rules.md");
  expect(results(3)[2]).toContain("Nobody may say one.");
  expect(results(3)[3]).toContain("Unknown tool 'terminal'");
  expect(all.find(({ kind }) => kind === "ObservationEvent")!.observation.content[0].text).toContain(
    "cannot access '/tmp/x'",
  );
  const { stats } = (await agent.call("GET", `/api/conversations/${id}`)).body;
  expect(stats.usage_to_metrics["agent-hook:1"]).toBeDefined();

  const slow = await start("Work", {
    hook_config: { pre_tool_use: [hook("Is it fine?", 1)] },
    replies: [reply.toolCalls([terminal("echo three")]), reply.hang()],
  });
  expect(hooksOf(await waitForEnd(slow))).toMatchObject([
    { blocked: false, success: false, error: expect.stringContaining("longer than 1 s.") },
  ]);
});

test("hooks after a call that hang, flood, die, print nonsense or cannot start are reported and block nothing", async () => {
  const hooks = [
    "sleep 60 & sleep 60",
    "head -c 3000000 /dev/zero | tr '\\\\0' x; head -c 3000000 /dev/zero >&2",
    "printf '\\\\377\\\\376 {\"decision\":'; exit 0",
    "kill -9 $$",
    "exit 7",
    "/no/such/program",
  ].map((text) => ({ command: text, timeout: 1 }));
  const slow = { matcher: "terminal", hooks: [{ command: "sleep 2; touch async-done", async: true }] };
  const id = await start("Work", {
    hook_config: {
      pre_tool_use: [slow, { matcher: "(a+)+$", hooks: [{ command: "touch never" }] }],
      post_tool_use: [{ matcher: "terminal", hooks }],
    },
    replies: [reply.toolCalls([terminal("echo survived")])],
  });
  const all = await waitForEnd(id);
  const [background, hang, flood, nonsense, killed, failed, missing] = hooksOf(all);
  expect(background).toMatchObject({ success: true, stdout: "" });
  expect(hang).toMatchObject({
    success: false,
    blocked: false,
    exit_code: 124,
    error: expect.stringContaining("longer than 1 s"),
  });
  expect(flood!.stdout.length).toBe(50_000);
  expect(flood!.stderr.length).toBe(50_000);
  expect(nonsense).toMatchObject({ success: true, blocked: false });
  expect(killed).toMatchObject({ exit_code: 137, blocked: false });
  expect(failed).toMatchObject({ exit_code: 7, success: false, blocked: false });
  expect(missing).toMatchObject({ exit_code: 127, blocked: false });
  expect(all.filter(({ kind }) => kind === "ObservationEvent")[0]!.observation.content[0].text).toBe(
    "survived\n",
  );
  await until(async () => (await bash(`ls /workspace/p${folders}`)).includes("async-done"));
  expect(await bash(`pgrep sleep || :; ls /workspace/p${folders}`)).toBe("async-done\n");
});

test("a guard that is killed, cannot run or does not end blocks the call", async () => {
  const guard = `case $(cat) in *one*) kill -9 $$;; *two*) /no/such/program;; *three*) sleep 60;; esac`;
  const calls = ["one", "two", "three", "four"].map((word) => reply.toolCalls([terminal(`echo ${word}`)]));
  const id = await start("Work", {
    hook_config: { pre_tool_use: [{ matcher: "terminal", hooks: [{ command: guard, timeout: 1 }] }] },
    replies: calls,
  });
  const all = await waitForEnd(id);
  expect(hooksOf(all)).toMatchObject([
    { blocked: true, exit_code: 137, reason: expect.stringContaining("killed by signal 9") },
    { blocked: true, exit_code: 127, reason: expect.stringContaining("could not be run") },
    { blocked: true, exit_code: 124, reason: expect.stringContaining("longer than 1 s") },
    { blocked: false, exit_code: 0 },
  ]);
  expect(all.filter(({ kind }) => kind === "UserRejectObservation")).toHaveLength(3);
});

test("a broken or too long hooks file is reported once, and the run continues", async () => {
  const write = ["echo '{ not json'", "echo", "head -c 10000000 /dev/zero | tr '\\0' '['"];
  for (const [index, text] of write.entries()) {
    const folder = `/workspace/p${folders + 1}/.openhands`;
    await bash(`mkdir -p ${folder} && ${text} >${folder}/hooks.json`);
    const id = await start("Work", {
      replies: [
        reply.toolCalls([terminal("echo on")]),
        reply.toolCalls([editor({ command: "view", path: "/workspace" })]),
      ],
    });
    const all = await waitForEnd(id);
    const notes = all.filter(({ kind, source }) => kind === "MessageEvent" && source === "environment");
    const wrong =
      index === 2
        ? "is longer than 512 KiB"
        : index === 0
          ? "is not JSON (line 1, column 3)"
          : "is not JSON (line 2, column 1, where its end is missing)";
    expect(notes.map(({ llm_message }) => llm_message.content[0].text)).toEqual([
      expect.stringContaining(wrong),
    ]);
    expect(hooksOf(all)).toEqual([]);
    expect(seen(2)).toContain(wrong);
  }
});

test("hook output is masked, and an interrupt ends a running hook", async () => {
  const secrets = { API_TOKEN: "tok-0123456789-very-secret" };
  const hooks = [{ command: "echo tok-0123456789-very-secret" }, { command: "sleep 50", timeout: 60 }];
  const hook_config = { pre_tool_use: [{ matcher: "terminal", hooks }] };
  const id = await start("Work", {
    hook_config,
    secrets,
    replies: [reply.toolCalls([terminal("touch ran")])],
  });
  await until(async () => hooksOf(await events(id)).length > 0);
  await until(async () => (await bash("pgrep -x sleep || :")) !== "");
  await agent.call("POST", `/api/conversations/${id}/interrupt`);
  const all = await waitForEnd(id, "paused");
  expect(JSON.stringify(all)).not.toContain("very-secret");
  expect(hooksOf(all)).toMatchObject([{ stdout: "<secret-hidden>\n" }]);
  expect(all.at(-1)!.kind).toBe("InterruptEvent");
  expect(await bash(`pgrep -x sleep || ls /workspace/p${folders}`)).toBe("");
});

test("a session begins once and ends with its conversation", async () => {
  const folder = `/workspace/p${folders + 1}`;
  const hook_config = {
    session_start: [command("echo start >>log")],
    session_end: [command("echo end >>log")],
  };
  const id = await start("Work", { hook_config, files: { log: "log" } });
  await waitForEnd(id);
  await say(id, "More");
  await until(() => models.requests.length > first + 1);
  await waitForEnd(id);
  await agent.call("DELETE", `/api/conversations/${id}`);
  expect(await bash(`cat ${folder}/log`)).toBe("log\nstart\nend\n");
});
