import { stub } from "@sandpiper/core/test/support/stub";
import { expect, test } from "vitest";
import type { OpenApiDocument } from "../../src/http/openapi/schema.ts";
import { AnswerChecks } from "./checks.ts";

const operation = {
  operationId: "get_a",
  responses: {
    200: { content: { "application/json": { schema: { $ref: "#/components/schemas/A" } } } },
    404: { $ref: "#/components/responses/NotFound" },
  },
};
const text = { type: "object", required: ["a"], properties: { a: { type: "string" } } };
const document = stub<OpenApiDocument>({
  paths: { "/a": { get: operation } },
  components: {
    schemas: { A: text },
    responses: {
      NotFound: { content: { "application/json": { schema: { $ref: "#/components/schemas/A" } } } },
    },
  },
});
const checks = new AnswerChecks(document, 5_000);
const problems = (status: number, body: string, type = "application/json; charset=utf-8", ms = 1) =>
  checks.problems(
    { operation, method: "GET" },
    { status, headers: { "content-type": type }, text: body, ms },
  );

test("an answer must have a documented status, content type and body", () => {
  expect(problems(200, '{"a":"b"}')).toEqual([]);
  expect(problems(404, '{"a":"b"}')).toEqual([]);
  expect(problems(200, '{"a":1}')).toEqual(["200: /a must be string"]);
  expect(problems(404, "{}")).toEqual(["404:  must have required properties a"]);
  expect(problems(200, "{")).toEqual(["200: no JSON"]);
  expect(problems(200, "<p>", "text/html")).toEqual(["200 with the content type text/html"]);
  expect(problems(409, '{"a":"b"}')).toEqual(["undocumented 409"]);
  expect(problems(500, '{"a":"b"}')).toEqual(["500", "undocumented 500"]);
  expect(problems(200, '{"a":"b"}', "application/json", 60_000)).toEqual(["slow"]);
});
