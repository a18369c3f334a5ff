import { stub } from "@sandpiper/core/test/support/stub";
import type { NetworkProblem } from "@sandpiper/sandbox/network/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Terminal } from "@sandpiper/sandbox/shell/terminal";
import { contentText, type TerminalObservation } from "@sandpiper/wire";
import { describe, expect, test } from "vitest";
import { finishTool } from "./finish.ts";
import { toolRegistry } from "./registry.ts";
import { taskTrackerTool } from "./task-tracker.ts";
import { terminalTool } from "./terminal.ts";
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

test("a terminal's result says once what the network refused, and which rule would allow it", async () => {
  const refusal = (host: string) =>
    `The network policy of this sandbox allows no connection to ${host}:443: it would need a rule for ${host}:443, such as "${host}:443" in network.allow.`;
  const problems = ["a.test", "told.test", "b.test"].map((host) => ({
    host,
    refused: true,
    sentence: refusal(host),
  }));
  const observation: TerminalObservation = {
    ...{ kind: "TerminalObservation", is_error: false, command: "x", exit_code: 56, timeout: false },
    content: [{ type: "text", text: `curl: (56) response 403\n${refusal("told.test")}\n` }],
    metadata: { exit_code: 56, pid: -1, prefix: "", suffix: "" },
  };
  let watches = 0;
  const run = (found: NetworkProblem[]) =>
    terminalTool.run(
      { kind: "TerminalAction", command: "x", is_input: false, reset: false },
      stub<ToolContext>({
        actionId: "a1",
        terminal: async () => stub<Terminal>({ run: async () => observation }),
        sandbox: async () =>
          stub<Sandbox>({
            watchNetwork() {
              watches++;
              return () => found;
            },
          }),
      }),
    );
  expect(contentText((await run(problems)).content)).toBe(
    `curl: (56) response 403\n${refusal("told.test")}\n[Network: ${refusal("a.test")}]\n[Network: ${refusal("b.test")}]`,
  );
  expect(await run([])).toBe(observation);
  expect(watches).toBe(2);
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
