import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Client } from "@sandpiper/client";
import { Compile } from "typebox/compile";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startServer } from "../support/test-server.ts";
import { type GroupName, sampleCalls } from "./sample-calls.ts";

interface Operation {
  parameters?: { in: string; name: string; required: boolean; schema: object }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
}
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
}
interface Sent {
  call: string;
  method: string;
  url: URL;
  type: string | undefined;
  body: string;
}

/** Routes of the platform without a method, and why. */
const withoutMethod: readonly RegExp[] = [
  // The older form of the POST to the same path.
  /^GET .*\/model-check$/,
  // Older paths of the routes under /api/v1/conversation/{conversation_id}/events.
  / \/api\/v1\/events/,
  // The start with its progress is a poll of start-tasks, which survives a restart of the server.
  /stream-start$/,
  /start-tasks\/count$/,
  // For agent servers and for programs inside of a sandbox.
  / \/api\/v1\/webhooks\//,
  /settings\/secrets\/\{secret_name\}$/,
  /switch_acp_model$/,
];

let document: Document;
const sent: Sent[] = [];
beforeAll(async () => {
  const server = await startServer();
  document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
  await server.close();
  // Takes every request, and answers like an empty list, or with an id.
  let call = "";
  const recorder = createServer(async (request, response) => {
    const { method = "", url = "", headers } = request;
    const body = await text(request);
    sent.push({ call, method, url: new URL(url, "http://x"), type: headers["content-type"], body });
    response.setHeader("content-type", "application/json").end(method === "GET" ? "[]" : '{"id":"i"}');
  }).listen(0, "127.0.0.1");
  await once(recorder, "listening");
  const client = new Client({ url: `http://127.0.0.1:${(recorder.address() as AddressInfo).port}/` });
  for (const [group, methods] of Object.entries(sampleCalls))
    for (const [name, args] of Object.entries(methods)) {
      call = `${group}.${name}`;
      const target = client[group as GroupName] as unknown as Record<string, (...args: unknown[]) => unknown>;
      const result = target[name]!(...args);
      // Some methods cannot make sense of the answer.
      if (result instanceof Promise) await result.catch(() => {});
      else await (result as AsyncGenerator).next().catch(() => {});
    }
  recorder.closeAllConnections();
  recorder.close();
});
afterAll(() => void sent.splice(0));

/** The operation of a request; a path without parameters comes first. */
function find({ method, url }: Sent): { path: string; operation: Operation } | undefined {
  const paths = Object.entries(document.paths).sort(
    ([left], [right]) => left.split("{").length - right.split("{").length,
  );
  for (const [path, operations] of paths) {
    const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}/?$`);
    const operation = operations[method.toLowerCase()];
    if (operation && pattern.test(url.pathname)) return { path, operation };
  }
  return undefined;
}

const toType: Record<string, (text: string) => unknown> = {
  integer: Number,
  boolean: (value) => value === "true",
};

function check(schema: object, value: unknown): string[] {
  const $defs = document.components.schemas;
  const local = JSON.parse(
    JSON.stringify({ ...schema, $defs }).replaceAll("#/components/schemas/", "#/$defs/"),
  );
  return [...Compile(local).Errors(value)].map(({ message }) => String(message));
}

test("each method sends a request that the API's document describes", () => {
  const problems: string[] = [];
  for (const request of sent) {
    const { call, method, url, type, body } = request;
    const found = find(request);
    if (!found) {
      problems.push(`${call}: there is no ${method} ${url.pathname}`);
      continue;
    }
    const { parameters = [], requestBody } = found.operation;
    const query = new Map(parameters.filter((each) => each.in === "query").map((each) => [each.name, each]));
    for (const [name, value] of url.searchParams) {
      const schema = query.get(name)?.schema as { type?: string } | undefined;
      if (!schema) problems.push(`${call}: ${found.path} has no parameter ${name}`);
      else if (schema.type && schema.type !== "array")
        for (const problem of check(schema, (toType[schema.type] ?? String)(value)))
          problems.push(`${call}: ${name}: ${problem}`);
    }
    for (const { name, required } of query.values())
      if (required && !url.searchParams.has(name)) problems.push(`${call}: ${name} is missing`);
    const content = requestBody?.content[type ?? "application/json"];
    if (body !== "" && !content) problems.push(`${call}: ${found.path} takes no ${type}`);
    if (requestBody?.required && body === "") problems.push(`${call}: the body is missing`);
    if (body !== "" && content && type === "application/json")
      for (const problem of check(content.schema, JSON.parse(body)))
        problems.push(`${call}: body: ${problem}`);
  }
  expect(problems).toEqual([]);
  expect(new Set(sent.map(({ call }) => call)).size).toBe(
    Object.values(sampleCalls).flatMap(Object.keys).length,
  );
});

test("each route of the platform has a method, or a reason why not", () => {
  const used = new Set(sent.map((request) => `${request.method} ${find(request)?.path}`));
  const without = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations)
      .map((method) => method.toUpperCase())
      .filter((method) => path.startsWith("/api/v1/") && method !== "HEAD")
      .map((method) => `${method} ${path}`)
      .filter((route) => !used.has(route)),
  );
  expect(without.filter((route) => !withoutMethod.some((pattern) => pattern.test(route)))).toEqual([]);
  const unused = withoutMethod.filter((pattern) => !without.some((route) => pattern.test(route)));
  expect(unused).toEqual([]);
});

test.each(["", ".", ".."])("an id %j that would change the path is refused", async (id) => {
  const client = new Client({ url: "http://127.0.0.1:9" });
  expect(() => client.snapshots.delete(id)).toThrow(RangeError);
});
