import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  type Reply,
  reply,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import type { RecordedCall, RecordingHeader, RecordingLine } from "@sandpiper/wire";
import { RecordingLine as LineSchema, parseId } from "@sandpiper/wire";
import { Compile } from "typebox/schema";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { replayFile } from "../src/cli/replay.ts";
import { sdkRequest, startAgentServer } from "./support/agent-server.ts";
import { Command } from "./support/command.ts";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";

let server: TestPlatform;
let models: ModelServer;
let replies: (Reply | Promise<Reply>)[] = [];
let folder = "";
const validator = Compile(LineSchema);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  models = await startModelServer(() => replies.shift() ?? reply.text("The script has ended."));
  server = await startTestPlatform();
  const settings = {
    llm_model: "openai/scripted",
    llm_api_key: "sk-planted-secret",
    llm_base_url: models.url,
  };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
  await rm(folder, { recursive: true, force: true });
});

const status = (id: string, wanted: string) =>
  until(
    async () =>
      (await server.call("GET", `/api/conversations/${id}`)).body.execution_status === wanted || undefined,
  );

async function recording(
  id: string,
): Promise<{ header: RecordingHeader; lines: RecordingLine[]; calls: RecordedCall[]; text: string }> {
  const response = await fetch(`${server.url}/api/v1/app-conversations/${id}/recording`, {
    headers: { "X-Session-API-Key": server.key },
  });
  expect(response.headers.get("content-type")).toBe("application/x-ndjson");
  const text = await response.text();
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as RecordingLine);
  for (const line of lines) expect([line.line, validator.Errors(line)[1]]).toEqual([line.line, []]);
  const calls = lines.filter((line): line is RecordedCall => line.line === "call");
  return { header: lines[0] as RecordingHeader, lines, calls, text };
}

/** The texts of a call's messages, as a provider sees them. */
function prompt(lines: RecordingLine[], call: RecordedCall): string[] {
  const messages = lines.filter((line) => line.line === "message").map(({ message }) => message as Json);
  return call.messages
    .flatMap(([first, count]) => messages.slice(first, first + count))
    .map((message) => message.text ?? message.content.map((part: Json) => part.text).join("\n"));
}

test("a conversation is exported with its model traffic: each prompt as it was sent, whatever arrived during the call", async () => {
  const asked = models.requests.length;
  let answer: (given: Reply) => void = () => {};
  const held = new Promise<Reply>((resolve) => {
    answer = resolve;
  });
  replies = [held, reply.toolCalls([terminal("false"), terminal("echo two")]), finish("Done.")];
  const { id } = await startConversation(server.call, "Do something");
  await until(() => models.requests.length > asked || undefined);
  const say = (text: string) =>
    server.call("POST", `/api/conversations/${id}/events`, {
      role: "user",
      content: [{ type: "text", text }],
      run: true,
    });
  await say("And this");
  answer(reply.toolCalls([terminal("echo one")]));
  await status(id, "finished");
  replies = [reply.text("I said sk-planted-secret"), reply.error(400)];
  await say("Again");
  await status(id, "finished");
  await say("Once more");
  await status(id, "error");

  const { header, lines, calls, text } = await recording(id);
  const seen = models.requests.slice(asked);
  expect(
    calls.map(({ usage_id, exact, response, failure }) => [
      usage_id,
      exact,
      response?.finishReason ?? failure?.code,
    ]),
  ).toEqual([
    ["agent", true, "tool-calls"],
    ["agent", true, "tool-calls"],
    ["agent", true, "tool-calls"],
    ["agent", true, "stop"],
    ["agent", true, "ModelFailed"],
  ]);
  for (const [index, call] of calls.entries())
    expect(prompt(lines, call)).toEqual(
      seen[index]!.messages.map((message) => message.text.replace("sk-planted-secret", "<secret-hidden>")),
    );
  expect(lines.filter(({ line }) => line === "tools")).toHaveLength(1);
  expect(text).not.toContain("sk-planted-secret");
  expect(header).toMatchObject({ version: 1, needs: [], conversation: { id: parseId(id), spec_id: "host" } });
  expect(lines.at(-1)).toEqual({
    line: "end",
    events: lines.filter(({ line }) => line === "event").length,
    calls: 5,
  });
});

test("a recording is replayed in its own sandbox with the same result", async () => {
  const asked = models.requests.length;
  let answer: (given: Reply) => void = () => {};
  const held = new Promise<Reply>((resolve) => {
    answer = resolve;
  });
  replies = [
    held,
    reply.toolCalls([terminal("false"), terminal("hostname; date; echo two > a.txt; ls -la")]),
    finish("Done."),
  ];
  const { id } = await startConversation(server.call, "Do something");
  await until(() => models.requests.length > asked || undefined);
  await server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text: "And this" }],
    run: true,
  });
  answer(reply.toolCalls([terminal("echo one")]));
  await status(id, "finished");
  const { text } = await recording(id);
  const file = join(folder, "same.jsonl");
  await writeFile(file, text);
  const report = await replayFile(file, {});
  expect(report.divergences).toEqual([]);
  expect(report.calls).toEqual([{ usage_id: "agent", recorded: 3, replayed: 3 }]);
});

test("notes with the first message are replayed unchanged, and later events are not part of the recording", async () => {
  const mcpConfig = (servers: object) =>
    server.call("POST", "/api/v1/settings", { agent_settings_diff: { mcp_config: servers } });
  await server.call("POST", "/api/v1/secrets", { name: "SOME_TOKEN", value: "a-value-of-a-token" });
  await mcpConfig({ nowhere: { url: "http://127.0.0.1:9/mcp" } });
  replies = [reply.toolCalls([terminal("echo one")]), finish("Done.")];
  const first = await startConversation(server.call, "Do something");
  await status(first.id, "finished");
  await mcpConfig({});
  await server.call("POST", "/api/v1/secrets", { name: "SOME_TOKEN_OF_LATER", value: "another-value" });
  replies = [finish("Done.")];
  const second = await startConversation(server.call, "Do more", { sandbox_id: first.sandboxId });
  await status(second.id, "finished");
  const { header, lines, calls, text } = await recording(first.id);
  expect([header.needs, (await recording(second.id)).header.needs]).toEqual([
    [],
    ["what another conversation did in the same sandbox"],
  ]);
  expect(prompt(lines, calls[0]!)).toEqual([
    "Do something",
    expect.stringMatching(/^The MCP server nowhere /),
  ]);
  const file = join(folder, "notes.jsonl");
  await writeFile(file, text);
  expect((await replayFile(file, {})).divergences).toEqual([]);
});

/** A conversation that has finished, as a file. */
async function recorded(
  name: string,
  given: Reply[],
  extra: Json = {},
): Promise<{ id: string; file: string; text: string }> {
  replies = given;
  const { id } = await startConversation(server.call, "Do something", extra);
  await status(id, "finished");
  const { text } = await recording(id);
  const file = join(folder, name);
  await writeFile(file, text);
  return { id, file, text };
}

test("a replay reports differences: a result, a missing call, a prompt, a tool, and the end", async () => {
  const script = [
    reply.toolCalls([terminal("cat note.txt || echo none")]),
    reply.toolCalls([terminal("echo two")]),
    finish("Done."),
  ];
  const { file, text } = await recorded("other.jsonl", script);
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  lines.find(({ line }) => line === "system").blocks[0] = "You are somebody else.";
  lines.find(({ line }) => line === "tools").tools.pop();
  // The second answer becomes the third, which ends the run too early.
  lines.filter(({ line }) => line === "call")[1].response = lines.filter(
    ({ line }) => line === "call",
  )[2].response;
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  await writeFile(join(folder, "note.txt"), "a note");
  const { divergences } = await replayFile(file, { dir: folder });
  expect(divergences.map(({ kind, at }) => [kind, at])).toEqual([
    ["system prompt", "agent call 1"],
    ["tools", "agent call 1"],
    ["tool result", "agent call 2"],
    ["missing call", "the end"],
    ["answer", "the end"],
    ["order of messages", "the end"],
  ]);
  expect(divergences[2]).toMatchObject({
    what: expect.stringMatching(/^result of terminal/),
    recorded: expect.stringMatching(/none/),
    replayed: expect.stringMatching(/^a note/),
  });
});

test("a replay asks no address that its recording names", async () => {
  const { text } = await recorded("hostile.jsonl", [finish("Done.")]);
  let asked = 0;
  const trap = createServer((_request, response) => {
    asked++;
    response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await once(trap, "listening");
  const { port } = trap.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/mcp`;
  const [first = "", ...rest] = text.split("\n");
  const header = JSON.parse(first);
  const { conversation } = header;
  conversation.settings = {
    ...conversation.settings,
    registered_marketplaces: [{ name: "a", source: url, auto_load: true }],
    sandbox_base_container_image: `127.0.0.1:${port}/image:latest`,
    agent_settings_diff: { ...conversation.settings.agent_settings_diff, mcp_config: { settings: { url } } },
  };
  const skill = { name: "s", type: "repo", content: "x", triggers: [], source: "project", description: null };
  conversation.context = {
    ...conversation.context,
    mcpServers: { plugin: { url } },
    skills: [{ ...skill, location: null, mcpServers: { skill: { url } } }],
  };
  const file = join(folder, "hostile.jsonl");
  await writeFile(file, [JSON.stringify(header), ...rest].join("\n"));
  vi.stubEnv("SANDPIPER_OUTBOUND_PRIVATE", "127.0.0.0/8");
  try {
    expect((await replayFile(file, {})).calls).toEqual([{ usage_id: "agent", recorded: 1, replayed: 1 }]);
    expect(asked).toBe(0);
  } finally {
    vi.unstubAllEnvs();
    trap.close();
  }
});

test("forks, cloned repositories and older conversations are reported as incomplete recordings", async () => {
  const { id, file, text } = await recorded("lacks.jsonl", [finish("Done.")]);
  const fork = await server.call("POST", `/api/conversations/${id}/fork`, {});
  const { header, calls } = await recording(fork.body.id);
  expect(header.needs[0]).toMatch(/before it was forked/);
  expect(calls).toEqual([]);
  const lines = text.trimEnd().split("\n");
  await writeFile(
    file,
    `${[JSON.stringify({ ...JSON.parse(lines[0]!), needs: ["a clone of a/b"] }), ...lines.slice(1)].join("\n")}\n`,
  );
  await expect(replayFile(file, {})).rejects.toThrow(
    "It cannot be replayed from nothing: it needs a clone of a/b. Give the files with --dir.",
  );
  const events = lines.filter((line) => /^.."?line":"(recording|event)"/.test(line));
  await writeFile(
    file,
    `${[...events, JSON.stringify({ line: "end", events: events.length - 1, calls: 0 })].join("\n")}\n`,
  );
  await expect(replayFile(file, {})).rejects.toThrow("It has no model call of the agent");
  const broken = text.replaceAll(/"llm_message":\{"role":"user".*?\}\]\},/g, "");
  expect(broken).not.toBe(text);
  await writeFile(file, broken);
  await expect(replayFile(file, {})).rejects.toThrow("Its events cannot be read");
});

test("side questions and titles are part of the traffic", async () => {
  const { id } = await recorded("beside.jsonl", [finish("Done.")]);
  replies = [reply.text("Forty-two.")];
  expect(
    (await server.call("POST", `/api/conversations/${id}/ask_agent`, { question: "What is it?" })).body
      .response,
  ).toBe("Forty-two.");
  const { calls, lines } = await recording(id);
  expect(calls.map(({ usage_id, exact }) => [usage_id, exact])).toEqual([
    ["agent", true],
    ["ask-agent", false],
  ]);
  expect(prompt(lines, calls[1]!)).toEqual(["What is it?"]);
});

test("the command line exports and replays, and its exit code shows whether something differs", async () => {
  const { id } = await recorded("cli.jsonl", [
    reply.toolCalls([terminal("echo one; date")]),
    finish("Done."),
  ]);
  const env = {
    SANDPIPER_URL: server.url,
    SANDPIPER_API_KEY: server.key,
    SANDPIPER_DATA: join(folder, "data"),
  };
  const file = join(folder, "exported.jsonl");
  const exported = new Command(["export", id, "--output", file], env);
  expect(await exported.exit, exported.stderr).toBe(0);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  const text = await readFile(file, "utf8");
  const other = join(folder, "other-answer.jsonl");
  await writeFile(other, text.replaceAll("one\\n", "eins\\n"));
  const cut = join(folder, "cut.jsonl");
  await writeFile(cut, text.slice(0, text.lastIndexOf("\n", text.length - 2)));
  const commands = [
    ["replay", file],
    ["replay", other, "--json"],
    ["replay", cut],
  ].map((args) => new Command(args, env));
  const [same, differs, unusable] = commands as [Command, Command, Command];
  expect(await Promise.all(commands.map(({ exit }) => exit))).toEqual([0, 1, 2]);
  expect(same.stdout).toMatch(/2 of 2 agent calls\.\nNothing differs\.\n$/);
  expect(JSON.parse(differs.stdout).divergences[0]).toMatchObject({
    kind: "tool result",
    at: "agent call 2",
  });
  expect(unusable.stderr).toBe(
    `sandpiper: ${cut} cannot be replayed. It is cut off: export the conversation again.\n`,
  );
});

test("a client's agent is replayed unchanged, with its tools, and the recording contains none of its secrets", async () => {
  const agent = await startAgentServer(server);
  const client_tools = [
    {
      name: "lookup",
      description: "Looks up",
      parameters: { type: "object", properties: { word: { type: "string" } } },
    },
  ];
  const request = sdkRequest(models.url, {
    client_tools,
    secrets: { DEPLOY_KEY: { kind: "StaticSecret", value: "very-secret-value" } },
  });
  request.confirmation_policy = { kind: "AlwaysConfirm" };
  const { body } = await agent.call("POST", "/api/conversations", request);
  const lookup = { name: "lookup", arguments: { word: "sandpiper" } };
  replies = [reply.toolCalls([lookup, terminal("echo $DEPLOY_KEY")]), finish("Done.")];
  const say = { role: "user", content: [{ type: "text", text: "Look it up" }], run: true };
  await agent.call("POST", `/api/conversations/${body.id}/events`, say);
  await status(body.id, "waiting_for_confirmation");
  await agent.call("POST", `/api/conversations/${body.id}/run`);
  await status(body.id, "finished");
  const { text } = await recording(body.id);
  expect(text).not.toMatch(/very-secret-value|sk-own-model-key/);
  const file = join(folder, "own.jsonl");
  await writeFile(file, text);
  const report = await replayFile(file, {});
  expect(report.divergences).toEqual([]);
  expect(report.not_run).toEqual({ lookup: 1 });
});
