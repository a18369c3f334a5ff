import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { contentText, type Observation } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { resolveToolCall } from "./call.ts";
import { toolRegistry } from "./registry.ts";
import { pathMatcher } from "./search/find-files.ts";
import type { ToolContext } from "./tool.ts";

const planTools = toolRegistry.ofAgent("plan");

let sandbox: Sandbox;
let remove: () => Promise<void>;
let context: ToolContext;
const planPath = "/workspace/.agents_tmp/PLAN.md";

beforeAll(async () => {
  ({ sandbox, remove } = await testSandbox());
  const script = `rm -rf /workspace/* && mkdir -p /workspace/src/deep /workspace/.git /workspace/node_modules/x && cd /workspace
echo 'export const One = 1' >src/one.ts; echo two >src/deep/two.ts; echo one >notes.md; echo one >.git/one.ts; echo one >node_modules/x/one.ts
touch -d 2001-01-01 src/one.ts; printf 'one' >"src/with space.ts"; touch -d 2000-01-01 "src/with space.ts"`;
  await runToEnd(sandbox, { argv: ["sh", "-c", script], cwd: "/" });
  context = {
    conversationId: "c",
    actionId: "a",
    sandbox: async () => sandbox,
    terminal: () => Promise.reject(new Error("unused")),
    browser: () => Promise.reject(new Error("unused")),
    planPath,
    workingDir: "/workspace",
    signal: new AbortController().signal,
    memory: new Map(),
  };
});
afterAll(() => remove());

/** Runs a call as the model writes it. */
async function call(name: string, args: object): Promise<Observation> {
  const resolved = resolveToolCall(
    { id: "1", name, arguments: JSON.stringify(args), origin: "completion" },
    planTools,
  );
  if ("error" in resolved) throw new Error(resolved.error);
  return resolved.tool.run(resolved.action, context);
}

test("glob finds files by their path, the last changed first, and omits files that are not sources", async () => {
  const found = await call("glob", { pattern: "**/*.ts" });
  expect(found).toMatchObject({
    kind: "GlobObservation",
    files: ["/workspace/src/deep/two.ts", "/workspace/src/one.ts", "/workspace/src/with space.ts"],
    search_path: "/workspace",
    truncated: false,
    is_error: false,
  });
  expect(contentText(found.content)).toMatch(/^3 matches in \/workspace:\n/);
  expect(await call("glob", { pattern: "*.ts", path: "src" })).toMatchObject({
    files: expect.arrayContaining([]),
    is_error: false,
  });
  expect(await call("glob", { pattern: "src/*.{ts,md}" })).toMatchObject({
    files: ["/workspace/src/one.ts", "/workspace/src/with space.ts"],
  });
  expect(await call("glob", { pattern: "*", path: "/nowhere" })).toMatchObject({ is_error: true, files: [] });
});

test("grep finds files by their text in any case, and explains invalid patterns", async () => {
  expect(await call("grep", { pattern: "\\bone\\b", include: "*.ts" })).toMatchObject({
    kind: "GrepObservation",
    matches: ["/workspace/src/one.ts", "/workspace/src/with space.ts"],
    include_pattern: "*.ts",
    is_error: false,
  });
  expect(await call("grep", { pattern: "-e; touch /tmp/pwned" })).toMatchObject({
    matches: [],
    is_error: false,
  });
  expect(await call("grep", { pattern: "(" })).toMatchObject({ is_error: true, matches: [] });
});

test("the planning editor views every file and writes only the plan", async () => {
  expect(await call("planning_file_editor", { command: "view", path: "/workspace/notes.md" })).toMatchObject({
    is_error: false,
  });
  for (const path of ["/workspace/notes.md", `${planPath}/../x.md`, "/workspace/.agents_tmp/OTHER.md"]) {
    const refused = await call("planning_file_editor", { command: "create", path, file_text: "x" });
    expect(refused).toMatchObject({ kind: "PlanningFileEditorObservation", is_error: true });
    expect(contentText(refused.content)).toContain(planPath);
  }
  const made = await call("planning_file_editor", {
    command: "create",
    path: planPath,
    file_text: "# Plan\n",
  });
  expect(made).toMatchObject({ kind: "PlanningFileEditorObservation", is_error: false });
  expect(made).not.toHaveProperty("new_content");
  await call("planning_file_editor", {
    command: "str_replace",
    path: planPath,
    old_str: "Plan",
    new_str: "The plan",
  });
  expect(
    contentText((await call("planning_file_editor", { command: "view", path: planPath })).content),
  ).toContain("The plan");
});

test("a planning agent has no tool that runs commands, and only kinds that clients know", () => {
  expect(planTools.map(({ name }) => name)).toEqual([
    "glob",
    "grep",
    "planning_file_editor",
    "think",
    "finish",
  ]);
  expect(planTools.map(({ definition }) => definition.kind)).toEqual([
    "GlobTool",
    "GrepTool",
    "PlanningFileEditorTool",
    "ThinkTool",
    "FinishTool",
  ]);
});

test.each([
  ["./a/b", "a/b"],
  ["/{a,b}.ts", "x/b.ts"],
  ["[a-c].ts", "x/b.ts"],
])("the pattern %j finds %j", (pattern, path) => expect(pathMatcher(pattern)(path)).toBe(true));

test("an argument that is too long is refused with its name and limit", () => {
  for (const [name, args, problem] of [
    ["glob", { pattern: "*", path: "x".repeat(4_001) }, "path is too long, because it can have 4000"],
    ["grep", { pattern: "a", path: "x".repeat(200_000) }, "path is too long, because it can have 4000"],
    ["grep", { pattern: "x".repeat(2_001) }, "pattern is too long, because it can have 2000"],
  ] as const) {
    const call = { id: "1", name, arguments: JSON.stringify(args), origin: "completion" } as const;
    expect(resolveToolCall(call, planTools)).toEqual({
      error: expect.stringContaining(`Invalid arguments for ${name}: ${problem} characters at most.`),
    });
  }
});
