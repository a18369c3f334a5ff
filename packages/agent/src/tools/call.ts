import { isTooDeep } from "@sandpiper/models/call-arguments";
import type { ModelTool } from "@sandpiper/models/model";
import type { Action, MessageToolCall, SecurityRisk } from "@sandpiper/wire";
import { securityRisks } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import { fitArguments, parseArguments, shortName } from "./arguments.ts";
import type { Tool } from "./tool.ts";

export type ResolvedCall =
  | { tool: Tool; action: Action; securityRisk: SecurityRisk; summary?: string }
  | { error: string };

/**
 * Resolves a tool call to a tool and an action (events.md section 3, agent-behaviour.md section 2
 * point 6). Tolerates variants. Never throws; errors name the parameters without values.
 */
export function resolveToolCall(call: MessageToolCall, tools: readonly Tool[]): ResolvedCall {
  const named = findTool(call.name, tools);
  if (!named) {
    return {
      error: `Unknown tool '${shortName(call.name)}'; known tools: ${tools.map((tool) => tool.name).join(", ")}`,
    };
  }
  const { tool, alias } = named;
  const received = parseArguments(call.arguments);
  if (!received)
    return {
      error: `The arguments of ${tool.name} are not a JSON object (${call.arguments.length} characters received).`,
    };
  const tooDeep = { error: `The arguments of ${tool.name} are nested too deep.` };
  if (isTooDeep(received)) return tooDeep;
  const { security_risk, summary, ...rest } = received;
  const risk = readRisk(tool, security_risk);
  const own = ownSummary(tool) && summary !== undefined ? { ...rest, summary } : rest;
  const given = tool.completeArguments?.(own, alias) ?? own;
  const fit = tool.readArguments?.(given) ?? fitArguments(tool.parameters, given);
  const problems = [
    ...(risk ? [] : [`security_risk must be one of ${securityRisks.join(", ")}`]),
    ...("problems" in fit ? fit.problems : []),
  ];
  if ("problems" in fit || !risk) {
    const names = Object.keys(received).map(shortName).slice(0, 30).join(", ") || "none";
    return {
      error: `Invalid arguments for ${tool.name}: ${problems.slice(0, 10).join("; ")}. Parameters received: ${names}.`,
    };
  }
  // Decoded texts may be nested deeply.
  if (isTooDeep(fit.fitted)) return tooDeep;
  const action = { kind: tool.actionKind, ...fit.fitted } as Action;
  const text = tool.describe?.(action) ?? (typeof summary === "string" ? summary.trim() : "");
  return { tool, action, securityRisk: risk, ...(text && { summary: text }) };
}

/**
 * The tools as a model reads them: portable JSON Schema plus optional leading `security_risk`
 * (unless read-only) and `summary` (events.md section 3).
 */
export function modelTools(tools: readonly Tool[]): ModelTool[] {
  return tools.map((tool) => {
    const known = modelForms.get(tool) ?? modelForm(tool);
    modelForms.set(tool, known);
    return known;
  });
}

/** Cache: each step needs the forms, and they never change. */
const modelForms = new WeakMap<Tool, ModelTool>();

function modelForm(tool: Tool): ModelTool {
  const { properties = {}, ...rest } = plainSchema(tool.parameters) as {
    properties?: Record<string, unknown>;
  };
  return {
    name: tool.name,
    description: tool.description,
    parameters: {
      ...rest,
      properties: {
        ...(tool.readOnly ? {} : { security_risk: riskSchema }),
        summary: summarySchema,
        ...properties,
      },
    },
  };
}

const riskSchema = {
  type: "string",
  enum: [...securityRisks],
  description:
    "How risky this call is. LOW: only reads. MEDIUM: edits, installs or runs code inside the sandbox. " +
    "HIGH: sends data out, reaches beyond the sandbox, uses privileges or runs unverified code from the network.",
};
const summarySchema = { type: "string", description: "What this call does and why, in about 10 words." };

const keptKeys = ["type", "description", "properties", "required", "items", "enum"];

function plainSchema(schema: TSchema): Record<string, unknown> {
  const plain: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (!keptKeys.includes(key)) continue;
    if (key === "items") plain[key] = plainSchema(value as TSchema);
    else if (key === "properties") {
      plain[key] = Object.fromEntries(
        Object.entries(value as Record<string, TSchema>).map(([name, item]) => [name, plainSchema(item)]),
      );
    } else plain[key] = value;
  }
  return plain;
}

function findTool(written: string, tools: readonly Tool[]): { tool: Tool; alias: string } | undefined {
  const leading = /^\s*([A-Za-z_][A-Za-z0-9_-]*)/.exec(written)?.[1] ?? "";
  for (const name of [written, leading, leading.toLowerCase()]) {
    const tool =
      tools.find((candidate) => candidate.name === name) ??
      tools.find(({ aliases }) => aliases?.includes(name));
    if (tool) return { tool, alias: name };
  }
  return undefined;
}

function readRisk(tool: Tool, value: unknown): SecurityRisk | undefined {
  if (tool.readOnly || value === undefined || value === null) return "UNKNOWN";
  const risk = typeof value === "string" ? value.trim().toUpperCase() : "";
  return securityRisks.find((known) => known === risk);
}

function ownSummary(tool: Tool): boolean {
  return "summary" in ((tool.parameters as { properties?: object }).properties ?? {});
}
