import { invalid } from "@sandpiper/core/test/support/stub";
import { Action, type Observation, textContent } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { ToolNames } from "../mcp/tool-names.ts";
import { usableTools } from "./choose.ts";
import { type ToolEntry, ToolRegistry, toolRegistry } from "./registry.ts";
import type { Tool } from "./tool.ts";

test("one registry entry is enough for all that the agent derives from a tool", () => {
  const memory = new Map<string, unknown>();
  const tool = invalid<Tool>({
    name: "measure",
    actionKind: "MeasureAction",
    role: "thought",
    aliases: ["ruler"],
    outside: true,
    render: { kind: "MeasureObservation", content: () => [textContent("3 cm")] },
    restore: (target: typeof memory) => target.set("measure", 3),
  });
  const registry = new ToolRegistry([{ tool, agents: ["plan"], set: "measuring" } satisfies ToolEntry], []);
  expect(registry.ofAgent("plan")).toEqual([tool]);
  expect(registry.ofAgent("default")).toEqual([]);
  expect(registry.sets.get("measuring")).toEqual([tool]);
  expect(registry.byName.get("measure")).toBe(tool);
  expect([registry.roleOf("measure"), registry.isOutside("MeasureAction")]).toEqual(["thought", true]);
  expect([...registry.reservedNames]).toEqual(expect.arrayContaining(["measure", "ruler"]));
  const observation = invalid<Observation>({ kind: "MeasureObservation", content: [], is_error: true });
  expect(registry.readResult(observation)).toEqual([textContent("[This call failed.]"), textContent("3 cm")]);
  registry.restore(memory, { taskList: [] });
  expect(memory.get("measure")).toBe(3);
});

test("every action kind of the wire, except MCP, belongs to a tool of the registry", () => {
  const kinds = Action.anyOf
    .map((action) => action.properties.kind.const)
    .filter((kind) => kind !== "MCPToolAction");
  for (const kind of kinds) expect([kind, toolRegistry.traitsOf(kind)?.actionKind]).toEqual([kind, kind]);
  expect(kinds.filter((kind) => toolRegistry.isOutside(kind))).toEqual(
    kinds.filter((kind) => /^(?:Browser|Task(?!Tracker)|SwitchLLM)/.test(kind)),
  );
  expect(usableTools).toEqual([
    ...["terminal", "file_editor", "task_tracker", "glob", "grep", "planning_file_editor", "apply_patch"],
    ...["read_file", "write_file", "edit", "list_directory", "browser_tool_set", "task_tool_set"],
  ]);
});

test("no MCP tool gets the name or an alias of a tool, or the name of an unsupported tool", () => {
  const names = new ToolNames();
  for (const name of [
    ...toolRegistry.byName.keys(),
    "task",
    "invoke_skill",
    "switch_llm",
    "ls",
    "bash",
    "str_replace",
    "delegate",
    "workflow",
  ])
    expect(names.get("server", name, new Set())).toBe(`server_${name}`);
  expect(names.get("server", "consult_tom", new Set())).toBe("consult_tom");
});
