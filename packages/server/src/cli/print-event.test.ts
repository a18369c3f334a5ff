import type { Event } from "@sandpiper/wire";
import fc from "fast-check";
import { expect, test } from "vitest";
import { printEvent } from "./print-event.ts";

const base = { id: "1", timestamp: "2026-01-01T00:00:00.000000" };
const print = (event: object, options = {}) =>
  printEvent({ ...base, ...event } as Event, { elapsed: 1234, ...options });

function action(tool: string, value: object, more: object = {}) {
  const call = { id: "c", name: tool, arguments: "{}", origin: "completion" };
  return {
    kind: "ActionEvent",
    source: "agent",
    thought: [],
    thinking_blocks: [],
    action: value,
    tool_name: tool,
    tool_call_id: "c",
    tool_call: call,
    llm_response_id: "r",
    security_risk: "UNKNOWN",
    ...more,
  };
}

function terminal(text: string, exit: number, suffix = "") {
  const observation = {
    kind: "TerminalObservation",
    content: [{ type: "text", text }],
    is_error: false,
    exit_code: exit,
    timeout: false,
    metadata: { exit_code: exit, pid: 1, prefix: "", suffix },
  };
  return {
    kind: "ObservationEvent",
    source: "environment",
    tool_name: "terminal",
    tool_call_id: "c",
    action_id: "1",
    observation,
  };
}

test("a command without an exit code shows what its note says to a person", () => {
  const advice = "You can send an empty command to wait for more output, or give a longer timeout.";
  const note = (text: string, sentence: string) => print(terminal(text, -1, `\n[${sentence} ${advice}]`));
  expect(note("line 1", "The command is still running after 9 seconds, its timeout.")).toEqual([
    "    1.2 s  running   line 1",
    "                     The command is still running after 9 seconds, its timeout.",
  ]);
  expect(note("", "The command was NOT run: the earlier command `make` is still running.")).toEqual([
    "    1.2 s  running   The command was NOT run: the earlier command `make` is still running.",
  ]);
  expect(print(terminal("", -1, "\n[The shell did not answer.]"))).toEqual([
    "    1.2 s  note      The shell did not answer.",
  ]);
});

test("an action shows the time, what the agent thinks and says, the tool and the command", () => {
  const lines = print(
    action(
      "terminal",
      { kind: "TerminalAction", command: "npm test", is_input: false, reset: false },
      { thought: [{ type: "text", text: "I run the tests." }], reasoning_content: "Tests first." },
    ),
  );
  expect(lines).toEqual([
    "    1.2 s  thinks    Tests first.",
    "    1.2 s  says      I run the tests.",
    "    1.2 s  terminal  $ npm test",
  ]);
});

test("an edit shows removed and added lines", () => {
  const lines = print(
    action("file_editor", {
      kind: "FileEditorAction",
      command: "str_replace",
      path: "/w/a.js",
      old_str: "a - b\n",
      new_str: "a + b\n",
    }),
  );
  expect(lines).toEqual([
    "    1.2 s  file_editor str_replace /w/a.js",
    `${" ".repeat(21)}- a - b`,
    `${" ".repeat(21)}+ a + b`,
  ]);
});

test("the agent's text is wrapped at spaces and not cut off", () => {
  const lines = print(action("finish", { kind: "FinishAction", message: `${"word ".repeat(20)}end` }), {
    columns: 60,
  });
  expect(lines.map((line) => line.slice(21).trimEnd()).join(" ")).toBe(`${"word ".repeat(20)}end`);
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(60);
});

test("long output is shortened in lines and columns, and says so", () => {
  const text = Array.from({ length: 100 }, (_, index) => `line ${index} ${"x".repeat(500)}`).join("\n");
  const lines = print(terminal(text, 1), { columns: 80, outputLines: 6 });
  expect(lines).toHaveLength(6);
  expect(lines[0]).toContain("exit 1");
  expect(lines.join("\n")).toContain("95 more lines");
  expect(lines.at(-1)).toContain("line 99");
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
});

test("what the network refuses, and why a tool fails, is shown complete", () => {
  const rule = 'it would need a rule for example.org:443, such as "example.org:443" in network.allow.';
  const told = `[Network: The network policy of this sandbox allows no connection to example.org:443: ${rule}]`;
  const inside = `npm error 403 403 npm.lan:443 is a private address: ${"words ".repeat(9)}in network.private of the spec.`;
  const failed = terminal(`There is a file already: ${"words ".repeat(12)}delete it first.`, 0);
  failed.observation = { ...failed.observation, kind: "FileEditorObservation", is_error: true };
  for (const columns of [40, 60, 80]) {
    const shown = (event: object) => {
      const lines = print(event, { columns });
      for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns);
      return lines.join(" ").replace(/ +/g, " ");
    };
    expect(shown(terminal(`curl: (56) 403\n${told}`, 56))).toContain(told);
    expect(shown(terminal(inside, 1))).toContain(inside);
    expect(shown(failed)).toContain("delete it first.");
  }
});

test("output cannot take over the terminal", () => {
  const lines = print(terminal("\x1b]0;title\x07\x1b[2Jred\rover\x9b31m\u202e", 0));
  expect(lines.join("\n")).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/);
  expect(lines.join("\n")).toContain("red");
});

test("errors, messages and interruptions are shown, state updates and deltas are not", () => {
  expect(
    print({
      kind: "ConversationErrorEvent",
      source: "environment",
      code: "ModelFailed",
      detail: "no credit",
    })[0],
  ).toContain("ModelFailed: no credit");
  expect(
    print({
      kind: "AgentErrorEvent",
      source: "agent",
      tool_name: "t",
      tool_call_id: "c",
      error: "bad arguments",
    })[0],
  ).toContain("bad arguments");
  expect(print({ kind: "InterruptEvent", source: "user" })[0]).toContain("stopped");
  expect(
    print({ kind: "ConversationStateUpdateEvent", source: "environment", key: "stats", value: {} }),
  ).toEqual([]);
  expect(print({ kind: "StreamingDeltaEvent", source: "agent", content: "x" })).toEqual([]);
});

test("no text of a tool makes the printer fail or write a control character", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 1, max: 200 }), (text, columns) => {
      for (const event of [terminal(text, 0), action("think", { kind: "ThinkAction", thought: text })])
        expect(print(event, { columns }).join("\n")).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f]/);
    }),
  );
});

test("notes, summaries and blocking hooks are printed; hook results of other events are not repeated", () => {
  const hook = {
    kind: "HookExecutionEvent",
    source: "hook",
    hook_command: "./h.sh",
    blocked: true,
    reason: "no",
    exit_code: 2,
  };
  const note = { role: "user", content: [{ type: "text", text: "A note." }] };
  expect(
    [
      { kind: "MessageEvent", source: "environment", llm_message: note },
      { kind: "Condensation", source: "environment", forgotten_event_ids: ["a", "b"], llm_response_id: "r" },
      {
        kind: "UserRejectObservation",
        source: "environment",
        rejection_reason: "no",
        rejection_source: "hook",
      },
      { ...hook, hook_event_type: "PreToolUse" },
      { ...hook, hook_event_type: "Stop" },
      { ...hook, hook_event_type: "UserPromptSubmit" },
      { ...hook, hook_event_type: "SessionStart", blocked: false },
      { ...hook, hook_event_type: "SessionStart", blocked: false, error: "It took longer than 60 s." },
    ].flatMap((event) => print(event).map((line) => line.slice(11))),
  ).toEqual([
    "note      A note.",
    "memory    a summary replaces 2 events",
    "rejected  by a hook: no",
    "hook      UserPromptSubmit blocked: no",
    "hook      SessionStart ./h.sh: It took longer than 60 s.",
  ]);
});

test("at every width, names of tools of every length leave no line wider than the terminal", () => {
  for (const columns of [30, 49, 50, 60, 80, 120])
    for (const name of ["t", "terminal", "file_editor", "mcp__github__create_pull_request", "x".repeat(300)])
      for (const [kind, field] of [
        ["ThinkAction", "thought"],
        ["TerminalAction", "command"],
      ] as const) {
        const lines = print(action(name, { kind, [field]: "some words that are wrapped, ".repeat(9) }), {
          columns,
        });
        for (const line of lines) expect(line.length, `${columns}: ${line}`).toBeLessThanOrEqual(columns);
      }
});

test("no string of an event reaches the terminal with anything that is not seen", () => {
  const hostile = "\x1b]52;c;cm0=\x07\u009b8m\u202e\u200b\u{e0041}\ra";
  const poison = (value: unknown, key = ""): unknown => {
    if (typeof value === "string") return ["kind", "type", "role"].includes(key) ? value : hostile;
    if (Array.isArray(value)) return value.map((item) => poison(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, poison(item, name)]));
  };
  const call = { tool_name: "t", tool_call_id: "c", source: "environment" };
  const message = { role: "assistant", content: [{ type: "text", text: "x" }] };
  const events = [
    { kind: "SystemPromptEvent", source: "agent", tools: [{ title: "x" }] },
    { kind: "MessageEvent", source: "agent", llm_message: message },
    { kind: "MessageEvent", source: "environment", llm_message: message },
    ...[
      { kind: "TerminalAction", command: "x" },
      { kind: "GlobAction", path: "x", pattern: "x" },
      { kind: "FileEditorAction", command: "x", path: "x", old_str: "x", new_str: "x" },
      { kind: "TaskTrackerAction", command: "x", task_list: [{ title: "x", status: "todo" }] },
      { kind: "FinishAction", message: "x" },
      { kind: "TaskAction", subagent_type: "x", prompt: "x" },
      { kind: "MCPToolAction", data: { x: "x" } },
      { kind: "ApplyPatchAction", patch: "x" },
      { kind: "OtherAction", x: "x" },
    ].map((value) => action("x", value, { thought: [{ type: "text", text: "x" }], reasoning_content: "x" })),
    { ...action("x", {}), action: null },
    terminal("x", 1),
    { kind: "AgentErrorEvent", ...call, error: "x" },
    { kind: "UserRejectObservation", ...call, rejection_reason: "x" },
    { kind: "HookExecutionEvent", hook_event_type: "x", hook_command: "x", error: "x" },
    { kind: "ConversationErrorEvent", code: "x", detail: "x" },
    { kind: "ServerErrorEvent", code: "x", detail: "x" },
  ];
  for (const event of events) {
    const shown = print(poison(event) as object).join("");
    expect(shown, event.kind).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(shown, event.kind).toContain(
      event.kind === "ObservationEvent" ? "^[]52" : "^[]52;c;cm0=^G<U+009B>8m",
    );
  }
});
