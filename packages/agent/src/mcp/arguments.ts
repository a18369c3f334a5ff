import type { TSchema } from "typebox";

type Properties = Record<string, { type?: string } | undefined>;

/**
 * The arguments of an MCP call, without nulls and with JSON text decoded. Only checks that required
 * ones exist: the server validates, and the known schema may be cut.
 */
export function readArguments(
  schema: TSchema,
  received: Record<string, unknown>,
): { fitted: { data: Record<string, unknown> } } | { problems: string[] } {
  const { properties = {}, required = [] } = schema as { properties?: Properties; required?: string[] };
  const given = Object.entries(received).filter(([name, value]) => value !== null || required.includes(name));
  const data = Object.fromEntries(
    given.map(([name, value]) => [
      name,
      decoded(Object.hasOwn(properties, name) ? properties[name]?.type : undefined, value),
    ]),
  );
  const problems = required.filter((name) => !Object.hasOwn(data, name)).map((name) => `${name} is missing`);
  return problems.length > 0 ? { problems } : { fitted: { data } };
}

function decoded(type: string | undefined, value: unknown): unknown {
  if (typeof value !== "string" || type === undefined || type === "string") return value;
  if ((type === "number" || type === "integer") && !/^\s*[+-]?\d{1,15}(\.\d{1,15})?\s*$/.test(value))
    return value;
  let parsed: unknown;
  try {
    parsed = JSON.parse(type === "boolean" ? value.trim().toLowerCase() : value.replace(/^\s*\+/, ""));
  } catch {
    return value;
  }
  const isList = Array.isArray(parsed);
  const found = parsed === null ? "null" : isList ? "array" : typeof parsed;
  return found === type || (found === "number" && type === "integer") ? parsed : value;
}
