import { isObject } from "@sandpiper/core/is-object";
import type { Action, ClientTool, Observation, ToolDefinition } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { type TSchema, Type } from "typebox";
import type { Tool } from "./tool.ts";

/**
 * A tool that the client runs (agent-server.md section 3.1, client_tools). The call is an event;
 * its result comes as a message.
 */
export function clientTool({ name, description, parameters, annotations }: ClientTool): Tool {
  const hint = (key: string, otherwise: boolean) =>
    typeof annotations?.[key] === "boolean" ? annotations[key] : otherwise;
  const definition = {
    kind: "ClientTool",
    title: name,
    description,
    action_type: `ClientAction_${name}`,
    observation_type: "ClientToolObservation",
    annotations: {
      title: name,
      readOnlyHint: hint("readOnlyHint", false),
      destructiveHint: hint("destructiveHint", true),
      idempotentHint: hint("idempotentHint", false),
      openWorldHint: hint("openWorldHint", true),
    },
    client_tool_name: name,
    input_schema: parameters,
  };
  return {
    name,
    description,
    definition: definition as ToolDefinition,
    parameters: toPlainSchema(parameters),
    actionKind: `ClientAction_${name}` as Action["kind"],
    outside: true,
    idempotent: false,
    readOnly: hint("readOnlyHint", false) as boolean,
    async run() {
      const text = `The call of ${name} was handed to the client. What comes of it follows as a message, if anything.`;
      // Only the client knows this kind, so it is not part of the union.
      return {
        kind: "ClientToolObservation",
        content: [textContent(text)],
        is_error: false,
      } as unknown as Observation;
    },
  };
}

const types = ["object", "array", "string", "number", "integer", "boolean", "null"];

/** Compared values of an enum. */
const maxEnum = 1000;

/**
 * Reduces a foreign JSON Schema to types, properties, required, items and plain enums. Drops the
 * rest, which could make a check fail or take forever.
 */
function toPlainSchema(schema: unknown): TSchema {
  const { type, description, properties, required, items, enum: values } = isObject(schema) ? schema : {};
  const named = isObject(properties)
    ? Object.entries(properties).map(([name, one]) => [name, toPlainSchema(one)])
    : undefined;
  return Type.Unsafe<unknown>({
    ...(isType(type) && { type }),
    ...(typeof description === "string" && { description }),
    ...(named && { properties: Object.fromEntries(named) }),
    ...(Array.isArray(required) && { required: required.filter((name) => typeof name === "string") }),
    ...(isObject(items) && { items: toPlainSchema(items) }),
    ...(Array.isArray(values) && values.length <= maxEnum && values.every(isPlain) && { enum: values }),
  });
}

function isType(type: unknown): boolean {
  const all = Array.isArray(type) ? type : [type];
  return all.length > 0 && all.every((one) => types.includes(one as string));
}

function isPlain(value: unknown): boolean {
  return value === null || typeof value !== "object";
}
