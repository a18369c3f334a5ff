import { findClosestName } from "@sandpiper/core/closest-name";
import { ignoredNestedSettings, ignoredSettings, isObjectSchema } from "@sandpiper/wire";
import type { preValidationAsyncHookHandler } from "fastify";
import type { TSchema } from "typebox";
import { getInnerSchema } from "../../users/settings/fields.ts";
import { InvalidInput, type Issue } from "./invalid-input.ts";

/** Maximum number of unknown settings that a response names. */
const maxIssues = 10;

/** Longest part of an unknown name that a response repeats, characters. */
const maxNameLength = 100;

/**
 * The hook that refuses settings which the schema does not name and released clients do not send: a
 * misspelt setting would seem to be stored. Throws InvalidInput.
 */
export function refuseUnknownSettings(schema: TSchema): preValidationAsyncHookHandler {
  return async ({ body }) => {
    // The others are not even looked at: each is compared with all known names.
    const issues = [...findUnknown(schema, body, ["body"], ignoredSettings).take(maxIssues)];
    if (issues.length > 0) throw new InvalidInput(issues);
  };
}

function* findUnknown(
  schema: TSchema,
  value: unknown,
  loc: readonly string[],
  ignored: ReadonlySet<string>,
): Generator<Issue> {
  const inner = getInnerSchema(schema);
  if (!isObjectSchema(inner) || typeof value !== "object" || value === null) return;
  const known = Object.keys(inner.properties);
  for (const [name, child] of Object.entries(value)) {
    const place = [...loc, name.slice(0, maxNameLength)];
    const property = Object.hasOwn(inner.properties, name) ? inner.properties[name] : undefined;
    if (property) yield* findUnknown(property as TSchema, child, place, ignoredNestedSettings);
    else if (!ignored.has(name)) yield { loc: place, msg: explain(name, known), type: "extra_forbidden" };
  }
}

function explain(name: string, known: readonly string[]): string {
  const meant = findClosestName(name, known);
  return `There is no such setting${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}
