import { isObject } from "@sandpiper/core/is-object";
import { type TSchema, Type } from "typebox";
import { shownText } from "./message-text.ts";

/** Limits per schema: nodes, depth, properties per object, enum values, characters. */
const maxParts = 400;
const maxDepth = 8;
const maxProperties = 100;
const maxEnum = 100;
const maxEnumText = 200;
const maxDescription = 1_000;
const maxText = 12_000;

const types = ["object", "array", "string", "number", "integer", "boolean"];

/** Parameter names that every provider accepts. */
const goodName = /^[A-Za-z0-9_.-]{1,64}$/;

type Schema = Record<string, unknown>;

/** Remaining limits of one tool. */
interface Budget {
  parts: number;
  text: number;
  root: Schema;
  /** Hides secrets. */
  shown(text: string): string;
}

/**
 * Reduces an MCP tool's schema to types, descriptions, properties, required names, items and plain
 * enums. Resolves local references and unions with null; drops or cuts the rest, because the server
 * validates. Drops `security_risk`, which is ours, and parameters whose name `shown` changes.
 */
export function inputSchema(given: unknown, shown: (text: string) => string = (text) => text): TSchema {
  const root = isObject(given) ? given : {};
  const budget: Budget = { parts: maxParts, text: maxText, root, shown };
  const { properties = {}, required } = reduceObject(resolve(root, budget), 0, budget, ["security_risk"]);
  return Type.Unsafe<unknown>({ type: "object", properties, ...(required && { required }) });
}

function reduce(given: unknown, depth: number, budget: Budget): Schema {
  budget.parts -= 1;
  const schema = resolve(given, budget);
  const text =
    typeof schema.description === "string"
      ? shownText(schema.description, Math.min(maxDescription, budget.text), budget.shown)
      : "";
  budget.text = Math.max(0, budget.text - text.length);
  const description = text === "" ? {} : { description: text };
  const type = typeOf(schema);
  const values = type === undefined || type === "string" ? enumeration(schema, budget) : undefined;
  if (values) return { type: "string", ...description, enum: values };
  if (type === "object")
    return { type, ...description, ...(depth < maxDepth ? reduceObject(schema, depth, budget, []) : {}) };
  if (type !== "array") return { ...(type && { type }), ...description };
  // Providers refuse an array without items.
  const items = depth < maxDepth && budget.parts > 0 ? reduce(schema.items, depth + 1, budget) : {};
  return { type, ...description, items };
}

function reduceObject(
  schema: Schema,
  depth: number,
  budget: Budget,
  taken: readonly string[],
): { properties?: Schema; required?: string[] } {
  if (!isObject(schema.properties)) return {};
  const properties: Schema = {};
  let count = 0;
  for (const name in schema.properties) {
    if (count >= maxProperties || budget.parts <= 0) break;
    if (!goodName.test(name) || !Object.hasOwn(schema.properties, name)) continue;
    if (name === "__proto__" || taken.includes(name) || budget.shown(name) !== name) continue;
    properties[name] = reduce(schema.properties[name], depth + 1, budget);
    count += 1;
  }
  const listed: unknown[] = Array.isArray(schema.required) ? schema.required.slice(0, 1_000) : [];
  const isKept = (name: unknown) => typeof name === "string" && Object.hasOwn(properties, name);
  const required = [...new Set(listed.filter(isKept))] as string[];
  return { properties, ...(required.length > 0 && { required }) };
}

/** Resolves references and nullable unions, at most 8 steps. */
function resolve(given: unknown, budget: Budget): Schema {
  let schema = isObject(given) ? given : {};
  for (let steps = 0; steps < 8; steps++) {
    const next = target(schema, budget.root) ?? onlyPart(schema);
    if (!next) break;
    const { description } = schema;
    schema = typeof description === "string" ? { ...next, description } : next;
  }
  return schema;
}

function target({ $ref: reference }: Schema, root: Schema): Schema | undefined {
  if (typeof reference !== "string" || !reference.startsWith("#/") || reference.length > 500)
    return undefined;
  let place: unknown = root;
  for (const step of reference.slice(2).split("/")) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(place) || !Object.hasOwn(place, name)) return undefined;
    place = place[name];
  }
  return isObject(place) ? place : undefined;
}

function onlyPart(schema: Schema): Schema | undefined {
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const parts = schema[key];
    if (!Array.isArray(parts) || parts.length > 20) continue;
    const real = parts.filter((part) => isObject(part) && part.type !== "null");
    if (real.length === 1) return real[0] as Schema;
  }
  return undefined;
}

function typeOf({ type, properties, items }: Schema): string | undefined {
  const named = (Array.isArray(type) ? type.slice(0, 10) : [type]).filter((one) =>
    types.includes(one as string),
  ) as string[];
  if (named.length === 1) return named[0];
  if (named.length > 1) return undefined;
  return isObject(properties) ? "object" : isObject(items) ? "array" : undefined;
}

/** Texts only: some providers accept no other values. */
function enumeration(schema: Schema, budget: Budget): string[] | undefined {
  const values = Array.isArray(schema.enum) ? schema.enum : "const" in schema ? [schema.const] : [];
  if (values.length === 0 || values.length > maxEnum) return undefined;
  const length = values.reduce(
    (sum: number, value) => sum + (typeof value === "string" ? value.length : Number.NaN),
    0,
  );
  // NaN: not all values are texts.
  if (!(length <= budget.text) || values.some((value) => value.length > maxEnumText)) return undefined;
  budget.text -= length;
  return [...new Set(values.map((value: string) => shownText(value, maxEnumText, budget.shown)))];
}
