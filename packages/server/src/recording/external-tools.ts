import { isDeepStrictEqual } from "node:util";
import { isInterruption } from "@sandpiper/agent/loop/acting";
import { mcpTraits } from "@sandpiper/agent/mcp/mcp-tool";
import { toolRegistry } from "@sandpiper/agent/tools/registry";
import type { Tool } from "@sandpiper/agent/tools/tool";
import type { Action, ActionEvent, Event, Observation, RecordedTool, ToolDefinition } from "@sandpiper/wire";
import { Type } from "typebox";
import type { Recording } from "./read.ts";

interface Outcome {
  action: unknown;
  observation?: Observation;
  error?: string;
}

/** Tools outside of the sandbox, which return recorded results instead of running again. */
export class ExternalTools {
  /** Number of recorded results returned, by tool. */
  readonly results = new Map<string, number>();
  readonly #outcomes = new Map<string, Outcome[]>();
  /** Tool definitions of the recorded system prompt, by name. */
  readonly #definitions = new Map<string, ToolDefinition>();
  readonly #next: () => readonly RecordedTool[];

  /** `next` returns the tools of the agent's next recorded call. */
  constructor({ events }: Pick<Recording, "events">, next: () => readonly RecordedTool[]) {
    this.#next = next;
    const open = new Map<string, { name: string; outcome: Outcome }>();
    for (const { event: recorded } of events) {
      const event = recorded as Event;
      if (event.kind === "SystemPromptEvent") {
        for (const definition of event.tools) this.#definitions.set(definition.title, definition);
      }
      if (event.kind === "ActionEvent" && toolRegistry.isOutside(event.action?.kind ?? "")) {
        const outcome = { action: withoutKind(event.action as Action) };
        open.set(event.tool_call_id, { name: event.tool_name, outcome });
        this.#outcomes.set(event.tool_name, [...(this.#outcomes.get(event.tool_name) ?? []), outcome]);
      }
      if (event.kind === "ObservationEvent" || event.kind === "AgentErrorEvent") {
        const call = open.get(event.tool_call_id);
        if (!call) continue;
        if (event.kind === "ObservationEvent") call.outcome.observation = event.observation;
        else call.outcome.error = event.error;
      }
    }
  }

  /** Replaces external tools by recorded ones, and adds recorded tools that are absent. */
  adapt(tools: readonly Tool[]): readonly Tool[] {
    const own = tools.map((tool) => (tool.outside ? this.#recorded(tool) : tool));
    const names = new Set(own.map(({ name }) => name));
    const absent = this.#next().filter(({ name }) => !names.has(name));
    return [...own, ...absent.flatMap((tool) => this.#absentTool(tool) ?? [])];
  }

  #recorded(tool: Tool): Tool {
    const { name } = tool;
    return { ...tool, resources: () => [name], run: (action, { signal }) => this.#run(name, action, signal) };
  }

  async #run(name: string, action: Action, signal: AbortSignal): Promise<Observation> {
    const outcomes = this.#outcomes.get(name) ?? [];
    const given = withoutKind(action);
    const found = Math.max(
      outcomes.findIndex((one) => isDeepStrictEqual(one.action, given)),
      0,
    );
    const [outcome] = outcomes.splice(found, 1);
    if (!outcome) throw new Error("The recording has no result of this call, and it is not run in a replay.");
    this.results.set(name, (this.results.get(name) ?? 0) + 1);
    if (outcome.observation) return outcome.observation;
    if (isInterruption(outcome.error))
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    // The agent adds this prefix to errors of tools.
    throw new Error((outcome.error ?? "The call has no recorded result.").replace(`${name} failed: `, ""));
  }

  /**
   * A tool that the replay lacks. A tool that is not in the system prompt belongs to an MCP server.
   */
  #absentTool({ name, description, parameters }: RecordedTool): Tool | undefined {
    const definition = this.#definitions.get(name) ?? serverDefinition(name, description, parameters);
    const actionKind = definition.action_type as Action["kind"];
    if (!toolRegistry.isOutside(actionKind)) return undefined;
    const traits = toolRegistry.traitsOf(actionKind) ?? mcpTraits;
    const { properties = {}, ...rest } = parameters as { properties?: Record<string, unknown> };
    const { security_risk: risk, summary: _summary, ...own } = properties;
    return {
      ...traits,
      ...{ name, definition, description, actionKind, idempotent: false, readOnly: risk === undefined },
      parameters: Type.Unsafe({ ...rest, properties: own }),
      readArguments: (received) => ({
        fitted: actionKind === "MCPToolAction" ? { data: received } : received,
      }),
      run: (action, { signal }) => this.#run(name, action, signal),
    };
  }
}

function serverDefinition(
  name: string,
  description: string,
  inputSchema: Record<string, unknown>,
): ToolDefinition {
  const annotations = {
    title: name,
    readOnlyHint: false,
    destructiveHint: true,
    idempotentHint: false,
    openWorldHint: true,
  };
  return {
    ...{ kind: "MCPToolDefinition", title: name, description, annotations },
    ...{
      action_type: "MCPToolAction",
      observation_type: "MCPToolObservation",
      mcp_tool: { name, description, inputSchema },
    },
  };
}

function withoutKind({ kind: _kind, ...rest }: Action | (ActionEvent["action"] & object)): unknown {
  return JSON.parse(JSON.stringify(rest));
}
