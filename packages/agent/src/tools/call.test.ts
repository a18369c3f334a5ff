import type { MessageToolCall } from "@sandpiper/wire";
import { Action } from "@sandpiper/wire";
import fc from "fast-check";
import { Check } from "typebox/value";
import { describe, expect, test } from "vitest";
import { modelTools, resolveToolCall } from "./call.ts";
import { toolRegistry } from "./registry.ts";

const coreTools = toolRegistry.ofAgent("default");

function call(name: string, args: unknown): MessageToolCall {
  return {
    id: "call_1",
    name,
    arguments: typeof args === "string" ? args : JSON.stringify(args),
    origin: "completion",
  };
}
const resolve = (name: string, args: unknown) => resolveToolCall(call(name, args), coreTools);
function action(name: string, args: unknown) {
  const resolved = resolve(name, args);
  if ("error" in resolved) throw new Error(resolved.error);
  return resolved.action;
}
function error(name: string, args: unknown): string {
  const resolved = resolve(name, args);
  return "error" in resolved ? resolved.error : "no error";
}
const terminal = (command: string) => ({ kind: "TerminalAction", command, is_input: false, reset: false });

test("a call becomes the tool's action with defaults, risk and summary", () => {
  expect(
    resolve("terminal", {
      security_risk: "LOW",
      summary: " Run the tests ",
      command: "npm test",
      timeout: 120,
    }),
  ).toMatchObject({
    tool: { name: "terminal" },
    action: { ...terminal("npm test"), timeout: 120 },
    securityRisk: "LOW",
    summary: "Run the tests",
  });
  expect(action("task_tracker", {})).toEqual({ kind: "TaskTrackerAction", command: "view", task_list: [] });
});

describe("variants of names are accepted", () => {
  test.each([
    ["bash", { command: "ls" }, "ls"],
    ["execute_bash", { command: "ls" }, "ls"],
    ["command", { command: "ls" }, "ls"],
    ["execute", { command: "ls" }, "ls"],
    ["Bash", { command: "ls" }, "ls"],
    ["terminal<|channel|>json", { command: "ls" }, "ls"],
    ["git", { command: "status" }, "git status"],
    ["git", { command: "git status" }, "git status"],
    ["reset", { command: "-w" }, "reset -w"],
    ["ls", { path: "/a b" }, "ls '/a b'"],
    ["pwd", {}, "pwd"],
    ["find", { command: ". -name x" }, "find . -name x"],
  ])("%s %j", (name, args, command) => expect(action(name, args)).toEqual(terminal(command)));

  test.each([
    ["str_replace", { path: "/a", old_str: "a", new_str: "b" }, "str_replace"],
    ["str_replace_editor", { command: "view", path: "/a" }, "view"],
    ["file_editor", { path: "/a", insert_line: 0, new_str: "b" }, "insert"],
    ["file_editor", { path: "/a", file_text: "b" }, "create"],
    ["file_editor", { command: null, path: "/a", file_text: "b" }, "create"],
  ])("%s %j", (name, args, command) =>
    expect(action(name, args)).toMatchObject({ kind: "FileEditorAction", command }),
  );

  test("an unknown tool is reported with the list of known tools", () => {
    expect(error("terminall", {})).toBe(
      "Unknown tool 'terminall'; known tools: terminal, file_editor, task_tracker, think, finish",
    );
    expect(error("", {})).toMatch(/Unknown tool ''/);
    expect(error("x".repeat(10_000), {}).length).toBeLessThan(300);
  });
});

describe("variants of arguments are accepted", () => {
  test.each([
    ["nulls dropped", "terminal", { command: "ls", timeout: null, is_input: null }, terminal("ls")],
    [
      "values in text",
      "terminal",
      { command: "ls", timeout: "2.5", is_input: "True" },
      { ...terminal("ls"), timeout: 2.5, is_input: true },
    ],
    ["text in pieces", "terminal", { command: ["echo ", "a"] }, terminal("echo a")],
    ["raw line breaks", "terminal", '{"command": "cat <<E\na\tb\nE"}', terminal("cat <<E\na\tb\nE")],
    [
      "a raw line break that a backslash continues",
      "terminal",
      '{"command": "ls \\\n-l"}',
      terminal("ls \\\n-l"),
    ],
    ["twice encoded", "terminal", JSON.stringify(JSON.stringify({ command: "ls" })), terminal("ls")],
    [
      "lists in text",
      "file_editor",
      { command: "view", path: "/a", view_range: "[1, 5]" },
      { kind: "FileEditorAction", command: "view", path: "/a", view_range: [1, 5] },
    ],
    [
      "objects in text",
      "task_tracker",
      { command: "plan", task_list: JSON.stringify([{ title: "a", notes: null, extra: 1 }]) },
      { kind: "TaskTrackerAction", command: "plan", task_list: [{ title: "a", notes: "", status: "todo" }] },
    ],
  ])("%s", (_, name, args, expected) => expect(action(name, args)).toEqual(expected));
});

describe("invalid arguments are reported by name, never by value", () => {
  test.each([
    ["broken JSON", "terminal", '{"command": "SECRET', /not a JSON object \(19 characters/],
    ["a list", "terminal", "[1]", /not a JSON object/],
    ["nothing", "terminal", "", /command is missing\. Parameters received: none\./],
    [
      "a wrong type",
      "terminal",
      { command: { SECRET: 1 } },
      /command must be string\. Parameters received: command\./,
    ],
    ["a number for text", "finish", { message: 5 }, /message must be string/],
    [
      "an unknown parameter",
      "think",
      { thought: "SECRET", mood: "SECRET" },
      /mood is not a parameter.*received: thought, mood\./,
    ],
    ["a wrong enum", "file_editor", { command: "SECRET", path: "/a" }, /command must be one of view, create/],
    [
      "a wrong risk",
      "terminal",
      { command: "ls", security_risk: "SECRET" },
      /security_risk must be one of UNKNOWN, LOW/,
    ],
    ["a negative timeout", "terminal", { command: "ls", timeout: -1 }, /timeout must be >= 0/],
    [
      "a wrong item",
      "task_tracker",
      { command: "plan", task_list: [{ title: "a", status: "SECRET" }] },
      /task_list\.0\.status must be one of todo/,
    ],
    [
      "an item without its title",
      "task_tracker",
      { command: "plan", task_list: [{}] },
      /task_list\.0\.title is missing/,
    ],
    [
      "a prototype",
      "terminal",
      '{"command": "ls", "__proto__": {"SECRET": 1}}',
      /__proto__ is not a parameter/,
    ],
  ])("%s", (_, name, args, expected) => {
    expect(error(name, args)).toMatch(expected);
    expect(error(name, args)).not.toContain("SECRET");
  });

  test("thousands of parameters and deep nesting cause a short error", () => {
    const many = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`p${index}`, index]));
    expect(error("terminal", many).length).toBeLessThan(2_000);
    expect(error("terminal", `{"command": ${"[".repeat(100_000)}`)).toMatch(/not a JSON object/);
    for (const levels of [70, 5_000, 200_000])
      expect(error("terminal", `{"command": ${"[".repeat(levels)}${"]".repeat(levels)}}`)).toMatch(
        /nested too deep/,
      );
    expect(error("terminal", `{"command": ${"[".repeat(50)}${"]".repeat(50)}}`)).toMatch(
      /command must be string/,
    );
  });

  test("broken text of several megabytes is parsed in linear time", () => {
    const begun = performance.now();
    for (const piece of ['\n\\"', '"\\', "\\", '"', "\n"])
      expect(error("terminal", `{"command": "${piece.repeat(500_000)}`)).toMatch(/not a JSON object/);
    expect(performance.now() - begun).toBeLessThan(20_000);
  });
});

test("no call throws, and every action has a wire kind", () => {
  const names = fc.oneof(
    fc.string(),
    fc.constantFrom("terminal", "file_editor", "task_tracker", "think", "finish", "git", "ls", "str_replace"),
  );
  const keys = fc.oneof(
    fc.string(),
    fc.constantFrom(
      "command",
      "path",
      "old_str",
      "new_str",
      "insert_line",
      "view_range",
      "task_list",
      "message",
      "thought",
      "timeout",
      "summary",
      "security_risk",
      "is_input",
    ),
  );
  const values = fc.oneof(
    fc.jsonValue(),
    fc.json(),
    fc.constantFrom("view", "plan", "create", "/a", 1, true, "[1]", "LOW"),
  );
  const args = fc.oneof(
    fc.string(),
    fc.json(),
    fc.dictionary(keys, values).map((object) => JSON.stringify(object)),
  );
  fc.assert(
    fc.property(names, args, (name, text) => {
      const resolved = resolve(name, text);
      if ("action" in resolved) expect(Check(Action, resolved.action)).toBe(true);
      else expect(resolved.error.length).toBeLessThan(3_000);
    }),
    { numRuns: 3_000 },
  );
});

describe("what the model reads", () => {
  const schemas = Object.fromEntries(
    modelTools(coreTools).map((tool) => [
      tool.name,
      tool.parameters as { properties: Record<string, object>; required?: string[] },
    ]),
  );

  test("risk and summary lead, and read-only tools have no risk", () => {
    const names = (tool: string) => Object.keys(schemas[tool]!.properties);
    expect(names("terminal")).toEqual([
      "security_risk",
      "summary",
      "command",
      "is_input",
      "timeout",
      "reset",
    ]);
    expect(names("file_editor").slice(0, 4)).toEqual(["security_risk", "summary", "command", "path"]);
    for (const tool of ["task_tracker", "think", "finish"])
      expect(names(tool)).not.toContain("security_risk");
    expect(schemas.terminal!.required).toEqual(["command"]);
    expect(schemas.file_editor!.required).toEqual(["command", "path"]);
    expect(schemas.task_tracker!.required ?? []).toEqual([]);
  });

  test("only type, description, properties, required, items and enum survive", () => {
    const seen = new Set<string>();
    const visit = (schema: Record<string, unknown>) => {
      for (const [key, value] of Object.entries(schema)) {
        seen.add(key);
        if (key === "properties") for (const item of Object.values(value as object)) visit(item);
        if (key === "items") visit(value as Record<string, unknown>);
      }
    };
    for (const schema of Object.values(schemas)) visit(schema);
    expect([...seen].sort()).toEqual(["description", "enum", "items", "properties", "required", "type"]);
  });
});

test("definitions have kinds that clients know", () => {
  expect(
    coreTools.map(({ definition }) => [definition.kind, definition.action_type, definition.observation_type]),
  ).toEqual(
    ["Terminal", "FileEditor", "TaskTracker", "Think", "Finish"].map((kind) => [
      `${kind}Tool`,
      `${kind}Action`,
      `${kind}Observation`,
    ]),
  );
  for (const tool of coreTools) expect(tool.definition.annotations.readOnlyHint).toBe(tool.readOnly);
});
