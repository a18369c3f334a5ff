import { createContext, Script } from "node:vm";
import { PlatformError } from "@sandpiper/core/errors";
import type { ClientTool, GivenAgent } from "@sandpiper/wire";
import { applyPatchTool } from "./apply-patch.ts";
import { browserTools } from "./browser/index.ts";
import { clientTool } from "./client-tool.ts";
import { coreTools, planTools } from "./index.ts";
import type { Tool } from "./tool.ts";

/** What decides about the tools of a conversation. */
export interface ToolChoice {
  agentType: "default" | "plan";
  /** An agent whose tools nobody names has the browser too. */
  browser?: boolean | undefined;
  /** The agent that a client gave. */
  agent?: Pick<GivenAgent, "tools" | "include_default_tools">;
  /** Names of those of its tools that its expression has left; undefined where it has none. */
  kept?: readonly string[];
  clientTools: readonly ClientTool[];
}

/** Names that released clients know and that no tool of ours stands for: an agent that asks for them goes without (events.md section 3). */
const absent = new Set(
  `task_tool_set delegate workflow_tool_set read_file write_file edit list_directory gemini_tool_set
  browser_start_recording browser_stop_recording inspect_image_with_vision consult_tom sleeptime_compute tom_consult invoke_skill switch_llm canvas_ui_tool_set`.split(
    /\s+/,
  ),
);

/** Names of tools that an agent gets, or not, by what else is known of its conversation. */
const givenOtherwise = new Set(["task", "task_tool_set", "invoke_skill", "switch_llm"]);

/** Names that stand for several tools. */
const toolSets: ReadonlyMap<string, readonly Tool[]> = new Map([["browser_tool_set", browserTools]]);

/** What an agent has besides the tools that it names, unless its client names others. */
export const defaultTools: readonly string[] = ["FinishTool", "ThinkTool"];

/** The tools of an agent whose client names none, in the shape in which clients name theirs. */
export const usualTools: GivenAgent["tools"] = coreTools
  .filter(({ name }) => name !== "finish" && name !== "think")
  .map(({ name }) => ({ name, params: {} }));

/** What agents can be given, by the names that clients look for before they ask for it: tools, and sets of them. */
export const usableTools: string[] = [
  ...new Set(
    [...coreTools, ...planTools, applyPatchTool]
      .map(({ name }) => name)
      .filter((name) => name !== "finish" && name !== "think"),
  ),
  ...toolSets.keys(),
  "task_tool_set",
];

/** Time for a client's expression on all names, ms. */
const filterMs = 50;

/**
 * The tools of a conversation, in the order in which the model reads them: those that its agent's type has, or that the client's agent names, and
 * the client's own.
 */
export function chooseTools({ agentType, browser, agent, kept, clientTools }: ToolChoice): readonly Tool[] {
  const usual = browser ? [...coreTools, ...browserTools] : coreTools;
  const ofType = agentType === "plan" ? planTools : usual;
  const own = agent ? named(agent).filter(({ name }) => !kept || kept.includes(name)) : ofType;
  return clientTools.length > 0 ? [...own, ...clientTools.map(clientTool)] : own;
}

/**
 * Checks an agent's tools before a conversation begins, and gives the names that its `filter_tools_regex` leaves, where it has one: an expression of a client is
 * evaluated this once. Throws InvalidParameter for a name that nobody knows, an expression that is none, and a client tool with the name of another tool.
 */
export function checkTools(
  agent: Pick<GivenAgent, "tools" | "include_default_tools" | "filter_tools_regex"> | undefined,
  clientTools: readonly ClientTool[],
): string[] | undefined {
  const known = allTools();
  for (const { name } of agent?.tools ?? []) {
    const wire = wireName(name);
    if (known.has(wire) || toolSets.has(wire) || absent.has(wire)) continue;
    throw new PlatformError(
      "InvalidParameter",
      `There is no tool ${name}: the tools are ${[...known.keys(), ...toolSets.keys()].join(", ")}.`,
    );
  }
  const names = new Set(known.keys());
  for (const { name } of clientTools) {
    if (names.has(name))
      throw new PlatformError(
        "InvalidParameter",
        `There is a tool ${name} already: name the client tool otherwise.`,
      );
    names.add(name);
  }
  if (!agent?.filter_tools_regex) return undefined;
  return namesMatching([...named(agent).map(({ name }) => name), "switch_llm"], agent.filter_tools_regex);
}

/** Those names, which nobody has checked, for which an agent gets no tool; names of tools that are given in another way are fine. */
export function namesWithoutTool(names: readonly string[]): string[] {
  const known = allTools();
  return names.filter((name) => {
    const wire = wireName(name);
    return !known.has(wire) && !toolSets.has(wire) && !givenOtherwise.has(wire);
  });
}

/** Tools by the names by which clients ask for them: a whole set by its own. */
export function namesOf(tools: readonly Tool[]): string[] {
  const whole = [...toolSets].filter(([, set]) => set.every((tool) => tools.includes(tool)));
  const setOf = (tool: Tool) => whole.find(([, set]) => set.includes(tool))?.[0];
  return [...new Set(tools.map((tool) => setOf(tool) ?? tool.name))];
}

function named({ tools, include_default_tools }: NonNullable<ToolChoice["agent"]>): Tool[] {
  const known = allTools();
  const wanted = [...(tools ?? []).map(({ name }) => name), ...(include_default_tools ?? defaultTools)].map(
    wireName,
  );
  return [...new Set(wanted.flatMap((name) => toolSets.get(name) ?? known.get(name) ?? []))];
}

/** `FileEditorTool` and `file_editor` are one name (events.md section 3). */
function wireName(name: string): string {
  if (/^[a-z0-9_]+$/.test(name)) return name;
  const words = name.replace(/Tool$/, "").replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_");
  return words.toLowerCase();
}

function allTools(): Map<string, Tool> {
  return new Map(
    [...coreTools, ...planTools, applyPatchTool as unknown as Tool, ...browserTools].map((tool) => [
      tool.name,
      tool,
    ]),
  );
}

/** Those names whose beginning an expression matches. It is a client's, so it gets some time, and no more. Throws InvalidParameter. */
export function namesMatching(names: readonly string[], expression: string): string[] {
  try {
    const script = new Script("names.filter((name) => new RegExp(`^(?:${expression})`).test(name))");
    const context = createContext({ names: [...names], expression });
    return [...(script.runInContext(context, { timeout: filterMs }) as string[])];
  } catch {
    throw new PlatformError(
      "InvalidParameter",
      "filter_tools_regex is not a regular expression, or takes too long.",
    );
  }
}
