import { isObject } from "@sandpiper/core/is-object";
import { stripUnknownFields } from "@sandpiper/core/strip-unknown-fields";
import type { TSchema } from "typebox";
import { Default, Errors } from "typebox/value";

type JsonSchema = {
  type?: string;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  enum?: unknown[];
};

/** Parses a call's arguments, tolerating raw line breaks; undefined when not an object. */
export function parseArguments(text: string): Record<string, unknown> | undefined {
  if (text.trim() === "") return {};
  let value = parseJson(text) ?? parseJson(escapeControls(text));
  if (typeof value === "string") value = parseJson(value);
  if (value === null) return {};
  return isObject(value) ? value : undefined;
}

/**
 * Fits arguments to a schema (events.md section 3): drops nulls, decodes JSON texts, joins pieces,
 * parses numbers and booleans, fills in defaults.
 */
export function fitArguments(
  parameters: TSchema,
  received: Record<string, unknown>,
): { fitted: Record<string, unknown> } | { problems: string[] } {
  const schema = parameters as JsonSchema;
  const unknown = Object.keys(received).filter(
    (name) => received[name] !== null && !Object.hasOwn(schema.properties ?? {}, name),
  );
  const value = Default(parameters, coerce(schema, received));
  const problems = [
    ...Errors(parameters, value).map(problem),
    ...unknown.map((name) => `${shortName(name)} is not a parameter of this tool`),
  ];
  if (problems.length > 0) return { problems: [...new Set(problems)] };
  return { fitted: stripUnknownFields(parameters, value) as Record<string, unknown> };
}

/** Makes a name from the model safe for a message. */
export function shortName(name: string): string {
  const clean = name.replace(/[^\x20-\x7e]/g, "?");
  return clean.length > 60 ? `${clean.slice(0, 60)}...` : clean;
}

/** Follows the schema, not the value, so its depth is bounded. */
function coerce(schema: JsonSchema | undefined, value: unknown): unknown {
  switch (schema?.type) {
    case "object": {
      const object = typeof value === "string" ? parseJson(value) : value;
      if (!isObject(object)) return value;
      // Without listed properties, any are allowed.
      const { properties } = schema;
      const kept = Object.entries(object).filter(
        ([name, item]) => item !== null && (!properties || Object.hasOwn(properties, name)),
      );
      return Object.fromEntries(kept.map(([name, item]) => [name, coerce(schema.properties?.[name], item)]));
    }
    case "array": {
      const list = typeof value === "string" ? parseJson(value) : value;
      return Array.isArray(list) ? list.map((item) => coerce(schema.items, item)) : value;
    }
    case "string":
      return Array.isArray(value) && value.every((piece) => typeof piece === "string")
        ? value.join("")
        : value;
    case "number":
    case "integer":
      return typeof value === "string" && /^\s*[+-]?\d+(\.\d+)?\s*$/.test(value) ? Number(value) : value;
    case "boolean":
      return typeof value === "string" && /^(true|false)$/i.test(value.trim())
        ? value.trim().toLowerCase() === "true"
        : value;
    default:
      return value;
  }
}

function problem(error: { keyword: string; instancePath: string; message: string; params: unknown }): string {
  const path = error.instancePath.slice(1).replaceAll("/", ".");
  if (error.keyword === "required") {
    const { requiredProperties = [] } = error.params as { requiredProperties?: string[] };
    return `${[...(path ? [path] : []), requiredProperties.join(", ")].join(".")} is missing`;
  }
  if (error.keyword === "enum") {
    const { allowedValues = [] } = error.params as { allowedValues?: unknown[] };
    return `${path} must be one of ${allowedValues.join(", ")}`;
  }
  if (error.keyword === "maxLength") {
    const { limit } = error.params as { limit: number };
    return `${path} is too long, because it can have ${limit} characters at most`;
  }
  return `${path || "the arguments"} ${error.message}`;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Escapes raw control characters in JSON strings, in linear time. */
function escapeControls(text: string): string {
  let inside = false;
  return text.replace(/"|\\[\s\S]?|[\x00-\x1f]/g, (found) => {
    if (found === '"') inside = !inside;
    const last = found.at(-1)!;
    if (!inside || last > "\x1f") return found;
    return `${found.length === 2 ? "\\\\" : ""}\\u${last.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
