import * as wire from "@sandpiper/wire";
import type { JsonSchema } from "./schema.ts";

/** Keywords that may accompany a `$ref` and do not distinguish schemas. */
const siblingKeywords = ["default", "description", "examples"] as const;

/**
 * Replaces a schema that equals one exported by `wire` with a reference to the component of that
 * name. So schemas need no ids, and the document does not repeat them.
 */
export class Components {
  readonly schemas: Record<string, JsonSchema> = {};
  /** The first export of each schema. */
  readonly #exports = new Map<string, { name: string; schema: JsonSchema }>();

  constructor() {
    for (const [name, schema] of Object.entries<unknown>(wire)) {
      if (!isNameable(schema)) continue;
      const key = getKey(schema);
      if (!this.#exports.has(key)) this.#exports.set(key, { name, schema });
    }
  }

  /** Replaces everything that has a name with references. */
  toReference(given: JsonSchema): JsonSchema {
    const { "x-documented": documented, ...schema } = given;
    if (documented !== undefined) return this.toReference({ ...schema, ...(documented as JsonSchema) });
    const exported = isNameable(schema) ? this.#exports.get(getKey(schema)) : undefined;
    if (exported === undefined) return this.#inner(schema);
    const { name } = exported;
    if (!(name in this.schemas)) {
      this.schemas[name] = {};
      this.schemas[name] = this.#inner(exported.schema);
    }
    const reference: JsonSchema = { $ref: `#/components/schemas/${name}` };
    for (const keyword of siblingKeywords)
      if (schema[keyword] !== undefined) Object.assign(reference, { [keyword]: schema[keyword] });
    return reference;
  }

  getSorted(): Record<string, JsonSchema> {
    return Object.fromEntries(Object.entries(this.schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #inner(schema: JsonSchema): JsonSchema {
    const result: JsonSchema = {};
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === "properties" || keyword === "patternProperties")
        result[keyword] = this.#each(value as Record<string, JsonSchema>);
      else if (keyword === "anyOf" || keyword === "allOf") {
        result[keyword] = (value as JsonSchema[]).map((one) => this.toReference(one));
      } else if (keyword === "items" || (keyword === "additionalProperties" && typeof value === "object")) {
        result[keyword] = this.toReference(value as JsonSchema);
      } else result[keyword] = value;
    }
    return result;
  }

  #each(schemas: Record<string, JsonSchema>): Record<string, JsonSchema> {
    return Object.fromEntries(
      Object.entries(schemas).map(([key, schema]) => [key, this.toReference(schema)]),
    );
  }
}

/** Objects, unions and enums get names; plain texts and numbers stay inline. */
function isNameable(value: unknown): value is JsonSchema {
  if (typeof value !== "object" || value === null) return false;
  const schema = value as JsonSchema;
  return (
    schema.properties !== undefined ||
    schema.enum !== undefined ||
    (schema.anyOf !== undefined && !isNullable(schema))
  );
}

function isNullable({ anyOf = [] }: JsonSchema): boolean {
  return anyOf.length === 2 && anyOf[1]!.type === "null";
}

function getKey(schema: JsonSchema): string {
  const rest = { ...schema };
  for (const keyword of siblingKeywords) delete rest[keyword];
  return writeSorted(rest);
}

/** Texts of the schemas in schemas: each is part of many. */
const texts = new WeakMap<object, string>();

/** JSON with sorted keys. */
function writeSorted(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const known = texts.get(value);
  if (known !== undefined) return known;
  const text = Array.isArray(value)
    ? `[${value.map(writeSorted).join(",")}]`
    : `{${Object.entries(value)
        .filter(([, member]) => member !== undefined)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([key, member]) => `${JSON.stringify(key)}:${writeSorted(member)}`)
        .join(",")}}`;
  texts.set(value, text);
  return text;
}
