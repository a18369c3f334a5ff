import { stub } from "@sandpiper/core/test/support/stub";
import { contentText, type TerminalObservation } from "@sandpiper/wire";
import { describe, expect, test } from "vitest";
import { finishTool } from "./finish.ts";
import { toolRegistry } from "./registry.ts";
import { taskTrackerTool } from "./task-tracker.ts";
import { thinkTool } from "./think.ts";
import type { ToolContext } from "./tool.ts";

const context = stub<ToolContext>({ memory: new Map() });

describe("what the model reads of a terminal's result", () => {
  const observation: TerminalObservation = {
    kind: "TerminalObservation",
    content: [{ type: "text", text: "out\n" }],
    is_error: false,
    command: "x",
    exit_code: 3,
    timeout: false,
    metadata: {
      exit_code: 3,
      pid: -1,
      working_dir: "/tmp",
      py_interpreter_path: "/usr/bin/python3",
      prefix: "[before]\n",
      suffix: "\n[after]",
    },
  };
  const read = (changed: Partial<TerminalObservation>) =>
    contentText(toolRegistry.readResult({ ...observation, ...changed }));

  test("is prefix, output, suffix and metadata", () => {
    expect(read({})).toBe(
      "[before]\nout\n\n[after]\n[Current working directory: /tmp]\n[Python interpreter: /usr/bin/python3]\n[Exit code: 3]",
    );
  });

  test("omits unknown metadata", () => {
    expect(read({ metadata: { exit_code: -1, pid: -1, prefix: "", suffix: "" } })).toBe("out\n");
  });

  test("has a header when it is an error", () =>
    expect(read({ is_error: true })).toMatch(/^\[This call failed\.\]\n\[before\]/));
});

test("task_tracker keeps the list of the conversation", async () => {
  const empty = await taskTrackerTool.run(
    { kind: "TaskTrackerAction", command: "view", task_list: [] },
    context,
  );
  expect(contentText(empty.content)).toMatch(/no task list yet/);
  const tasks = [
    { title: "Reproduce", notes: "", status: "done" as const },
    { title: "Fix", notes: "operator", status: "in_progress" as const },
    { title: "Check", notes: "", status: "todo" as const },
  ];
  const planned = await taskTrackerTool.run(
    { kind: "TaskTrackerAction", command: "plan", task_list: tasks },
    context,
  );
  expect(planned).toMatchObject({
    command: "plan",
    task_list: tasks,
    content: [{ text: "Stored 3 tasks." }],
  });
  const viewed = await taskTrackerTool.run(
    { kind: "TaskTrackerAction", command: "view", task_list: [] },
    context,
  );
  expect(contentText(viewed.content)).toBe(
    "3 tasks:\n1. [x] Reproduce\n2. [>] Fix\n   operator\n3. [ ] Check",
  );
  expect(viewed.task_list).toEqual(tasks);
});

test("finish repeats its message and think is recorded", async () => {
  expect(await finishTool.run({ kind: "FinishAction", message: "done" }, context)).toMatchObject({
    content: [{ text: "done" }],
  });
  expect(await thinkTool.run({ kind: "ThinkAction", thought: "x" }, context)).toMatchObject({
    is_error: false,
  });
});
