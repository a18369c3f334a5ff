import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { textContent } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ModelMessage, ModelTool } from "../model.ts";
import { DemoModel } from "./demo-model.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "demo-model-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Result {
  text: string;
  isError?: boolean;
}
interface Call {
  tool: string;
  args: Record<string, unknown>;
  result: Result;
}
interface Conversation {
  calls: Call[];
  messages: ModelMessage[];
  /** What finish said. */
  end: string;
}

/** Replaces the result of a call: the real one is only made when `run` is called. */
type Fault = (call: { tool: string; args: Record<string, unknown>; index: number }, run: () => Result) => Result | undefined;

/** A small real toolbox over the folder, with the result texts that the platform's tools give. */
class Toolbox {
  readonly #history = new Map<string, string[]>();
  #cwd = folder;
  #isBusy = false;
  readonly #timeout: number;

  /** `timeout` in ms stands in for the seconds that a command asks for. */
  constructor(timeout: number) {
    this.#timeout = timeout;
  }

  run(tool: string, args: Record<string, unknown>): Result {
    if (tool === "terminal") return this.#terminal(args);
    if (tool === "file_editor") return this.#edit(args);
    return { text: "Noted." };
  }

  #terminal(args: Record<string, unknown>): Result {
    if (args.is_input) {
      this.#isBusy = false;
      return { text: "^C\n[The command completed with exit code 130.]" };
    }
    if (this.#isBusy) return { text: "[The command was NOT run: the earlier command is still running.]", isError: true };
    const note = join(folder, ".cwd");
    const script = `exec 2>&1; ${args.command}\ncode=$?; pwd > '${note}'; exit $code`;
    // timeout(1) ends the whole process group, endless grandchildren included.
    const { stdout, status } = spawnSync("timeout", ["-s", "KILL", `${this.#timeout / 1000}`, "sh", "-c", script], {
      cwd: this.#cwd,
      env: { PATH: process.env.PATH, HOME: folder },
      encoding: "utf8",
    });
    this.#isBusy = status === null || status === 137;
    if (this.#isBusy) return { text: `${stdout}\n[The command is still running after 60 seconds, its timeout.]` };
    this.#cwd = readFileSync(note, "utf8").trim();
    const facts = `[Current working directory: ${this.#cwd}]\n[Exit code: ${status}]`;
    return { text: `${stdout}\n[The command completed with exit code ${status}.]\n${facts}` };
  }

  #edit(args: Record<string, unknown>): Result {
    const path = String(args.path);
    if (!existsSync(path)) return { text: `Invalid path: ${path} does not exist.`, isError: true };
    const text = readFileSync(path, "utf8");
    const history = this.#history.get(path) ?? [];
    this.#history.set(path, history);
    if (args.command === "view") {
      const lines = text.split("\n").map((line, index) => `${String(index + 1).padStart(6)}\t${line}`);
      return { text: `Here is ${path}:\n${lines.join("\n")}` };
    }
    if (args.command === "undo_edit") {
      const before = history.pop();
      if (before === undefined) return { text: `No edit history for ${path}.`, isError: true };
      writeFileSync(path, before);
      return { text: "Undone." };
    }
    const parts = text.split(String(args.old_str));
    if (parts.length !== 2) return { text: `old_str occurs ${parts.length - 1} times.`, isError: true };
    history.push(text);
    writeFileSync(path, parts.join(String(args.new_str)));
    return { text: "Edited." };
  }
}

const tools: ModelTool[] = ["terminal", "file_editor", "think", "task_tracker", "finish"].map((name) => ({
  name,
  description: name,
  parameters: { type: "object", properties: {} },
}));

async function converse(task: string, fault: Fault = () => undefined, timeout = 20_000): Promise<Conversation> {
  const model = new DemoModel("demo/repair");
  const toolbox = new Toolbox(timeout);
  const messages: ModelMessage[] = [{ role: "user", content: [textContent(task)] }];
  const calls: Call[] = [];
  while (calls.length < 150) {
    const { text, toolCalls, thinkingBlocks } = await model.complete({
      system: [],
      messages,
      tools,
      signal: new AbortController().signal,
    });
    messages.push({ role: "assistant", text, toolCalls, thinkingBlocks });
    if (toolCalls.length === 0) return { calls, messages, end: text };
    for (const call of toolCalls) {
      const args = JSON.parse(call.arguments) as Record<string, unknown>;
      const run = () => toolbox.run(call.name, args);
      const result = fault({ tool: call.name, args, index: calls.length }, run) ?? run();
      calls.push({ tool: call.name, args, result });
      messages.push({
        role: "tool",
        toolCallId: call.id,
        toolName: call.name,
        content: [textContent(result.text)],
        isError: result.isError === true,
      });
      if (call.name === "finish") return { calls, messages, end: String(args.message) };
    }
  }
  return expect.fail("the demo did not finish");
}

function write(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

const read = (path: string) => readFileSync(join(folder, path), "utf8");
const passes = (command: string) => spawnSync("sh", ["-c", command], { cwd: folder }).status === 0;

const demoProject = fileURLToPath(new URL("../../../demo/project", import.meta.url));

const shellProject = {
  "area.sh": "# Prints the area of a rectangle.\narea() {\n  echo $(($1 + $2))\n}\n",
  "test.sh": '. ./area.sh\n[ "$(area 3 4)" = 12 ] || { echo "FAIL area 3 4: expected 12, got $(area 3 4)"; exit 1; }\necho ok\n',
};

test("the demo project's test fails, and is repaired in fewer than 15 tool calls", async () => {
  cpSync(demoProject, folder, { recursive: true });
  execFileSync("git", ["init", "-q"], { cwd: folder });
  expect(passes("sh test.sh")).toBe(false);
  const { calls, end } = await converse("The test fails. Find out why and repair it.");
  expect(passes("sh test.sh")).toBe(true);
  expect(end).toContain("`sh test.sh` passes now");
  expect(calls.length).toBeLessThan(15);
  expect(new Set(calls.map((call) => call.tool))).toEqual(
    new Set(["terminal", "file_editor", "think", "task_tracker", "finish"]),
  );
});

test("a shell project with a wrong operator is repaired, and nothing else is changed", async () => {
  write(shellProject);
  const { end } = await converse("Make the test pass.");
  expect(read("area.sh")).toBe(shellProject["area.sh"].replace("$1 + $2", "$1 * $2"));
  expect(read("test.sh")).toBe(shellProject["test.sh"]);
  expect(end).toContain("became `echo $(($1 * $2))`");
});

test("a Python project with a swapped operator is repaired", async () => {
  write({
    "shop/__init__.py": "",
    "shop/price.py":
      "def total(prices):\n    result = 0\n    for price in prices:\n        result = result + price\n    return result\n\n\ndef discount(price, percent):\n    return price + price * percent / 100\n",
    "tests/test_price.py":
      "import unittest\nfrom shop.price import discount, total\n\n\nclass PriceTest(unittest.TestCase):\n    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n\n    def test_discount(self):\n        self.assertEqual(discount(200, 10), 180)\n\n\nif __name__ == '__main__':\n    unittest.main()\n",
  });
  const { end } = await converse("A test fails.", ({ args }) =>
    String(args.command).includes("pytest")
      ? { text: "/usr/bin/python3: No module named pytest\n[The command completed with exit code 1.]" }
      : undefined,
  );
  expect(end).toContain("passes now");
  expect(read("shop/price.py")).toContain("return price - price * percent / 100");
});

test("a JavaScript project that is off by one is repaired", async () => {
  write({
    "package.json": '{"name": "last", "type": "module", "scripts": {"test": "node --test"}}\n',
    "src/pages.js":
      "export function pageCount(items, size) {\n  return Math.ceil(items / size);\n}\n\nexport function lastIndex(items) {\n  return items.length - 2;\n}\n",
    "test/pages.test.js":
      'import assert from "node:assert/strict";\nimport { test } from "node:test";\nimport { lastIndex, pageCount } from "../src/pages.js";\n\ntest("pageCount rounds up", () => assert.equal(pageCount(5, 2), 3));\ntest("lastIndex of three items", () => assert.equal(lastIndex([1, 2, 3]), 2));\n',
  });
  const { end, calls } = await converse("`npm test` fails, please repair.", ({ args }, run) =>
    // npm is slow to start and not everywhere; what it would run is the script.
    args.command === "npm test" ? { text: "sh: npm: not found\n[The command completed with exit code 127.]" } : run(),
  );
  expect(end).toContain("`node --test` passes now");
  expect(read("src/pages.js")).toContain("items.length - 1");
  expect(calls.length).toBeLessThan(20);
});

test("a project in a folder below is found, and its tests run there", async () => {
  write(Object.fromEntries(Object.entries(shellProject).map(([name, text]) => [`code/area/${name}`, text])));
  const { end } = await converse("Make the test pass.");
  expect(end).toContain("`(cd code/area && sh test.sh)` passes now");
  expect(read("code/area/area.sh")).toContain("$1 * $2");
});

test("two bugs are repaired one after the other, keeping what helped", async () => {
  write({
    "units.sh": "minutes() {\n  echo $(($1 * 6))\n}\nhalf() {\n  echo $(($1 * 2))\n}\n",
    "test.sh":
      'failed=0\n. ./units.sh\ncheck() { got=$($1 $2); if [ "$got" = $3 ]; then echo "ok $1"; else echo "FAIL $1 $2: expected $3, got $got"; failed=1; fi; }\ncheck minutes 2 120\ncheck half 8 4\nexit $failed\n',
  });
  const { end } = await converse("Both tests fail.");
  expect(end).toContain("passes now");
  expect(end.match(/became/g)).toHaveLength(2);
  expect(read("units.sh")).toBe("minutes() {\n  echo $(($1 * 60))\n}\nhalf() {\n  echo $(($1 / 2))\n}\n");
});

test("a project whose tests pass is left alone", async () => {
  write({ ...shellProject, "area.sh": shellProject["area.sh"].replace("+", "*") });
  const { end, calls } = await converse("Make the test pass.");
  expect(end).toContain("passes already");
  expect(calls.some((call) => call.args.command === "str_replace")).toBe(false);
});

test("a hopeless project is given up honestly, with its files as they were", async () => {
  const files = {
    "greet.sh": '# Greets.\ngreet() {\n  echo "Hello $1" | head -n 1\n}\nlimit=10\n',
    "test.sh":
      '. ./greet.sh\n[ "$(greet Ada)" = "Bonjour, Ada!" ] && exit 0\necho "FAIL greet: expected Bonjour, got Hello"\nexit 1\n',
  };
  write(files);
  const { end } = await converse("Make the test pass.");
  expect(end).toMatch(/^I give up: the tests still fail\. I tried/);
  expect(end).toContain("The files are as they were.");
  expect(end).toContain("expected Bonjour, got Hello");
  expect(read("greet.sh")).toBe(files["greet.sh"]);
});

test("without any test it says what it is and what it saw, and changes nothing", async () => {
  write({ "notes.txt": "Buy milk.\n" });
  const { end, calls } = await converse("Write a poem about milk.");
  expect(end).toContain("I am a demo, not a language model");
  expect(end).toContain("notes.txt");
  expect(calls.map((call) => call.tool)).toEqual(["terminal", "finish"]);
});

test("an empty folder is no problem", async () => {
  expect((await converse("Hello?")).end).toContain("no files");
});

test("its first message says that it is a demo and no language model, and is streamed in pieces", async () => {
  const pieces: string[] = [];
  const response = await new DemoModel("demo").complete({
    system: [],
    messages: [{ role: "user", content: [textContent("Hi")] }],
    tools,
    signal: new AbortController().signal,
    onDelta: ({ content }) => pieces.push(content ?? ""),
  });
  expect(response.text).toContain("built-in demo, not a language model");
  expect(pieces.join("")).toBe(response.text);
  expect(pieces.length).toBeGreaterThan(3);
  expect(response).toMatchObject({ cost: 0, finishReason: "tool-calls", usage: { model: "demo" } });
  expect(response.usage.prompt_tokens).toBeGreaterThan(0);
});

test("without the tools that it needs it says so", async () => {
  const request = { system: [], messages: [], tools: [tools[0]!], signal: new AbortController().signal };
  expect(await new DemoModel("demo").complete(request)).toMatchObject({
    text: expect.stringContaining("file_editor, finish"),
    toolCalls: [],
  });
});

const interrupted: Result = { text: "This tool call was interrupted and its outcome is unknown.", isError: true };

test("an edit that was made although its result got lost is noticed and judged", async () => {
  write(shellProject);
  let isLost = false;
  const { end } = await converse("Make the test pass.", ({ args }, run) => {
    if (args.command !== "str_replace" || isLost) return undefined;
    isLost = true;
    run();
    return interrupted;
  });
  expect(end).toContain("passes now");
  expect(read("area.sh")).toContain("$1 * $2");
});

test("every call may fail once, at any place, and the repair still comes out right", async () => {
  for (let at = 0; at < 12; at++) {
    write(shellProject);
    const { end } = await converse("Make the test pass.", ({ index }) => (index === at ? interrupted : undefined));
    expect(read("area.sh"), `with call ${at} failing, and this end: ${end}`).toBe(
      shellProject["area.sh"].replace("$1 + $2", "$1 * $2"),
    );
  }
});

test("when the editor has lost its history, a change that did not help is put back by hand", async () => {
  const files = { ...shellProject, "area.sh": "area() {\n  [ $1 -lt 5 ] || return 1\n  echo $(($1 - $2))\n}\n" };
  write({ ...files, "test.sh": files["test.sh"].replace("expected 12", "expected wrong") });
  const { calls, end } = await converse("Make the test pass.", ({ args }) =>
    args.command === "undo_edit" ? { text: "No edit history.", isError: true } : undefined,
  );
  expect(calls.some((call) => call.args.command === "undo_edit")).toBe(true);
  expect(end).toContain("I give up");
  expect(read("area.sh")).toBe(files["area.sh"]);
});

test("a change that makes the tests run for ever is stopped and taken back", async () => {
  write({
    "count.sh": "count() {\n  i=0\n  while [ $i -lt 3 ]; do\n    i=$((i + 1))\n  done\n  echo $((i + 1))\n}\n",
    "test.sh": '. ./count.sh\ngot=$(count)\n[ "$got" = 2 ] && exit 0\necho "FAIL count: expected 2, got $got"\nexit 1\n',
  });
  const { calls, end } = await converse("Make the test pass.", undefined, 700);
  expect(calls.some((call) => call.result.text.includes("still running after"))).toBe(true);
  expect(calls.some((call) => call.args.command === "C-c" && call.args.is_input === true)).toBe(true);
  expect(end).toContain("passes now");
  expect(read("count.sh")).toContain("i=$((i + 1))");
  expect(passes("sh test.sh")).toBe(true);
});

test("a message after the end begins a new task", async () => {
  write(shellProject);
  const { messages } = await converse("Make the test pass.");
  messages.push({ role: "user", content: [textContent("And now?")] });
  const next = await new DemoModel("demo").complete({ system: [], messages, tools, signal: new AbortController().signal });
  expect(next.toolCalls[0]).toMatchObject({ name: "terminal" });
  expect(next.text).toContain("First I look around");
});
