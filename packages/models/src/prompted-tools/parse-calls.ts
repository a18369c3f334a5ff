import type { MessageToolCall } from "@sandpiper/wire";
import { newId } from "@sandpiper/wire";
import type { ModelTool } from "../model.ts";

/** The text of an answer without its calls, the calls, and the error of a malformed one. */
export interface ParsedResponse {
  text: string;
  toolCalls: MessageToolCall[];
  problem?: string;
}

const opening = "<function=";

/** Maximum calls read from one answer: the instructions ask for one. */
const maxCalls = 100;

/**
 * Parses calls that a model wrote as text. The text between a parameter's tags, without one line
 * break at each end, is its value; an unclosed call or parameter ends with the text, as after a
 * stop sequence. Linear in the length. Never throws.
 */
export function parseCalls(answer: string, tools: readonly ModelTool[]): ParsedResponse {
  const start = answer.indexOf(opening);
  if (start < 0) return { text: answer, toolCalls: [] };
  const text = answer.slice(0, start).trimEnd();
  const toolCalls: MessageToolCall[] = [];
  for (let at = start; at >= 0 && toolCalls.length < maxCalls; ) {
    const nameEnd = answer.indexOf(">", at);
    const name = nameEnd < 0 ? "" : answer.slice(at + opening.length, nameEnd).trim();
    if (!/^[\w.:-]{1,200}$/.test(name)) {
      return {
        text: answer,
        toolCalls: [],
        problem: "a call begins with <function=name> on one line, and this one has no such name",
      };
    }
    const body = readBody(answer, nameEnd + 1);
    if (body.problem)
      return { text: answer, toolCalls: [], problem: `${body.problem} in the call of ${name}` };
    const tool = tools.find((tool) => tool.name === name);
    toolCalls.push({
      id: `call_${newId()}`,
      name,
      arguments: toJson(body.parameters, tool),
      origin: "completion",
    });
    at = answer.indexOf(opening, body.end);
  }
  return { text, toolCalls };
}

interface Body {
  parameters: [string, string][];
  end: number;
  problem?: string;
}

/** Reads parameters up to the end of the call. */
function readBody(answer: string, from: number): Body {
  const parameters: [string, string][] = [];
  for (let at = from; ; ) {
    const rest = /\S/g;
    rest.lastIndex = at;
    const next = rest.exec(answer)?.index ?? answer.length;
    if (next === answer.length || answer.startsWith(opening, next)) return { parameters, end: next };
    if (answer.startsWith("</function", next)) return { parameters, end: next + "</function".length };
    if (!answer.startsWith("<parameter=", next)) {
      const found = answer.slice(next, next + 40);
      return {
        parameters,
        end: next,
        problem: `<parameter=name> or </function> was expected instead of ${JSON.stringify(found)}`,
      };
    }
    const nameEnd = answer.indexOf(">", next);
    const name = nameEnd < 0 ? "" : answer.slice(next + "<parameter=".length, nameEnd).trim();
    if (!/^[\w.-]{1,200}$/.test(name)) return { parameters, end: next, problem: "a parameter has no name" };
    const close = answer.indexOf("</parameter>", nameEnd);
    const stop = close < 0 ? openEnd(answer, nameEnd + 1) : close;
    parameters.push([
      name,
      answer
        .slice(nameEnd + 1, stop)
        .replace(/^\r?\n/, "")
        .replace(/\r?\n$/, ""),
    ]);
    at = close < 0 ? stop : close + "</parameter>".length;
  }
}

/** Where a parameter ends that is not closed. */
function openEnd(answer: string, from: number): number {
  const end = answer.indexOf("</function", from);
  return end < 0 ? answer.length : end;
}

/**
 * Converts parameters to arguments: texts stay texts, other values are parsed as JSON when the
 * schema asks for it.
 */
function toJson(parameters: readonly [string, string][], tool: ModelTool | undefined): string {
  const properties = (tool?.parameters.properties ?? {}) as Record<string, { type?: unknown }>;
  const entries = parameters.map(([name, text]): [string, unknown] => {
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const isText = !schema || takesText(schema);
    return [name, isText ? text : jsonOr(text)];
  });
  return JSON.stringify(Object.fromEntries(entries));
}

function takesText(schema: { type?: unknown; anyOf?: unknown; enum?: unknown }): boolean {
  if (Array.isArray(schema.anyOf)) return schema.anyOf.some((option) => takesText(option));
  if (Array.isArray(schema.enum)) return schema.enum.some((value) => typeof value === "string");
  return schema.type === "string" || (Array.isArray(schema.type) && schema.type.includes("string"));
}

function jsonOr(text: string): unknown {
  const trimmed = text.trim();
  try {
    return JSON.parse(
      /^(?:True|False|None)$/.test(trimmed)
        ? ({ True: "true", False: "false", None: "null" }[trimmed] ?? trimmed)
        : trimmed,
    );
  } catch {
    return text;
  }
}
