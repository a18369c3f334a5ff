import { isObject } from "@sandpiper/core/is-object";
import { type TSchema, Type } from "typebox";

const types = ["object", "array", "string", "number", "integer", "boolean", "null"];

/** Compared values of an enum. */
const maxEnum = 1000;

/**
 * Reduces a foreign JSON Schema to types, properties, required, items and plain enums. Drops the
 * rest, which could make a check fail or take forever.
 */
export function givenSchema(schema: unknown): TSchema {
  const { type, description, properties, required, items, enum: values } = isObject(schema) ? schema : {};
  const named = isObject(properties)
    ? Object.entries(properties).map(([name, one]) => [name, givenSchema(one)])
    : undefined;
  return Type.Unsafe<unknown>({
    ...(isType(type) && { type }),
    ...(typeof description === "string" && { description }),
    ...(named && { properties: Object.fromEntries(named) }),
    ...(Array.isArray(required) && { required: required.filter((name) => typeof name === "string") }),
    ...(isObject(items) && { items: givenSchema(items) }),
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
