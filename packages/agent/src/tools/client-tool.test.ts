import { stub } from "@sandpiper/core/test/support/stub";
import type { ClientTool } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { modelTools, resolveToolCall } from "./call.ts";
import { clientTool } from "./client-tool.ts";

const toolOf = (parameters: object) =>
  clientTool(stub<ClientTool>({ name: "ask", description: "Asks", parameters }));
const call = (parameters: object, args: unknown) =>
  resolveToolCall({ id: "call", name: "ask", arguments: JSON.stringify(args), origin: "completion" }, [
    toolOf(parameters),
  ]);

test("a call of a client's tool is checked for types, names and enum values", () => {
  const parameters = {
    type: "object",
    properties: { count: { type: "integer" }, kind: { enum: ["a", "b"] }, deep: { type: "object" } },
    required: ["count"],
  };
  expect(call(parameters, { count: "3", kind: "a", deep: { any: 1 } })).toMatchObject({
    action: { count: 3, deep: { any: 1 } },
  });
  expect(call(parameters, { kind: "c" })).toEqual({
    error: expect.stringMatching(/count is missing; kind must be one of a, b/),
  });
  expect(call(parameters, { count: 1, other: 1 })).toEqual({
    error: expect.stringMatching(/other is not a parameter/),
  });
});

test("a client's schema cannot make a call fail in other ways, or take long", () => {
  const schemas: object[] = [
    { properties: { a: { type: "string", pattern: "^(a+)+$" } } },
    { properties: { a: { type: "string", pattern: "(", format: "regex" } } },
    { properties: { a: { $ref: "#/properties/a" } }, $id: "x" },
    { properties: { a: null }, required: 5 },
    { properties: { a: { type: "array", items: null } }, required: [null, {}] },
    { properties: { a: { type: "object", properties: null } } },
    { properties: { a: { enum: 5 } }, not: null, if: 5 },
    {
      properties: { a: { anyOf: 5, allOf: null, type: "no-type" } },
      patternProperties: { "(": {} },
      dependentSchemas: 5,
    },
    { properties: [1], items: [{}] },
  ];
  const started = performance.now();
  for (const schema of schemas) {
    const parameters = { type: "object", ...schema };
    expect(modelTools([toolOf(parameters)])).toHaveLength(1);
    for (const a of [`${"a".repeat(60)}!`, {}, [{}], 7]) expect(call(parameters, { a })).toBeTypeOf("object");
  }
  expect(performance.now() - started).toBeLessThan(20_000);
});
