import type { JsonSchema, OpenApiDocument, Operation, Parameter } from "../../src/http/openapi/schema.ts";
import { FuzzClient } from "../fuzz/client.ts";
import { RecordTarget } from "../fuzz/record-target.ts";
import { BoundaryValues } from "./boundary-values.ts";

/** Requests between two renewals of what they delete. */
const batch = 400;

interface Case {
  name: string;
  about: string;
  isAllowed: boolean;
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** Statuses of requests that do not fit the document. */
const refusals = new Set([400, 404, 405, 413, 414, 415, 422, 431]);

export interface TruthResult {
  /** Number of requests. */
  sent: number;
  /** Requests whose answer the document does not say. */
  wrong: string[];
}

/**
 * Sends values at the boundaries of every schema of a document: what the document allows must not
 * be refused as invalid, and what it forbids must be. `base` is where the document is; `every`
 * takes only each so many-th request, beginning with number `first`.
 */
export async function checkTruth(
  base: string | undefined,
  { every, first }: { every: number; first: number },
): Promise<TruthResult> {
  const target = await RecordTarget.open({}, base);
  const client = new FuzzClient(target.port);
  const result: TruthResult = { sent: 0, wrong: [] };
  try {
    const { text } = await client.send("GET", `${base ?? ""}/openapi.json`, {}, undefined);
    let number = first;
    for (const one of makeCases(JSON.parse(text) as OpenApiDocument, target, base ?? "")) {
      if (number++ % every !== 0) continue;
      if (++result.sent % batch === 0) await target.replenish();
      const { status, text } = await client
        .send(one.method, one.url, one.headers, one.body)
        .catch((error) => ({ status: 0, text: String(error) }));
      const isRefused = isValidationFailure(status, text);
      if (one.isAllowed ? isRefused : !refusals.has(status))
        result.wrong.push(
          `${one.name} ${one.isAllowed ? "refuses" : "accepts"} ${one.about}: ${status} ${text.slice(0, 160)}`,
        );
    }
    return result;
  } finally {
    client.close();
    await target.close();
  }
}

/** Whether a request was refused for its form: with a list of issues. */
function isValidationFailure(status: number, text: string): boolean {
  if (status === 0 || status === 500) return true;
  if (status !== 422) return false;
  try {
    return Array.isArray(JSON.parse(text).detail);
  } catch {
    return false;
  }
}

function* makeCases(
  { paths, components }: OpenApiDocument,
  target: RecordTarget,
  base: string,
): Generator<Case> {
  const values = new BoundaryValues(components.schemas);
  for (const [path, methods] of Object.entries(paths))
    for (const [method, operation] of Object.entries(methods))
      yield* casesOf({ path, method: method.toUpperCase(), operation, values, target, base });
}

interface Place {
  path: string;
  method: string;
  operation: Operation;
  values: BoundaryValues;
  target: RecordTarget;
  base: string;
}

function* casesOf({ path, method, operation, values, target, base }: Place): Generator<Case> {
  const { parameters = [], requestBody } = operation;
  const known = (one: Parameter) => target.pools[0]!(one.name)[0] ?? values.minimal(one.schema);
  const given: Record<string, unknown> = {};
  for (const one of parameters)
    if (one.required || one.in === "path") given[`${one.in} ${one.name}`] = known(one);
  const schema = requestBody?.content["application/json"]?.schema;
  if (requestBody && !schema) return;
  const whole = schema && requestBody.required ? values.minimal(schema) : undefined;
  const make = (about: string, isAllowed: boolean, changed: Record<string, unknown>, body: unknown): Case => {
    const all = { ...given, ...changed };
    const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name) =>
      encodeURIComponent(String(all[`path ${name}`])),
    );
    const query = Object.entries(all).flatMap(([name, value]) =>
      name.startsWith("query ") && value !== undefined
        ? [value].flat().map((item) => `${name.slice(6)}=${encodeURIComponent(textOf(item))}`)
        : [],
    );
    const headers = Object.entries(all).flatMap(([name, value]) =>
      name.startsWith("header ") ? [[name.slice(7), String(value)]] : [],
    );
    return {
      name: `${method} ${path}`,
      about,
      isAllowed,
      method,
      url: `${base}${filled}${query.length > 0 ? `?${query.join("&")}` : ""}`,
      headers: {
        ...Object.fromEntries(headers),
        "x-session-api-key": target.keyOf("owner")!,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    };
  };
  yield make("the minimal request", true, {}, whole);
  for (const one of parameters) {
    const name = `${one.in} ${one.name}`;
    for (const { about, value } of values.allowed(one.schema)) {
      if (isSendable(one, value, path)) yield make(`${name} = ${about}`, true, { [name]: value }, whole);
    }
    for (const { about, value } of values.forbidden(one.schema)) {
      if (isText(one.schema, values) && typeof value !== "string") continue;
      if (isSendable(one, value, path) && about !== "no list")
        yield make(`${name} = ${about}`, false, { [name]: value }, whole);
    }
    if (one.required && one.in === "query")
      yield make(`${name} missing`, false, { [name]: undefined }, whole);
  }
  if (!schema) return;
  for (const { about, value } of values.allowed(schema)) yield make(about, true, {}, value);
  for (const { about, value } of values.forbidden(schema)) yield make(about, false, {}, value);
}

function isText(schema: JsonSchema, values: BoundaryValues): boolean {
  return values.resolve(schema).type === "string";
}

/** Whether a value can stand in a path or header, and means itself there. */
function isSendable({ in: place }: Parameter, value: unknown, _path: string): boolean {
  const text = textOf(value);
  if (place === "path") return text !== "" && !/^\.{1,2}$/.test(text) && !text.includes("/");
  return place === "query" || /^[ -~]*$/.test(text);
}

function textOf(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}
