import { PlatformError } from "@sandpiper/core/errors";
import { testRegexes } from "@sandpiper/core/untrusted-regex";
import type { ClientTool, GivenAgent } from "@sandpiper/wire";
import { clientTool } from "./client-tool.ts";
import { type AgentType, toolRegistry, unsupportedTools } from "./registry.ts";
import type { Tool } from "./tool.ts";

/** The facts that determine the tools of a conversation. */
export interface ToolChoice {
  agentType: AgentType;
  /** The default tools also include the browser. */
  browser?: boolean | undefined;
  /** The agent that a client gave. */
  agent?: Pick<GivenAgent, "tools" | "include_default_tools">;
  /** Names of those of its tools that its expression has left; undefined where it has none. */
  allowed?: readonly string[];
  clientTools: readonly ClientTool[];
}

/** Names without a tool that an agent may ask for: it goes without (events.md section 3). */
const ignoredNames = new Set([
  ...unsupportedTools,
  ..."task_tool_set workflow_tool_set gemini_tool_set consult_tom sleeptime_compute tom_consult canvas_ui_tool_set".split(
    " ",
  ),
  // Enabled by other means, as is `task`, whose name no released client uses.
  "invoke_skill",
  "switch_llm",
]);

/** Tools that an agent has in addition to the named ones, unless its client selects others. */
export const defaultTools: readonly string[] = ["FinishTool", "ThinkTool"];

/** The tools of an agent whose client names none, in the shape in which clients name theirs. */
export const defaultAgentTools: GivenAgent["tools"] = toolRegistry
  .ofAgent("default")
  .filter(({ role }) => !role)
  .map(({ name }) => ({ name, params: {} }));

/** The tools and tool sets that an agent can have, by the names that clients look for. */
export const usableTools: string[] = [
  ...toClientNames([...toolRegistry.byName.values()].filter(({ role }) => !role)),
  "task_tool_set",
];

/** Time for a client's expression on all names, ms. */
const filterMs = 8;

/** Tools of a conversation in prompt order: the agent type's or named ones, then the client's. */
export function chooseTools({
  agentType,
  browser,
  agent,
  allowed: kept,
  clientTools,
}: ToolChoice): readonly Tool[] {
  const withBrowser = browser && agentType !== "plan";
  const ofType = [
    ...toolRegistry.ofAgent(agentType),
    ...(withBrowser ? toolRegistry.sets.get("browser_tool_set")! : []),
  ];
  const own = agent ? resolveTools(agent).filter(({ name }) => !kept || kept.includes(name)) : ofType;
  return clientTools.length > 0 ? [...own, ...clientTools.map(clientTool)] : own;
}

/**
 * Checks an agent's tools and evaluates `filter_tools_regex`. Returns the matching names, or
 * undefined without it. Throws InvalidParameter for an unknown tool, a bad expression or a taken
 * name.
 */
export function checkTools(
  agent: Pick<GivenAgent, "tools" | "include_default_tools" | "filter_tools_regex"> | undefined,
  clientTools: readonly ClientTool[],
): string[] | undefined {
  const byName = toolRegistry.byName;
  for (const { name } of agent?.tools ?? []) {
    const wire = toWireName(name);
    if (byName.has(wire) || toolRegistry.sets.has(wire) || ignoredNames.has(wire)) continue;
    const all = [...byName.keys(), ...toolRegistry.sets.keys()].join(", ");
    throw new PlatformError("ToolUnknown", { name, known: all });
  }
  const names = new Set(byName.keys());
  for (const { name } of clientTools) {
    if (names.has(name)) throw new PlatformError("ClientToolNameTaken", { name });
    names.add(name);
  }
  if (!agent?.filter_tools_regex) return undefined;
  return namesMatching(
    [...resolveTools(agent).map(({ name }) => name), "switch_llm"],
    agent.filter_tools_regex,
  );
}

/** The unchecked names for which an agent gets no tool. */
export function namesWithoutTool(names: readonly string[]): string[] {
  const byName = toolRegistry.byName;
  return names.filter((name) => {
    const wire = toWireName(name);
    return (
      !byName.has(wire) &&
      !toolRegistry.sets.has(wire) &&
      !toolRegistry.perConversation.has(wire) &&
      wire !== "task_tool_set"
    );
  });
}

/** Tools by the names by which clients ask for them: a whole set by its own. */
export function toClientNames(tools: readonly Tool[]): string[] {
  const whole = [...toolRegistry.sets].filter(([, set]) => set.every((tool) => tools.includes(tool)));
  const setOf = (tool: Tool) => whole.find(([, set]) => set.includes(tool))?.[0];
  return [...new Set(tools.map((tool) => setOf(tool) ?? tool.name))];
}

function resolveTools({ tools, include_default_tools }: NonNullable<ToolChoice["agent"]>): Tool[] {
  const byName = toolRegistry.byName;
  const wanted = [...(tools ?? []).map(({ name }) => name), ...(include_default_tools ?? defaultTools)].map(
    toWireName,
  );
  return [...new Set(wanted.flatMap((name) => toolRegistry.sets.get(name) ?? byName.get(name) ?? []))];
}

/** `FileEditorTool` and `file_editor` are one name (events.md section 3). */
function toWireName(name: string): string {
  if (/^[a-z0-9_]+$/.test(name)) return name;
  const words = name.replace(/Tool$/, "").replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_");
  return words.toLowerCase();
}

/** The names whose beginning matches a client's expression. Throws InvalidParameter. */
export function namesMatching(names: readonly string[], expression: string): string[] {
  const tests = names.map((text) => ({ source: `^(?:${expression})`, text }));
  const results = testRegexes(tests, filterMs);
  if (results.length < names.length || results.includes(undefined))
    throw new PlatformError("ToolFilterInvalid");
  return names.filter((_, index) => results[index]);
}
