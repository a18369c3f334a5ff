import { expect, test } from "vitest";
import { inputSchema } from "./input-schema.ts";
import { LineReader, maxMessageBytes } from "./line-reader.ts";
import { readArguments } from "./mcp-tool.ts";
import { plainText } from "./message-text.ts";
import { resultContent } from "./result.ts";
import { ToolNames } from "./tool-names.ts";
import { expandVariables } from "./variables.ts";

test("a schema keeps what every provider understands, with references and unions with null resolved", () => {
  const given = {
    type: "object",
    $defs: { Size: { enum: ["s", "m"], description: "How large" } },
    properties: {
      size: { $ref: "#/$defs/Size" },
      note: { anyOf: [{ type: "string" }, { type: "null" }], default: null, description: "A note" },
      tags: { type: "array" },
      many: { type: ["integer", "null"], minimum: 3 },
      either: { anyOf: [{ type: "string" }, { type: "number" }] },
      deep: {
        type: "object",
        properties: { one: { const: "x" } },
        required: ["one", "two"],
        additionalProperties: false,
      },
    },
    required: ["size", "gone"],
  };
  expect(inputSchema(given)).toEqual({
    type: "object",
    properties: {
      size: { type: "string", description: "How large", enum: ["s", "m"] },
      note: { type: "string", description: "A note" },
      tags: { type: "array", items: {} },
      many: { type: "integer" },
      either: {},
      deep: { type: "object", properties: { one: { type: "string", enum: ["x"] } }, required: ["one"] },
    },
    required: ["size"],
  });
});

test.each([
  undefined,
  null,
  7,
  "x",
  [],
  { properties: 3 },
  { properties: { a: 1, b: null, c: [], __proto__: { type: "string" } } },
])("any other value from a server becomes a schema: %j", (given) => {
  expect(inputSchema(given)).toMatchObject({ type: "object", properties: expect.any(Object) });
});

test("a huge or endless schema is cut", () => {
  const wide = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`p${n}`, { $ref: "#" }]));
  const before = performance.now();
  const schema = inputSchema({ type: "object", properties: wide, $ref: "#" });
  expect(JSON.stringify(schema).length).toBeLessThan(40_000);
  expect(performance.now() - before).toBeLessThan(20_000);
});

test("texts for prompts are limited and have no invisible characters", () => {
  expect(plainText("a\u200bb\u{e0041}c\u0007d\r\ne\ud800", 100)).toBe("abcd\ne\ufffd");
  expect(plainText("abcdef", 4)).toBe("abc…");
  expect(plainText("abc", 0)).toBe("");
});

test("arguments are decoded by type, nulls are dropped, and unknown ones are kept", () => {
  const schema = inputSchema({
    type: "object",
    properties: {
      list: { type: "array" },
      n: { type: "integer" },
      yes: { type: "boolean" },
      text: { type: "string" },
      map: { type: "object" },
    },
    required: ["n"],
  });
  const received = { list: '["a"]', n: "7", yes: "True", text: "12", map: '{"a":1}', other: 3, gone: null };
  expect(readArguments(schema, received)).toEqual({
    fitted: { data: { list: ["a"], n: 7, yes: true, text: "12", map: { a: 1 }, other: 3 } },
  });
  expect(readArguments(schema, { list: "no list" })).toEqual({ problems: ["n is missing"] });
});

test("references are replaced, with their defaults, and unknown ones are reported", () => {
  const missing = new Set<string>();
  const values: Record<string, string> = { A: "one", EMPTY: "" };
  const text = expandVariables(
    "$A ${A} ${EMPTY:-two} ${B:-three} ${C} $D p$$ 5$ ${}",
    (name) => values[name],
    missing,
  );
  expect(text).toBe("one one two three ${C} $D p$$ 5$ ${}");
  expect([...missing]).toEqual(["C"]);
});

test("names fit every provider, take no other tool's, and stay with their tools", () => {
  const names = new ToolNames();
  const core = new Set(["my_own"]);
  expect(names.get("one", "search", core)).toBe("search");
  expect(names.get("two", "search", core)).toBe("two_search");
  expect(names.get("one", "terminal", core)).toBe("one_terminal");
  expect(names.get("one", "my_own", core)).toBe("one_my_own");
  expect(names.get("one", "8 schöne Dinge!", core)).toBe("sch_ne_Dinge_");
  expect(names.get("two", "日本", core)).toMatch(/^tool_[0-9a-f]{8}$/);
  expect(names.get("one", "x".repeat(200), core)).toMatch(/^x{55}_[0-9a-f]{8}$/);
  expect(names.get("two", "search", core)).toBe("two_search");
  expect(names.get("three", "two_search", core)).toBe("three_two_search");
});

test("lines are split however they arrive, and an endless line is refused once", () => {
  const lines: string[] = [];
  let refused = 0;
  const reader = new LineReader(
    (line) => void lines.push(line),
    () => refused++,
  );
  for (const piece of ["on", "e\ntwo\r\n\nthr", "ee\n"]) reader.take(Buffer.from(piece));
  expect(lines).toEqual(["one", "two", "", "three"]);
  const much = Buffer.alloc(1024 * 1024, 120);
  for (let n = 0; n < maxMessageBytes / much.length + 5; n++) reader.take(much);
  reader.take(Buffer.from("\nafter\n"));
  expect([refused, lines.length]).toEqual([1, 4]);
});

test("every kind of result becomes content", () => {
  const read = (answer: Record<string, unknown>) =>
    resultContent(answer).content.map((part) => (part.type === "text" ? part.text : part.image_urls[0]));
  expect(read({ content: "text" })).toEqual(["text"]);
  expect(read({ content: 7 })).toEqual(["[The result is of a form that cannot be shown.]"]);
  expect(read({ content: null })).toEqual([]);
  const steering =
    "\u001b]0;title\u0007\u001b[1;31mred\u001b[0m\u0000 \u009b\ud800 \u202bא\u202c\tb\r\n\u001b]open";
  expect(read({ content: [{ type: "text", text: steering }] })).toEqual([
    "red \ufffd \u202bא\u202c\tb\r\n]open",
  ]);
  const begin = performance.now();
  for (const text of ["\u001b[", "\u001b]", "\u001b]a;", "\u001b[1;", "\u0000"])
    read({ content: text.repeat(2_000_000) });
  expect(performance.now() - begin).toBeLessThan(20_000);
  expect(read({ content: [], structuredContent: { a: 1 } })).toEqual(['{"a":1}']);
  const parts = [
    null,
    { type: "text", text: 3 },
    { type: "audio", data: "AAAA", mimeType: "audio/wav" },
    { type: "resource_link", uri: "file:///a", name: "A" },
    { type: "resource", resource: { uri: "file:///b", text: "inner" } },
    { type: "image", data: "R0lGODlhAQABAAAAACw=", mimeType: "image/png" },
    { type: "image", data: "AAAA", mimeType: "image/png" },
  ];
  expect(read({ content: parts })).toEqual([
    "[A part of the result is of a kind that cannot be shown.]",
    "[A part of the result is no text.]",
    "[Audio (audio/wav) cannot be shown.]",
    "[Resource A: file:///a]",
    "[Resource file:///b]\ninner",
    expect.stringMatching(/^data:image\/gif;base64,/),
    "[An image (image/png) cannot be shown.]",
  ]);
  const long = read({
    content: Array.from({ length: 2_000 }, () => ({ type: "text", text: "x".repeat(1_000) })),
  }).join("");
  expect(long.length).toBeLessThan(201_000);
  expect(long.endsWith("[The result is longer: the rest was left out.]")).toBe(true);
});
