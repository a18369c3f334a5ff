import fc, { type Arbitrary } from "fast-check";
import type { JsonSchema } from "../../src/http/openapi/schema.ts";

/** Control characters, surrogates, patterns, paths, SQL, shell text and long texts. */
const hostileTexts = [
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\r\nX-Injected: 1",
  "\u202e\u200b\ufeff",
  "\ud800",
  "😀".repeat(50),
  "é".normalize("NFD"),
  "%",
  "%00",
  "_".repeat(100),
  "'; DROP TABLE conversations; --",
  '"}],',
  "../../../../etc/passwd",
  "/",
  "//",
  ".",
  "..",
  "${jndi:ldap://127.0.0.1/a}",
  "$(id)`id`;id|id&",
  "-rf",
  "__proto__",
  "constructor",
  "toString",
  "null",
  "undefined",
  "NaN",
  "true",
  "-1",
  "0",
  "1e309",
  "99999999999999999999",
  "2026-13-45T99:99:99Z",
  "2026-01-01T00:00:00Z",
  "+275760-09-13T00:00:00.001Z",
  "0000-01-01T00:00:00",
  "MTAw",
  "http://127.0.0.1:1/",
  "file:///etc/passwd",
  "x".repeat(300),
  "x".repeat(5_000),
  "ß".repeat(2_000),
];

export const anyText: Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hostileTexts) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 40 }) },
  { weight: 1, arbitrary: fc.string({ maxLength: 20 }) },
);

/** Any JSON, mostly of the wrong type. */
export const anyJson: Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: anyText },
  {
    weight: 4,
    arbitrary: fc.constantFrom<unknown>(
      null,
      true,
      false,
      0,
      -1,
      1.5,
      1e308,
      2 ** 53,
      -0,
      [],
      {},
      [null],
      [[[]]],
      {
        a: { b: {} },
      },
    ),
  },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
);

/** Values of a field that make a request reach something: ids, names and keys of the target. */
export type Pool = (name: string) => readonly unknown[];

/** A value that fits a schema, from `pool` where it knows the name; sometimes one part is wrong. */
export function anyFitting(
  schema: JsonSchema,
  pool: Pool,
  schemas: Record<string, JsonSchema>,
  name = "",
  depth = 0,
): Arbitrary<unknown> {
  const reference = schema.$ref?.split("/").at(-1);
  if (reference !== undefined) return anyFitting(schemas[reference] ?? {}, pool, schemas, name, depth);
  const known = pool(name);
  const fitting = fittingValue(schema, pool, schemas, name, depth);
  return fc.oneof(
    { weight: known.length > 0 ? 2 : 20, arbitrary: fitting },
    ...(known.length > 0 ? [{ weight: 18, arbitrary: fc.constantFrom(...known) }] : []),
    { weight: depth === 0 ? 0 : 1, arbitrary: anyJson },
  );
}

function fittingValue(
  schema: JsonSchema,
  pool: Pool,
  schemas: Record<string, JsonSchema>,
  name: string,
  depth: number,
): Arbitrary<unknown> {
  const inner = (one: JsonSchema, key = name) => anyFitting(one, pool, schemas, key, depth + 1);
  if (depth > 7) return fc.constant(null);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((one) => inner(one)));
  if (schema.properties) return objectOf(schema, inner);
  switch (schema.type) {
    case "array":
      return fc.array(inner(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: 3 });
    case "object":
      return fc.dictionary(fc.oneof(fc.string({ minLength: 1, maxLength: 8 }), anyText), inner({}), {
        maxKeys: 3,
      });
    case "integer":
      return fc.integer({ min: schema.minimum ?? -5, max: (schema.maximum as number | undefined) ?? 1_000 });
    case "number":
      return fc.double({ min: schema.minimum ?? -5, max: 1_000, noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "string":
      return fc.oneof(
        fc.constantFrom("text", "main", "acme/widgets", "A_NAME"),
        fc.string({ minLength: 1, maxLength: 12 }),
      );
    default:
      return anyJson;
  }
}

function objectOf(
  { properties = {}, required = [] }: JsonSchema,
  inner: (one: JsonSchema, key: string) => Arbitrary<unknown>,
) {
  const fields = Object.entries(properties).map(([key, property]) => {
    const needed = required.includes(key);
    // Most optional fields are left out most of the time, or no value would be taken as a whole.
    const absent = { weight: needed ? 1 : 60, arbitrary: fc.constant(undefined) };
    return [key, fc.oneof({ weight: needed ? 30 : 15, arbitrary: inner(property, key) }, absent)] as const;
  });
  return fc
    .tuple(
      fc.record(Object.fromEntries(fields)),
      fc.oneof(
        { weight: 9, arbitrary: fc.constant({}) },
        { weight: 1, arbitrary: fc.dictionary(anyText, anyJson, { maxKeys: 2 }) },
      ),
    )
    .map(([own, others]) => ({ ...others, ...own }));
}
