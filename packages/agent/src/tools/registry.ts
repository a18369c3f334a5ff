import type { Content, Observation } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { applyPatchTool } from "./apply-patch.ts";
import { browserTools } from "./browser/index.ts";
import { editTool } from "./edit.ts";
import { fileEditorTool } from "./file-editor.ts";
import { finishTool } from "./finish.ts";
import { globTool } from "./glob.ts";
import { grepTool } from "./grep.ts";
import { invokeSkillTraits } from "./invoke-skill.ts";
import { listDirectoryTool } from "./list-directory.ts";
import { planningFileEditorTool } from "./planning-file-editor.ts";
import { readFileTool } from "./read-file.ts";
import { switchLlmTraits } from "./switch-llm.ts";
import { taskTraits } from "./task.ts";
import { taskTrackerTool } from "./task-tracker.ts";
import { terminalTool } from "./terminal.ts";
import { thinkTool } from "./think.ts";
import type { Tool, ToolRole, ToolTraits } from "./tool.ts";
import { writeFileTool } from "./write-file.ts";

export type AgentType = "default" | "plan";

export interface ToolEntry {
  tool: Tool;
  /** Types of agents that have the tool without naming it. */
  agents?: readonly AgentType[];
  /** Name of the set that it belongs to. */
  set?: string;
}

/** The tools that are the same in all conversations. */
const entries: readonly ToolEntry[] = [
  { tool: terminalTool, agents: ["default"] },
  { tool: fileEditorTool, agents: ["default"] },
  { tool: taskTrackerTool, agents: ["default"] },
  { tool: thinkTool, agents: ["default", "plan"] },
  { tool: finishTool, agents: ["default", "plan"] },
  { tool: globTool, agents: ["plan"] },
  { tool: grepTool, agents: ["plan"] },
  { tool: planningFileEditorTool, agents: ["plan"] },
  { tool: applyPatchTool },
  { tool: readFileTool },
  { tool: writeFileTool },
  { tool: editTool },
  { tool: listDirectoryTool },
  ...browserTools.map((tool) => ({ tool, set: "browser_tool_set" })),
];

/** The tools that are made for each conversation. */
const perConversation: readonly ToolTraits[] = [taskTraits, invokeSkillTraits, switchLlmTraits];

/** Tools that released clients know and this server does not have. */
export const unsupportedTools =
  "delegate inspect_image_with_vision browser_start_recording browser_stop_recording".split(" ");

/** Everything that the agent derives from the list of tools, by names and kinds. */
export class ToolRegistry {
  /** In the order of the list. */
  readonly byName: ReadonlyMap<string, Tool>;
  readonly sets: ReadonlyMap<string, readonly Tool[]>;
  /** Names of the tools that are made for each conversation. */
  readonly perConversation: ReadonlySet<string>;
  /** Names that no MCP tool gets, also in conversations without these tools. */
  readonly reservedNames: ReadonlySet<string>;
  readonly #entries: readonly ToolEntry[];
  readonly #traits: readonly ToolTraits[];

  constructor(tools: readonly ToolEntry[], madePerConversation: readonly ToolTraits[]) {
    this.#entries = tools;
    this.#traits = [...tools.map(({ tool }) => tool), ...madePerConversation];
    this.byName = new Map(tools.map(({ tool }) => [tool.name, tool]));
    const sets = new Map<string, Tool[]>();
    for (const { tool, set } of tools) if (set) sets.set(set, [...(sets.get(set) ?? []), tool]);
    this.sets = sets;
    this.perConversation = new Set(madePerConversation.map(({ name }) => name));
    const names = this.#traits.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
    this.reservedNames = new Set([...names, ...unsupportedTools, "workflow"]);
  }

  /** Tools of an agent type in prompt order: think and finish last. */
  ofAgent(type: AgentType): readonly Tool[] {
    const tools = this.#entries.filter(({ agents }) => agents?.includes(type)).map(({ tool }) => tool);
    return [...tools.filter(({ role }) => !role), ...tools.filter(({ role }) => role)];
  }

  roleOf(toolName: string): ToolRole | undefined {
    return this.byName.get(toolName)?.role;
  }

  traitsOf(actionKind: string): ToolTraits | undefined {
    return this.#traits.find((traits) => traits.actionKind === actionKind);
  }

  /** Whether a replay uses the recorded results of this kind of action. */
  isOutside(actionKind: string): boolean {
    return this.traitsOf(actionKind)?.outside ?? /^(?:MCPToolAction$|ClientAction_)/.test(actionKind);
  }

  /** Converts a result for the model, with a header line for an error (events.md section 3). */
  readResult(observation: Observation): Content[] {
    const own = this.#traits.find(({ render }) => render?.kind === observation.kind)?.render;
    const content = own?.content(observation) ?? observation.content;
    return observation.is_error ? [textContent("[This call failed.]"), ...content] : content;
  }

  /** Puts the state of the log into the memory of the tools that keep some. */
  restore(memory: Map<string, unknown>, state: Parameters<NonNullable<Tool["restore"]>>[1]): void {
    for (const traits of this.#traits) traits.restore?.(memory, state);
  }
}

export const toolRegistry = new ToolRegistry(entries, perConversation);
