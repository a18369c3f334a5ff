import { defaultAgentTools, usableTools } from "./choose.ts";
import { toolRegistry } from "./registry.ts";

/** A tool or tool set that a user can give an agent. */
export interface ToolCatalogEntry {
  name: string;
  /** The first paragraph of what the model reads about it. */
  description: string;
  /** Agents have it when nobody names their tools. */
  in_default_set: boolean;
}

/** Sets whose tools are made for each conversation, or that have many tools. */
const setDescriptions: Record<string, string> = {
  browser_tool_set: "A browser in the sandbox: navigate, click, type and read pages.",
  task_tool_set: "Sub-agents, to which the agent hands tasks.",
};

const maxDescription = 500;

/** The tools that clients can choose, in the order of the registry. */
export function listToolCatalog(): ToolCatalogEntry[] {
  const inDefault = new Set((defaultAgentTools ?? []).map(({ name }) => name));
  return usableTools.map((name) => {
    const text = setDescriptions[name] ?? toolRegistry.byName.get(name)?.description ?? "";
    return {
      name,
      description: text.split("\n\n", 1)[0]!.replaceAll("\n", " ").slice(0, maxDescription),
      in_default_set: inDefault.has(name),
    };
  });
}
