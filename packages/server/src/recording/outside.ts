import { isDeepStrictEqual } from "node:util";
import type { Action, ActionEvent, Event, Observation, RecordedTool, ToolDefinition } from "@sandpiper/wire";
import { Type } from "typebox";
import { isCutOff } from "../agent/acting.ts";
import type { Tool } from "../agent/tool.ts";
import type { Recording } from "./read.ts";

/** Kinds of actions that reach beyond the sandbox, or into other conversations: a replay gives their recorded results. */
const outside = /^(?:MCPToolAction|TaskAction|Browser\w*|SwitchLLMAction|ClientAction_.*)$/;

interface Outcome {
  action: unknown;
  observation?: Observation;
  error?: string;
}

/** Tools whose calls are not run again. */
export class OutsideTools {
  /** How often recorded results were given, by tool. */
  readonly given = new Map<string, number>();
  readonly #outcomes = new Map<string, Outcome[]>();
  /** Tools of servers and settings that a replay does not have. */
  readonly #absent: Tool[];

  constructor({ events, tools }: Pick<Recording, "events" | "tools">) {
    const open = new Map<string, { name: string; outcome: Outcome }>();
    /** Kinds of actions of tools that may not be there, by name. */
    const kinds = new Map<string, Action["kind"]>();
    for (const { event: recorded } of events) {
      const event = recorded as Event;
      if (event.kind === "SystemPromptEvent") {
        for (const { title, action_type, mcp_tool } of event.tools) {
          if (mcp_tool) kinds.set(title, "MCPToolAction");
          if (action_type === "SwitchLLMAction") kinds.set("switch_llm", action_type);
        }
      }
      if (event.kind === "ActionEvent" && outside.test(event.action?.kind ?? "")) {
        const outcome = { action: withoutKind(event.action as Action) };
        open.set(event.tool_call_id, { name: event.tool_name, outcome });
        this.#outcomes.set(event.tool_name, [...(this.#outcomes.get(event.tool_name) ?? []), outcome]);
        kinds.set(event.tool_name, event.action!.kind);
      }
      if (event.kind === "ObservationEvent" || event.kind === "AgentErrorEvent") {
        const call = open.get(event.tool_call_id);
        if (!call) continue;
        if (event.kind === "ObservationEvent") call.outcome.observation = event.observation;
        else call.outcome.error = event.error;
      }
    }
    const known = new Map(tools.flat().map((tool) => [tool.name, tool]));
    this.#absent = [...kinds].flatMap(([name, kind]) => {
      const tool = known.get(name);
      return tool ? [this.#absentTool(tool, kind)] : [];
    });
  }

  /** The tools of a conversation with these in the place of those that are not run again, and with those that are not there. */
  adapt(tools: readonly Tool[]): readonly Tool[] {
    const own = tools.map((tool) => (outside.test(tool.actionKind) ? this.#recorded(tool) : tool));
    const names = new Set(own.map(({ name }) => name));
    return [...own, ...this.#absent.filter(({ name }) => !names.has(name))];
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
    this.given.set(name, (this.given.get(name) ?? 0) + 1);
    if (outcome.observation) return outcome.observation;
    if (isCutOff(outcome.error))
      await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    // The agent puts that before what a tool throws.
    throw new Error((outcome.error ?? "The call has no recorded result.").replace(`${name} failed: `, ""));
  }

  #absentTool({ name, description, parameters }: RecordedTool, actionKind: Action["kind"]): Tool {
    const { properties = {}, ...rest } = parameters as { properties?: Record<string, unknown> };
    const { security_risk: risk, summary: _summary, ...own } = properties;
    const definition = {
      kind: actionKind.replace(/Action$/, "Definition"),
      title: name,
      description,
      action_type: actionKind,
      observation_type: actionKind.replace(/Action$/, "Observation"),
    };
    return {
      name,
      definition: definition as unknown as ToolDefinition,
      description,
      parameters: Type.Unsafe({ ...rest, properties: own }),
      actionKind,
      idempotent: false,
      readOnly: risk === undefined,
      readArguments: (received) => ({ fitted: actionKind === "MCPToolAction" ? { data: received } : received }),
      run: (action, { signal }) => this.#run(name, action, signal),
    };
  }
}

function withoutKind({ kind: _kind, ...rest }: Action | (ActionEvent["action"] & object)): unknown {
  return JSON.parse(JSON.stringify(rest));
}
