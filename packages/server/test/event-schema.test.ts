import { toolRegistry } from "@sandpiper/agent/tools/registry";
import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { Event } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { eventProblems as problems } from "./support/event-schema.ts";
import {
  type Json,
  SocketClient,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

const coreTools = toolRegistry.ofAgent("default");

let server: TestPlatform;
let models: ModelServer;
let replies: (Reply | Promise<Reply>)[] = [];

beforeAll(async () => {
  models = await startModelServer(() => replies.shift() ?? reply.text("The script has ended."));
  server = await startTestPlatform();
  const settings = { llm_model: "anthropic/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  await server.call("POST", "/api/settings", settings);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

test("every event and frame of every kind that is sent fits the published schema", async () => {
  const file = "/workspace/project/a.txt";
  const thinking = { text: "Which tools are there?", signature: "c2lnbmF0dXJl" };
  const calls = [
    terminal("echo out; (exit 3)", { timeout: 5, summary: "Print and fail" }),
    terminal("head -c 200000 /dev/zero | tr '\\0' x"),
    editor({ command: "create", path: file, file_text: "one\n" }),
    editor({ command: "str_replace", path: file, old_str: "one", new_str: "two" }),
    editor({ command: "insert", path: file, insert_line: 1, new_str: "three" }),
    editor({ command: "view", path: file, view_range: [1, 2] }),
    editor({ command: "undo_edit", path: file }),
    editor({ command: "view", path: "/workspace/missing" }),
    {
      name: "task_tracker",
      arguments: { command: "plan", task_list: [{ title: "Work", status: "in_progress" }] },
    },
    { name: "task_tracker", arguments: { command: "view" } },
    { name: "think", arguments: { thought: "Hm." } },
    { name: "teleport", arguments: { to: "mars" } },
    { name: "terminal", arguments: '{"command": "ls' },
  ];
  replies = [
    reply.toolCalls(calls, { text: "I try all.", thinking }),
    reply.answer({ text: "" }),
    finish("Done."),
  ];
  const { id } = await startConversation(server.call, "Try everything");
  const socket = SocketClient.forConversation(server, id, "&resend_mode=all");
  const base = `/api/conversations/${id}`;
  const ended = (status: string) =>
    until(async () => (await server.call("GET", base)).body.execution_status === status || undefined);
  const say = (content: Json[]) => socket.socket.send(JSON.stringify({ role: "user", content }));
  await ended("finished");

  // An image from the GUI, a pause that comes while the model answers, and the rest of the turn.
  let answer: (given: Reply) => void = () => {};
  const held = new Promise<Reply>((resolve) => {
    answer = resolve;
  });
  replies = [held, reply.toolCalls([terminal("sleep 100")])];
  const asked = models.requests.length;
  say([
    { type: "text", text: "Look" },
    { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
  ]);
  await until(() => models.requests.length > asked || undefined);
  await server.call("POST", `${base}/pause`);
  answer(reply.toolCalls([terminal("true")], { thinking, redactedThinking: "ZGF0YQ==" }));
  await ended("paused");
  await server.call("POST", `${base}/run`);
  await socket.frame((frame) => frame.kind === "ActionEvent" && frame.action?.command === "sleep 100");
  await server.call("POST", `${base}/interrupt`);
  await ended("paused");

  replies = [reply.text("A summary.")];
  expect((await server.call("POST", `${base}/condense`)).status).toBe(200);

  // An action that the user refuses, a model that fails, and a frame that is no message.
  await server.call("POST", "/api/settings", { confirmation_mode: true, security_analyzer: "" });
  replies = [reply.toolCalls([terminal("touch /tmp/refused")])];
  say([{ type: "text", text: "Ask me" }]);
  await ended("waiting_for_confirmation");
  await server.call("POST", `${base}/events/respond_to_confirmation`, { accept: false, reason: "No." });
  await ended("idle");
  replies = [reply.error(401)];
  say([{ type: "text", text: "Fail" }]);
  await ended("error");
  say([{ type: "video" }]);
  await socket.frame(({ kind }) => kind === "ServerErrorEvent");
  const closing = (frame: Json) => frame.key === "full_state" && frame.value.execution_status === "error";
  await socket.frame(closing);

  const ids = (events: Json[]) => events.map((event) => event.id);
  const { items: stored } = (await server.call("GET", `${base}/events/search`)).body as { items: Json[] };
  const query = stored.map((event) => `id=${event.id}`).join("&");
  const batch: Json[] = (await server.call("GET", `/api/v1/conversation/${id}/events?${query}`)).body;
  expect(ids(batch)).toEqual(ids(stored));
  const resent = SocketClient.forConversation(server, id, "&resend_all=true");
  await resent.frame((frame) => frame.id === stored.at(-1)?.id);
  const hooked = await conversationWithHooks();
  for (const events of [stored, batch, socket.frames, resent.frames, hooked])
    expect(events.flatMap(problems)).toEqual([]);

  // Nothing that the server can write was left out: every kind, and every action and observation.
  const seen = [...socket.frames, ...stored, ...hooked];
  const kindsOf = (values: (Json | undefined)[]) =>
    [...new Set(values.flatMap((value) => (value ? [value.kind] : [])))].sort();
  const kinds = Event.anyOf.map(({ properties }) => properties.kind.const);
  expect(kindsOf(seen)).toEqual(kinds.sort());
  expect(kindsOf(seen.map(({ action }) => action))).toEqual(
    coreTools.map(({ actionKind }) => actionKind).sort(),
  );
  const observations = coreTools.map(({ definition }) => definition.observation_type).sort();
  expect(kindsOf(seen.map(({ observation }) => observation))).toEqual(observations);
  expect(seen.some((event) => event.reasoning_content)).toBe(true);
  socket.close();
  resent.close();
});

/** The events of a conversation with every kind of hook. */
async function conversationWithHooks(): Promise<Json[]> {
  const agent = await startAgentServer(server);
  const hooks = [{ hooks: [{ command: 'echo \'{"additionalContext":"more"}\'' }] }];
  const blocking = [{ hooks: [{ command: "echo no >&2; exit 2" }] }];
  const events = ["session_start", "user_prompt_submit", "post_tool_use"];
  const hook_config = {
    ...Object.fromEntries(events.map((name) => [name, hooks])),
    pre_tool_use: blocking,
    stop: hooks,
  };
  const initial_message = { role: "user", content: [{ type: "text", text: "Begin" }] };
  replies = [reply.toolCalls([terminal("true")]), reply.text("Done.")];
  const request = sdkRequest(models.url, { hook_config, initial_message });
  request.agent.llm.model = "anthropic/scripted";
  const { body } = await agent.call("POST", "/api/conversations", request);
  const get = () => agent.call("GET", `/api/conversations/${body.id}`);
  await until(async () => (await get()).body.execution_status === "finished" || undefined);
  return (await agent.call("GET", `/api/conversations/${body.id}/events/search`)).body.items;
}
