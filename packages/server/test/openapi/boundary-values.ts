import type { JsonSchema } from "../../src/http/openapi/schema.ts";

/** A value at a boundary of a schema, and which boundary, for failures. */
export interface Boundary {
  about: string;
  value: unknown;
}

/** Nesting of objects whose fields are varied. */
const maxDepth = 2;

/** Longest text that is made for a boundary, characters. */
const maxMade = 20_000;

/** Makes the values that a schema just allows, and those that it just forbids. */
export class BoundaryValues {
  readonly #schemas: Record<string, JsonSchema>;
  /** Components inside of others whose parts were varied: once is enough. */
  readonly #varied = new Set<string>();

  constructor(schemas: Record<string, JsonSchema>) {
    this.#schemas = schemas;
  }

  resolve(schema: JsonSchema): JsonSchema {
    const name = schema.$ref?.split("/").at(-1);
    return name === undefined ? schema : this.resolve(this.#schemas[name]!);
  }

  #isVaried(kind: string, { $ref }: JsonSchema, depth: number): boolean {
    const key = `${kind} ${$ref}`;
    if ($ref === undefined || depth === 0) return false;
    return this.#varied.has(key) || !this.#varied.add(key);
  }

  /** The shortest value that fits. */
  minimal(given: JsonSchema): unknown {
    const schema = this.resolve(given);
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[0];
    if (schema.anyOf) return this.minimal(schema.anyOf[0]!);
    if (schema.properties) {
      const { properties, required = [] } = schema;
      return Object.fromEntries(required.map((name) => [name, this.minimal(properties[name]!)]));
    }
    switch (schema.type) {
      case "array":
        return Array.from({ length: schema.minItems ?? 0 }, () => this.minimal(schema.items ?? {}));
      case "integer":
      case "number":
        return (
          schema.minimum ??
          ((schema.exclusiveMinimum ?? -1) as number) + (schema.type === "number" ? 0.05 : 1)
        );
      case "boolean":
        return false;
      case "null":
        return null;
      case "string":
        return this.#text(schema);
      default:
        return {};
    }
  }

  /** Whole values that fit, each with one part at a boundary. */
  *allowed(given: JsonSchema, depth = 0): Generator<Boundary> {
    if (this.#isVaried("allowed", given, depth)) return;
    const schema = this.resolve(given);
    if (schema.const !== undefined) return;
    if (schema.enum) return yield* schema.enum.map((value) => ({ about: `enum ${value}`, value }));
    if (schema.anyOf) {
      for (const one of schema.anyOf) {
        yield { about: "alternative", value: this.minimal(one) };
        yield* this.allowed(one, depth);
      }
      return;
    }
    if (schema.properties && depth < maxDepth) {
      for (const [name, property] of Object.entries(schema.properties)) {
        if ((this.resolve(property) as { readOnly?: boolean }).readOnly) continue;
        for (const { about, value } of this.allowed(property, depth + 1))
          yield { about: `${name}: ${about}`, value: { ...(this.minimal(schema) as object), [name]: value } };
      }
      return;
    }
    const {
      minimum,
      maximum,
      minLength = 0,
      maxLength,
    } = schema as JsonSchema & { maximum?: number; maxLength?: number };
    switch (schema.type) {
      case "integer":
      case "number":
        if (minimum !== undefined) yield { about: "minimum", value: minimum };
        if (maximum !== undefined) yield { about: "maximum", value: maximum };
        return;
      case "boolean":
        return yield* [true, false].map((value) => ({ about: String(value), value }));
      case "string":
        yield { about: "a text", value: this.#text(schema) };
        if (schema.pattern !== undefined && !isTextPattern(schema.pattern)) return;
        if (schema.format !== undefined && schema.format !== "password") return;
        if (minLength === 0) yield { about: "empty", value: "" };
        if (maxLength !== undefined && maxLength <= maxMade)
          yield { about: "maxLength", value: "x".repeat(maxLength) };
        if (maxLength === undefined || maxLength >= 5) yield { about: "other characters", value: "é😀 /%" };
        return;
      case "array":
        yield { about: "one item", value: [this.minimal(schema.items ?? {})] };
    }
  }

  /** Whole values that do not fit, each because of one part. */
  *forbidden(given: JsonSchema, depth = 0): Generator<Boundary> {
    if (this.#isVaried("forbidden", given, depth)) return;
    const schema = this.resolve(given);
    if (schema.anyOf) {
      const kinds = new Set(schema.anyOf.map((one) => this.resolve(one).type));
      // Unions of kinds leave little that is forbidden; a nullable value is what it is otherwise.
      if (schema.anyOf.length === 2 && kinds.has("null")) yield* this.forbidden(schema.anyOf[0]!, depth);
      return;
    }
    if (schema.enum) return yield { about: "not in enum", value: "not-one-of-them" };
    if (schema.const !== undefined) return yield { about: "not the constant", value: "not-the-constant" };
    if (schema.properties) {
      if (depth >= maxDepth) return;
      yield { about: "no object", value: "text" };
      const whole = this.minimal(schema) as object;
      for (const name of schema.required ?? []) {
        const { [name as never]: _, ...rest } = whole;
        if (schema.properties[name]?.default === undefined) yield { about: `${name}: missing`, value: rest };
      }
      for (const [name, property] of Object.entries(schema.properties))
        for (const { about, value } of this.forbidden(property, depth + 1))
          yield { about: `${name}: ${about}`, value: { ...whole, [name]: value } };
      return;
    }
    const {
      minimum,
      maximum,
      minLength = 0,
      maxLength,
    } = schema as JsonSchema & { maximum?: number; maxLength?: number };
    switch (schema.type) {
      case "integer":
      case "number":
        if (schema.type === "integer") yield { about: "a fraction", value: 1.5 };
        yield { about: "no number", value: "many" };
        if (minimum !== undefined)
          yield { about: "below the minimum", value: Math.min(minimum - 1, minimum * 2) };
        if (maximum !== undefined) yield { about: "above the maximum", value: maximum * 2 + 1 };
        return;
      case "boolean":
        return yield { about: "no boolean", value: "maybe" };
      case "string":
        yield { about: "no text", value: { a: 1 } };
        if (minLength > 0) yield { about: "too short", value: "" };
        if (maxLength !== undefined && maxLength <= maxMade)
          yield { about: "too long", value: "x".repeat(maxLength + 1) };
        if (schema.pattern !== undefined) yield { about: "a NUL character", value: "a\0b" };
        if (schema.pattern !== undefined && !isTextPattern(schema.pattern))
          yield { about: "not the pattern", value: "\u0001 no" };
        if (schema.format === "date-time") yield { about: "no time", value: "yesterday" };
        return;
      case "array":
        yield { about: "no list", value: "text" };
        if ((schema as { maxItems?: number }).maxItems !== undefined)
          yield {
            about: "too many items",
            value: Array.from({ length: (schema as { maxItems: number }).maxItems + 1 }, () =>
              this.minimal(schema.items ?? {}),
            ),
          };
    }
  }

  #text({ format, pattern, minLength = 1, examples }: JsonSchema): string {
    if (examples?.[0] !== undefined) return String(examples[0]);
    if (format === "date-time") return "2026-01-31T12:00:00Z";
    const plain = "a".repeat(Math.max(1, minLength));
    if (pattern === undefined && format !== "uuid") return plain;
    const fits = new RegExp(pattern ?? uuid.source, "u");
    const text = [plain, ...samples].find((one) => fits.test(one) && one.length >= minLength);
    if (text === undefined) throw new Error(`No sample fits ${pattern}: add one.`);
    return text;
  }
}

const uuid = /^01234567-/;

/** Texts for the patterns of the documents. */
const samples = [
  "01234567-89ab-4def-8123-456789abcdef",
  "0".repeat(64),
  "/workspace",
  "/workspace/project",
  "A_NAME",
  "one",
  "1",
  "acme/widgets",
  "example.com",
  "https://example.com/",
];

/** Whether a pattern only excludes NUL characters. */
export function isTextPattern(pattern: string): boolean {
  return pattern === "^[^\\u0000]*$";
}
