import { CallbackProcessor, SendMessageRequest } from "@sandpiper/wire";
import type { TSchema } from "typebox";
import { Compile } from "typebox/compile";
import { expect, test } from "vitest";
import { toIssues } from "./validation.ts";

const issues = (schema: TSchema, value: unknown) =>
  toIssues(Compile(schema).Errors(value), "body").map(({ loc, msg }) => `${loc.join(".")}: ${msg}`);

test("errors of a union are those of the branch that the literal selects", () => {
  expect(issues(CallbackProcessor, { kind: "WebhookCallbackProcessor" })).toEqual([
    "body.url: Field required",
  ]);
  expect(
    issues(CallbackProcessor, { kind: "WebhookCallbackProcessor", url: "http://x", kinds: ["a"] }),
  ).toEqual([expect.stringMatching(/^body\.kinds\.0: Input should be one of "ServerErrorEvent"/)]);
  expect(issues(SendMessageRequest, { content: [{ type: "text", text: "a" }, { type: "image" }] })).toEqual([
    "body.content.1.image_urls: Field required",
  ]);
});

test("a value that matches no branch gets the list of allowed literals", () => {
  const kinds = `"SetTitleCallbackProcessor", "LoggingCallbackProcessor", "WebhookCallbackProcessor"`;
  expect(issues(CallbackProcessor, { kind: "Other" })).toEqual([
    `body.kind: Input should be one of ${kinds}`,
  ]);
  expect(issues(CallbackProcessor, "text")).toEqual(["body: Input should be a valid object"]);
});
