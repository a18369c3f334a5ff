import fc, { type Arbitrary } from "fast-check";
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from "../../src/http/openapi-schema.ts";
import { anyText, fittingOf, type Pool } from "./schema-values.ts";

/** Whose key a request carries. */
export const credentials = ["none", "wrong", "stranger", "read-only", "sandbox", "owner"] as const;
export type Credential = (typeof credentials)[number];

/** One request, ready for the wire. */
export interface FuzzRequest {
  /** `METHOD /path/{of}/the/document`. */
  name: string;
  operation: Operation;
  method: string;
  /** Path and query, encoded. */
  url: string;
  credential: Credential;
  contentType: string | undefined;
  body: string | undefined;
}

/** All requests that a document lets one think of: each route, each kind of key, each parameter right and wrong, each way to break a body. */
export function anyRequest(document: OpenApiDocument, pool: Pool): Arbitrary<FuzzRequest> {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => requestOf(path, method, operation, document.components.schemas, pool)),
  );
  return fc.oneof(...operations);
}

function requestOf(
  path: string,
  method: string,
  operation: Operation,
  schemas: Record<string, JsonSchema>,
  pool: Pool,
): Arbitrary<FuzzRequest> {
  const parameters = operation.parameters ?? [];
  const inPath = fc.record(
    Object.fromEntries(parameters.filter((one) => one.in === "path").map((one) => [one.name, pathText(one, pool)])),
  );
  const inQuery = fc.tuple(...parameters.filter((one) => one.in === "query").map((one) => queryPairs(one, pool, schemas)));
  const credential = fc.oneof(
    { weight: 5, arbitrary: fc.constant<Credential>("owner") },
    { weight: 5, arbitrary: fc.constantFrom<Credential>(...credentials) },
  );
  return fc
    .tuple(inPath, inQuery, credential, bodyOf(operation, schemas, pool))
    .map(([names, pairs, who, { contentType, body }]) => {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name) =>
        encode(String((names as Record<string, string>)[name] ?? "x")),
      );
      const query = pairs.flat().map(([name, value]) => `${encode(name)}=${encode(value)}`);
      const url = query.length > 0 ? `${filled}?${query.join("&")}` : filled;
      return {
        name: `${method.toUpperCase()} ${path}`,
        operation,
        method: method.toUpperCase(),
        url,
        credential: who,
        contentType,
        body,
      };
    });
}

/** A path segment is never empty: that would be another path. */
function pathText({ name }: Parameter, pool: Pool): Arbitrary<string> {
  const known = pool(name).map(String);
  const hostile = anyText.filter((text) => text !== "" && text !== "." && text !== "..");
  return known.length > 0
    ? fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...known) }, { weight: 1, arbitrary: hostile })
    : hostile;
}

function queryPairs(
  { name, required, schema }: Parameter,
  pool: Pool,
  schemas: Record<string, JsonSchema>,
): Arbitrary<[string, string][]> {
  const right = fittingOf(schema, pool, schemas, name).map((value) =>
    [value].flat().map((one): [string, string] => [name, textOf(one)]),
  );
  return fc.oneof(
    { weight: required ? 24 : 8, arbitrary: right },
    { weight: required ? 1 : 16, arbitrary: fc.constant<[string, string][]>([]) },
    { weight: 1, arbitrary: anyText.map((text): [string, string][] => [[name, text]]) },
    {
      weight: 1,
      arbitrary: fc
        .array(anyText, { minLength: 2, maxLength: 120 })
        .map((all) => all.map((text): [string, string] => [name, text])),
    },
  );
}

function textOf(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

interface Body {
  contentType: string | undefined;
  body: string | undefined;
}

function bodyOf({ requestBody }: Operation, schemas: Record<string, JsonSchema>, pool: Pool): Arbitrary<Body> {
  const none: Body = { contentType: undefined, body: undefined };
  const json = (body: string): Body => ({ contentType: "application/json", body });
  const ruined = [
    "",
    "null",
    "[]",
    '"text"',
    "0",
    "{",
    '{"a":',
    "\ufeff{}",
    '{"__proto__":{"a":1}}',
    '{"a":"\\u0000"}',
    "\u0000",
    "{}}",
  ];
  const schema = requestBody?.content["application/json"]?.schema;
  if (!schema) {
    return fc.oneof({ weight: 8, arbitrary: fc.constant(none) }, { weight: 1, arbitrary: fc.constantFrom(...ruined.map(json)) });
  }
  const right = fittingOf(schema, pool, schemas).map((value) => JSON.stringify(value) ?? "");
  return fc.oneof(
    { weight: 16, arbitrary: right.map(json) },
    { weight: 2, arbitrary: fc.constantFrom(...ruined).map(json) },
    { weight: 1, arbitrary: right.map((text) => json(text.slice(0, -1))) },
    { weight: 1, arbitrary: fc.constantFrom(none, json("[".repeat(5_000)), json(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(1, 3).map((megabytes) => json(JSON.stringify({ title: "x".repeat(megabytes * 2 ** 20) }))),
    },
    {
      weight: 2,
      arbitrary: fc
        .tuple(
          fc.constantFrom(
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/xml",
            "",
            "\u00e9",
          ),
          right,
        )
        .map(([contentType, body]) => ({ contentType, body })),
    },
  );
}

/** Percent-encodes also what is no well-formed text. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
