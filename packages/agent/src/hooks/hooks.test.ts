import { expect, test } from "vitest";
import { describeHooksFault, mergeHookConfigs, parseHookConfig } from "./config.ts";
import { cut, limitInput } from "./hook-input.ts";
import { matchTool } from "./matcher.ts";
import { decide, findDeath } from "./verdict.ts";

test.each([
  ["*", "terminal", true],
  ["", "terminal", true],
  ["terminal", "terminal", true],
  ["term", "terminal", false],
  ["terminal|file_editor", "file_editor", true],
  ["file_.*", "file_editor", true],
  ["editor.*", "file_editor", false],
  ["/.*editor/", "file_editor", true],
  ["/editor/", "file_editor", false],
  ["(", "(", true],
  ["(", "terminal", false],
  ["/(/", "terminal", false],
  [`${"x".repeat(2_000)}*`, "terminal", false],
])("the matcher %j for %s: %j", (matcher, name, expected) => {
  expect(matchTool([matcher], name)).toEqual([expected]);
});

test("hostile patterns share one time limit and do not disable other matchers", () => {
  const hostile = Array.from({ length: 100 }, (_, index) => `/(([a-z])+.)+[A-Z]([a-z]){${index + 1}}$/`);
  const name = "a".repeat(40);
  const begin = performance.now();
  expect(matchTool(["a+", "b+", ...hostile, "terminal", "b+"], name)).toEqual([
    true,
    false,
    ...hostile.map(() => true),
    false,
    false,
  ]);
  expect(matchTool([...hostile, "a.*b"], name).at(-1)).toBe(true);
  expect(performance.now() - begin).toBeLessThan(20_000);
});

test("a hostile pattern holds up the server only once", () => {
  const hostile = Array.from({ length: 3 }, (_, index) => `((((((\\w*)*)*)*)*)*)*[${index}]`);
  const work = (name: string) => {
    const before = process.threadCpuUsage();
    expect(matchTool([...hostile, "terminal"], name)).toEqual([true, true, true, name === "terminal"]);
    const { user, system } = process.threadCpuUsage(before);
    return (user + system) / 1_000;
  };
  work("terminal");
  expect(Math.min(work("file_editor"), work("terminal"), work("think"))).toBeLessThan(5);
});

test("both spellings are read, with and without a wrapper, and invalid hooks are skipped", () => {
  const command = { type: "command", command: "true", timeout: 60, async: false };
  const file = JSON.stringify({
    PreToolUse: [
      { matcher: "a", hooks: [{ command: "true" }, { command: 5 }, null, { command: "x".repeat(40_000) }] },
      { hooks: [] },
    ],
    stop: [{ hooks: [{ type: "prompt", prompt: "Is it done?", command: "", timeout: 1e9, async: true }] }],
    Unknown: [{ hooks: [{ command: "true" }] }],
    session_start: "text",
  });
  const expected = {
    pre_tool_use: [{ matcher: "a", hooks: [command] }],
    stop: [{ matcher: "*", hooks: [{ type: "prompt", command: "Is it done?", timeout: 600, async: false }] }],
  };
  expect(parseHookConfig(file)).toEqual(expected);
  expect(parseHookConfig(`{"hooks": ${file}}`)).toEqual(expected);
  for (const text of ["", "[]", "null", "7", "{", "[".repeat(100_000)])
    expect(parseHookConfig(text)).toBeUndefined();
  expect(mergeHookConfigs([expected as object, expected as object]).pre_tool_use).toHaveLength(2);
});

test.each([
  [
    { exitCode: 0, stdout: "" },
    { success: true, blocked: false },
  ],
  [
    { exitCode: 2, stdout: "", stderr: "why\n" },
    { success: false, blocked: true, reason: "why" },
  ],
  [
    { exitCode: 2, stdout: '{"reason":"because"}', stderr: "why" },
    { success: false, blocked: true, reason: "because" },
  ],
  [
    { exitCode: 1, stdout: '{"decision":"deny"}' },
    { success: false, blocked: false },
  ],
  [
    { exitCode: 0, stdout: 'log\n{"decision":"DENY","reason":"r"}\n' },
    { success: true, blocked: true, reason: "r" },
  ],
  [
    { exitCode: 0, stdout: '{"continue":false,"stopReason":"s"}' },
    { success: true, blocked: true, reason: "s" },
  ],
  [
    { exitCode: 0, stdout: '{"additionalContext":"c"}' },
    { success: true, blocked: false, additionalContext: "c" },
  ],
  [
    { exitCode: 0, stdout: '{"decision": 7, "reason": [], "additionalContext": {}}' },
    { success: true, blocked: false },
  ],
  [
    { exitCode: 0, stdout: "{".repeat(100_000) },
    { success: true, blocked: false },
  ],
])("%j decides %j", (outcome, expected) => {
  expect(decide({ stderr: "", ...outcome }, { guards: true })).toEqual(expected);
});

test.each([
  [0, undefined],
  [1, undefined],
  [2, undefined],
  [124, undefined],
  [126, "could not be run"],
  [127, "could not be run"],
  [128, undefined],
  [137, "killed by signal 9"],
  [139, "killed by signal 11"],
  [192, "killed by signal 64"],
  [255, undefined],
])("a command that ends with %i: %j", (code, expected) => {
  expect(findDeath(code)).toEqual(expected && expect.stringContaining(expected));
});

test("the death of a command blocks what it guards, and nothing else", () => {
  const outcome = { exitCode: 137, stdout: '{"decision":"allow"}', stderr: "", error: "Killed.", died: true };
  expect(decide(outcome, { guards: true })).toMatchObject({ success: false, blocked: true });
  expect(decide(outcome, { guards: true }).reason).toContain("Killed. A hook that guards this");
  expect(decide(outcome, { guards: false })).toEqual({ success: false, blocked: false });
});

test.each([
  [
    {
      version: 1,
      description: "ours",
      PreToolUse: [{ hooks: [{ command: "x" }] }],
      Stop: null,
      PostToolUse: [],
    },
    [],
  ],
  [
    { PreToolCall: [{ hooks: [{ command: "x" }] }] },
    [expect.stringContaining("There is no event PreToolCall for hooks: pre_tool_use, ")],
  ],
  [
    { PreToolUse: [{ matcher: "terminal", command: "./guard.sh" }] },
    [expect.stringContaining("Not all hooks of PreToolUse")],
  ],
  [
    { Stop: [{ hooks: [{ command: "x" }, { url: "http://x" }] }] },
    [expect.stringContaining("Not all hooks of Stop")],
  ],
  [{ Stop: { hooks: [{ command: "x" }] } }, [expect.stringContaining("Not all hooks of Stop")]],
  [
    {
      PostToolUse: ["(a+", "terminal", "/ok.*/", "", "*"].map((matcher) => ({
        matcher,
        hooks: [{ command: "x" }],
      })),
    },
    ["A matcher of PostToolUse is no expression, so its hooks are run for no tool: (a+"],
  ],
  [{ Stop: [{ matcher: "(a+", hooks: [{ command: "x" }] }] }, []],
])("a misspelt guard that does not run is reported: %j", (config, expected) => {
  const sentences: string[] = [];
  parseHookConfig(JSON.stringify(config), undefined, (sentence) => sentences.push(sentence));
  expect(sentences).toEqual(expected);
});

test("a broken file of hooks is named with line and column", () => {
  expect(describeHooksFault('{"hooks": {\n  "Stop": [}\n}')).toBe("not JSON (line 2, column 12)");
  expect(describeHooksFault("[]")).toBe("not a JSON object");
});

test("an event's hook input is limited", () => {
  expect(cut("x".repeat(60_000))).toHaveLength(50_000);
  const input = { tool_name: "t", tool_input: { a: "x".repeat(10_000_000), b: ["y".repeat(60_000), 1] } };
  expect(JSON.stringify(limitInput(input)).length).toBeLessThanOrEqual(50_000);
  const many = { tool_name: "t", tool_input: Array.from({ length: 100_000 }, () => "z") };
  expect(limitInput(many)).toEqual({ tool_name: "t" });
});
