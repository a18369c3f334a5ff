import { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { hideSecrets, SecretStream } from "@sandpiper/core/secrets/secret-stream";
import { stub } from "@sandpiper/core/test/support/stub";
import type { ModelResponse } from "@sandpiper/models/model";
import { type MCPToolObservation, textContent } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { maskAnswer } from "./masked-model.ts";
import { hiddenSecret, maskObservation, type OutputMask } from "./output-mask.ts";

const value = "planted-value-4711-of-a-secret";
const matcher = new SecretMatcher([value]);
const mask: OutputMask = {
  text: (text) => hideSecrets(matcher, text, hiddenSecret),
  terminal: (text) => text,
  stream: () => new SecretStream(matcher, hiddenSecret, { patient: true }),
};

const observed = (...texts: string[]): MCPToolObservation => ({
  kind: "MCPToolObservation",
  content: texts.map((text) => textContent(text)),
  is_error: false,
  tool_name: "leak",
});
const shown = (...texts: string[]) =>
  maskObservation(observed(...texts), mask).content.map((part) => (part.type === "text" ? part.text : ""));

test("a secret that spans two texts of a result is masked in both", () => {
  expect(shown("a", `b ${value.slice(0, 12)}`, value.slice(12), " c").join("")).toBe(`ab ${hiddenSecret} c`);
  const inPieces = shown("x ", ...value.match(/.{1,4}/g)!, " y");
  expect(inPieces.join("")).toBe(`x ${hiddenSecret} y`);
  expect(inPieces).toHaveLength(10);
});

test("texts without a secret stay unchanged, even if one ends with the start of a secret", () => {
  expect(shown(`one ${value.slice(0, 5)}`, "two", `three ${value}`)).toEqual([
    `one ${value.slice(0, 5)}`,
    "two",
    `three ${hiddenSecret}`,
  ]);
});

test("a secret is hidden in the ids and names of an answer, and not in the arguments of what is run", () => {
  const call = {
    id: `call-${value}`,
    name: `no-${value}`,
    arguments: `{"key": "${value}"}`,
    origin: "completion" as const,
  };
  const response = stub<ModelResponse>({
    id: `response-${value}`,
    text: value,
    thinkingBlocks: [],
    toolCalls: [call],
  });
  expect(maskAnswer(response, mask)).toMatchObject({
    id: `response-${hiddenSecret}`,
    text: hiddenSecret,
    toolCalls: [{ id: `call-${hiddenSecret}`, name: `no-${hiddenSecret}`, arguments: call.arguments }],
  });
});
