import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { textContent } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DemoModel } from "./demo-model.ts";
import type { ModelMessage, ModelTool } from "./model.ts";

const demoProject = fileURLToPath(new URL("../../server/demo/project", import.meta.url));
const signal = new AbortController().signal;
const tools: ModelTool[] = ["terminal", "file_editor", "think", "finish"].map((name) => ({
  name,
  description: name,
  parameters: { type: "object", properties: {} },
}));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "demo-model-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Result {
  text: string;
  isError?: boolean;
}

/** The tools over the folder, with results as the platform words them. */
function callTool(name: string, args: any): Result {
  if (name === "terminal") {
    const { stdout, status } = spawnSync("sh", ["-c", args.command], { cwd: folder, encoding: "utf8" });
    return { text: `${stdout}\n[The command completed with exit code ${status}.]` };
  }
  if (name !== "file_editor") return { text: "Noted." };
  const text = readFileSync(args.path, "utf8");
  if (args.command === "view") return { text };
  if (!text.includes(args.old_str)) return { text: "No match found for old_str.", isError: true };
  writeFileSync(
    args.path,
    text.replace(args.old_str, () => args.new_str),
  );
  return { text: "Edited." };
}

async function converse(fault: (index: number) => Result | undefined = () => undefined) {
  const messages: ModelMessage[] = [{ role: "user", content: [textContent("Repair the failing test.")] }];
  const names: string[] = [];
  while (names.length < 30) {
    const { text, toolCalls } = await new DemoModel("demo/repair").complete({
      system: [],
      messages,
      tools,
      signal,
    });
    messages.push({ role: "assistant", text, toolCalls, thinkingBlocks: [] });
    const call = toolCalls[0]!;
    const args = JSON.parse(call.arguments);
    const { text: result, isError = false } = fault(names.push(call.name) - 1) ?? callTool(call.name, args);
    const content = [textContent(result)];
    messages.push({ role: "tool", toolCallId: call.id, toolName: call.name, content, isError });
    if (call.name === "finish") return { messages, names, end: String(args.message) };
  }
  return expect.fail("the demo did not finish");
}

const testPasses = () => spawnSync("sh", ["test.sh"], { cwd: folder }).status === 0;
const copyProject = () => cpSync(demoProject, folder, { recursive: true });

test("the test of the demo project fails, and the demo repairs it", async () => {
  copyProject();
  expect(testPasses()).toBe(false);
  const { names, end } = await converse();
  expect(testPasses()).toBe(true);
  expect(end).toContain("`sh test.sh` passes now");
  expect(names.join(" ")).toBe("terminal terminal think file_editor file_editor terminal finish");
});

test("any one call may be interrupted", async () => {
  const interrupted = { text: "This tool call was interrupted.", isError: true };
  for (let at = 0; at < 6; at++) {
    copyProject();
    const { end } = await converse((index) => (index === at ? interrupted : undefined));
    expect(testPasses(), `call ${at} interrupted: ${end}`).toBe(true);
  }
});

test.each([
  ["passes already", "exit 0", /passes already/],
  [
    "fails after the repair, too,",
    "echo out of order; exit 1",
    /^I give up: `sh test\.sh` still fails .*out of order/s,
  ],
])("a test that %s is reported as such", async (_case, script, message) => {
  copyProject();
  writeFileSync(join(folder, "test.sh"), `${script}\n`);
  expect((await converse()).end).toMatch(message);
});

test("in another project it describes itself and the files that it found", async () => {
  writeFileSync(join(folder, "notes.txt"), "Buy milk.\n");
  const { names, end } = await converse();
  expect(end).toContain("I am a demo, not a language model");
  expect(end).toContain("notes.txt");
  expect(names).toEqual(["terminal", "finish"]);
});

test("its first message states that it is not a language model, and is streamed in chunks", async () => {
  const pieces: string[] = [];
  const messages: ModelMessage[] = [{ role: "user", content: [textContent("Hi")] }];
  const onDelta = ({ content }: { content?: string }) => pieces.push(content ?? "");
  const response = await new DemoModel("demo").complete({ system: [], messages, tools, signal, onDelta });
  expect(response.text).toContain("built-in demo, not a language model");
  expect(pieces.join("")).toBe(response.text);
  expect(pieces.length).toBeGreaterThan(3);
  expect(response).toMatchObject({ cost: 0, finishReason: "tool-calls", usage: { model: "demo" } });
});

test("without the tools that it needs it lists them", async () => {
  const request = { system: [], messages: [], tools: [tools[0]!], signal };
  expect(await new DemoModel("demo").complete(request)).toMatchObject({
    text: expect.stringContaining("file_editor, finish"),
    toolCalls: [],
  });
});

test("a message after the end starts a new task", async () => {
  copyProject();
  const { messages } = await converse();
  messages.push({ role: "user", content: [textContent("And now?")] });
  const next = await new DemoModel("demo").complete({ system: [], messages, tools, signal });
  expect(next.text).toContain("First I look around");
});
