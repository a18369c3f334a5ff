import fc, { type Arbitrary } from "fast-check";
import type { JsonSchema, OpenApiDocument, Operation, Parameter } from "../../src/http/openapi/schema.ts";
import { anyFitting, anyText, type Pool } from "./schema-values.ts";

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
  headers: Record<string, string>;
  contentType: string | undefined;
  body: string | undefined;
}

/**
 * All requests that a document allows: each route, each kind of key, right and wrong parameters,
 * broken bodies. `only` selects one operation (`METHOD /path/{of}/the/document`).
 */
export function anyRequest(document: OpenApiDocument, pool: Pool, only?: string): Arbitrary<FuzzRequest> {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => only === undefined || only === `${method.toUpperCase()} ${path}`)
      .map(([method, operation]) => requestOf(path, method, operation, document.components.schemas, pool)),
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
    Object.fromEntries(
      parameters.filter((one) => one.in === "path").map((one) => [one.name, pathText(one, pool)]),
    ),
  );
  const inQuery = fc.tuple(
    ...parameters.filter((one) => one.in === "query").map((one) => queryPairs(one, pool, schemas)),
  );
  const inHeaders = fc.record(
    Object.fromEntries(
      parameters.filter((one) => one.in === "header").map((one) => [one.name, headerText(one, pool)]),
    ),
  );
  const credential = fc.oneof(
    { weight: 5, arbitrary: fc.constant<Credential>("owner") },
    { weight: 5, arbitrary: fc.constantFrom<Credential>(...credentials) },
  );
  return fc
    .tuple(inPath, inQuery, inHeaders, credential, bodyOf(operation, schemas, pool))
    .map(([names, pairs, headers, who, { contentType, body }]) => {
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
        headers: headers as Record<string, string>,
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

/** Values that are not valid header text cannot be sent. */
function headerText({ name }: Parameter, pool: Pool): Arbitrary<string> {
  const hostile = anyText.filter((text) => /^[ -~]*$/.test(text));
  const known = pool(name).map(String);
  return known.length > 0 ? fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...known) }, hostile) : hostile;
}

function queryPairs(
  { name, required, schema }: Parameter,
  pool: Pool,
  schemas: Record<string, JsonSchema>,
): Arbitrary<[string, string][]> {
  const right = anyFitting(schema, pool, schemas, name).map((value) =>
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

/** Bodies that are not JSON, as a route that takes them wants them. */
const otherBodies = [
  { contentType: "application/octet-stream", body: "content of a file\n" },
  { contentType: "application/x-tar", body: tarOf("from-the-tar.txt", "content\n") },
  {
    contentType: "multipart/form-data; boundary=b",
    body: '--b\r\ncontent-disposition: form-data; name="file"; filename="note.txt"\r\n\r\nattached\r\n--b--\r\n',
  },
];

/** An archive with one file, as text. */
function tarOf(name: string, content: string): string {
  const octal = (value: number, width: number) => `${value.toString(8).padStart(width - 1, "0")}\0`;
  const fields = (sum: string) =>
    `${name.padEnd(100, "\0")}${octal(0o644, 8)}${octal(0, 8)}${octal(0, 8)}${octal(content.length, 12)}${octal(0, 12)}${sum}0`.padEnd(
      257,
      "\0",
    );
  const header = (sum: string) => `${fields(sum)}ustar\x0000`.padEnd(512, "\0");
  const sum = [...header(" ".repeat(8))].reduce((all, one) => all + one.charCodeAt(0), 0);
  return `${header(`${octal(sum, 7)} `)}${content.padEnd(512, "\0")}${"\0".repeat(1024)}`;
}

/** The pool may know whole bodies by the name of the operation. */
function bodyOf(
  { requestBody, operationId }: Operation,
  schemas: Record<string, JsonSchema>,
  pool: Pool,
): Arbitrary<Body> {
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
  const content = requestBody?.content ?? {};
  const schema = content["application/json"]?.schema;
  const others = otherBodies.filter(({ contentType }) => contentType.split(";")[0]! in content);
  if (!schema && others.length > 0) {
    const types = fc.constantFrom(
      ...others.map((one) => one.contentType),
      "application/json",
      "",
      "text/plain",
    );
    const wrong = fc.tuple(types, anyText).map(([contentType, body]) => ({ contentType, body }));
    return fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...others) }, { weight: 1, arbitrary: wrong });
  }
  if (!schema) {
    return fc.oneof(
      { weight: 8, arbitrary: fc.constant(none) },
      { weight: 1, arbitrary: fc.constantFrom(...ruined.map(json)) },
    );
  }
  const right = anyFitting(schema, pool, schemas, operationId).map((value) => JSON.stringify(value) ?? "");
  return fc.oneof(
    { weight: 16, arbitrary: right.map(json) },
    { weight: 2, arbitrary: fc.constantFrom(...ruined).map(json) },
    { weight: 1, arbitrary: right.map((text) => json(text.slice(0, -1))) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        none,
        json("[".repeat(5_000)),
        json(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`),
      ),
    },
    {
      weight: 1,
      arbitrary: fc
        .constantFrom(1, 3)
        .map((megabytes) => json(JSON.stringify({ title: "x".repeat(megabytes * 2 ** 20) }))),
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

/** Percent-encodes also malformed text. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
