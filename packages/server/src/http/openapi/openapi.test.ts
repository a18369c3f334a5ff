import { Compile } from "typebox/compile";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../test/support/test-server.ts";
import type { JsonSchema, OpenApiDocument, Operation } from "./schema.ts";

let server: TestServer;
let document: OpenApiDocument;

beforeAll(async () => {
  server = await startServer();
  document = await load("/openapi.json");
});
afterAll(() => server.close());

async function load(path: string): Promise<OpenApiDocument> {
  return (await read(server.call("GET", path, { key: null }))).body;
}

function operationsOf({ paths }: OpenApiDocument): { name: string; path: string; operation: Operation }[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      operation,
    })),
  );
}

test.each(["", "/agent/sandbox-1"])(
  "the API page under %o loads only its own resources, also over http",
  async (prefix) => {
    const page = await server.call("GET", `${prefix}/docs`, { key: null });
    expect(page.headers.get("content-security-policy")).not.toContain("upgrade-insecure-requests");
    for (const [, script] of (await page.text()).matchAll(/<script src="([^"]+)"/g))
      expect([script, (await server.call("GET", script!, { key: null })).status]).toEqual([script, 200]);
    expect(await load(`${prefix}/docs/json`)).toEqual(await load(`${prefix}/openapi.json`));
  },
);

describe.each([
  ["of the platform", "/openapi.json"],
  ["below a sandbox", "/agent/sandbox-1/openapi.json"],
])("in the document %s", (_where, path) => {
  let document: OpenApiDocument;
  let operations: ReturnType<typeof operationsOf>;
  beforeAll(async () => {
    document = await load(path);
    operations = operationsOf(document);
  });

  test("every operation has a unique id, a summary, tags, and a description of each parameter", () => {
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const unsaid = operations.flatMap(({ name, path, operation }) => {
      const { summary, tags, parameters = [] } = operation;
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, key]) => key!);
      return [
        ...(summary ? [] : [`${name}: summary`]),
        ...(tags?.length ? [] : [`${name}: tags`]),
        ...parameters.filter((one) => !one.description).map((one) => `${name}: ${one.in} ${one.name}`),
        ...inPath
          .filter((key) => !parameters.some((one) => one.in === "path" && one.name === key))
          .map((key) => `${name}: ${key}`),
      ];
    });
    expect(unsaid).toEqual([]);
  });

  test("every operation documents its responses, failures and security", () => {
    for (const { name, operation } of operations) {
      const statuses = Object.keys(operation.responses);
      expect(
        statuses.some((status) => status.startsWith("2") || status.startsWith("3") || status === "410"),
        name,
      ).toBe(true);
      const open = operation.security?.length === 0;
      expect(open || "401" in operation.responses, name).toBe(true);
    }
  });

  test("requests and responses have examples that match their schemas", () => {
    const { schemas, responses } = document.components;
    const wrong: string[] = [];
    const check = (where: string, schema: JsonSchema, example: unknown) => {
      const validator = Compile(inlined(schema, schemas));
      if (example === undefined) wrong.push(`${where}: no example`);
      else if (!validator.Check(example)) {
        wrong.push(
          `${where}: ${JSON.stringify(example)}: ${validator.Errors(example)[0]?.instancePath} ${validator.Errors(example)[0]?.message}`,
        );
      }
    };
    for (const { name, operation } of operations) {
      const json = operation.requestBody?.content["application/json"];
      if (json) check(`${name} body`, json.schema, json.example);
      for (const [status, response] of Object.entries(operation.responses)) {
        const answer = response.content?.["application/json"];
        if (answer) check(`${name} ${status}`, answer.schema, answer.example);
      }
    }
    for (const [name, { content }] of Object.entries(responses)) {
      check(name, content!["application/json"]!.schema, content!["application/json"]!.example);
    }
    expect(wrong).toEqual([]);
  });
});

test("a start task shows null for the secrets of its request", () => {
  expect(document.components.schemas.AppConversationStartRequest!.properties!.secrets).not.toHaveProperty(
    "writeOnly",
  );
});

test("a created object is linked to the operations that take its id", () => {
  const { links } = document.paths["/api/v1/sandboxes"]!.post!.responses["200"]!;
  const pause = document.paths["/api/v1/sandboxes/{sandbox_id}/pause"]!.post!.operationId;
  expect(links).toMatchObject({
    [pause]: { operationId: pause, parameters: { sandbox_id: "$response.body#/id" } },
  });
  const tasks = document.paths["/api/v1/app-conversations/start-tasks"]!.get!.operationId;
  expect(document.paths["/api/v1/app-conversations"]!.post!.responses["200"]!.links).toMatchObject({
    [tasks]: { parameters: { ids: "$response.body#/id" } },
  });
  const known = new Set(operationsOf(document).map(({ operation }) => operation.operationId));
  const linked = operationsOf(document).flatMap(({ operation }) =>
    Object.values(operation.responses).flatMap((response) => Object.keys(response.links ?? {})),
  );
  expect(linked.length).toBeGreaterThan(20);
  expect(linked.filter((id) => !known.has(id))).toEqual([]);
});

test("the example of a start is a valid request", () => {
  const body = document.paths["/api/v1/app-conversations"]!.post!.requestBody!.content["application/json"]!;
  expect(body.example).toMatchObject({ initial_message: { content: [{ type: "text" }] } });
  expect(Object.keys(body.example as object)).not.toContain("sandbox_id");
});

test("the settings family has its own failure schema", () => {
  const settings = document.paths["/api/settings"]!.post!;
  expect(settings.responses["422"]).toEqual({ $ref: "#/components/responses/UnprocessableEntity.error" });
  const shape =
    document.components.responses["UnprocessableEntity.error"]!.content!["application/json"]!.schema;
  expect(shape).toEqual({ $ref: "#/components/schemas/SettingsFailure" });
  expect(document.paths["/api/v1/sandboxes/search"]!.get!.responses["422"]).toEqual({
    $ref: "#/components/responses/UnprocessableEntity",
  });
});

test("each named wire schema is one component", () => {
  const page = document.components.schemas.AppConversationPage!;
  expect(page.properties!.items!.items).toEqual({ $ref: "#/components/schemas/AppConversation" });
  const start = document.paths["/api/v1/app-conversations"]!.post!;
  expect(start.requestBody).toMatchObject({ required: false });
  expect(start.requestBody!.content["application/json"]!.schema).toEqual({
    $ref: "#/components/schemas/AppConversationStartRequest",
  });
  const text = JSON.stringify(document);
  for (const [, name] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g))
    expect(document.components.schemas).toHaveProperty(name!);
  for (const [, name] of text.matchAll(/"#\/components\/responses\/([\w.]+)"/g)) {
    expect(document.components.responses).toHaveProperty([name!]);
  }
});

/** Resolves the references of a schema. */
function inlined(schema: JsonSchema, schemas: Record<string, JsonSchema>): JsonSchema {
  return JSON.parse(JSON.stringify(schema), (_key, value) => {
    const name = (value as JsonSchema | null)?.$ref?.split("/").at(-1);
    return name === undefined ? value : inlined(schemas[name]!, schemas);
  });
}
