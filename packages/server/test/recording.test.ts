import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RecordedCall, RecordingHeader, RecordingLine } from "@sandpiper/wire";
import { RecordingLine as LineSchema, parseId } from "@sandpiper/wire";
import { Compile } from "typebox/schema";
import { afterAll, beforeAll, expect, test } from "vitest";
import { replayFile } from "../src/cli/replay.ts";
import { type ModelServer, type Reply, reply, startModelServer } from "./support/model-server.ts";
import { type Json, startConversation, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
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
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-planted-secret", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
  await rm(folder, { recursive: true, force: true });
});

const status = (id: string, wanted: string) =>
  until(async () => (await server.call("GET", `/api/conversations/${id}`)).body.execution_status === wanted || undefined);

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

test("a conversation is exported with its model traffic: each prompt as the model was sent it, whatever came during a call", async () => {
  const asked = models.requests.length;
  let answer: (given: Reply) => void = () => {};
  const held = new Promise<Reply>((resolve) => {
    answer = resolve;
  });
  replies = [held, reply.toolCalls([terminal("false"), terminal("echo two")]), finish("Done.")];
  const { id } = await startConversation(server.call, "Do something");
  await until(() => models.requests.length > asked || undefined);
  const say = (text: string) =>
    server.call("POST", `/api/conversations/${id}/events`, { role: "user", content: [{ type: "text", text }], run: true });
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
    calls.map(({ usage_id, exact, response, failure }) => [usage_id, exact, response?.finishReason ?? failure?.code]),
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
  expect(lines.at(-1)).toEqual({ line: "end", events: lines.filter(({ line }) => line === "event").length, calls: 5 });
}, 60_000);

test("what was recorded is replayed in a sandbox of its own, and goes the same way", async () => {
  const asked = models.requests.length;
  let answer: (given: Reply) => void = () => {};
  const held = new Promise<Reply>((resolve) => {
    answer = resolve;
  });
  replies = [held, reply.toolCalls([terminal("false"), terminal("hostname; date; echo two > a.txt; ls -la")]), finish("Done.")];
  const { id } = await startConversation(server.call, "Do something");
  await until(() => models.requests.length > asked || undefined);
  await server.call("POST", `/api/conversations/${id}/events`, { role: "user", content: [{ type: "text", text: "And this" }], run: true });
  answer(reply.toolCalls([terminal("echo one")]));
  await status(id, "finished");
  const { text } = await recording(id);
  const file = join(folder, "same.jsonl");
  await writeFile(file, text);
  const report = await replayFile(file, {});
  expect(report.divergences).toEqual([]);
  expect(report.calls).toEqual([{ usage_id: "agent", recorded: 3, replayed: 3 }]);
}, 60_000);
