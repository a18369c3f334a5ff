import { SendMessageRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import { Clean } from "typebox/value";
import { expect, test } from "vitest";
import { stripUnknownFields } from "./strip-unknown-fields.ts";

test("fields that a schema does not name are dropped, the first time and later", () => {
  const body = () => ({
    role: "user",
    content: [{ type: "text", text: "a", more: 1 }],
    run: true,
    other: { deep: 2 },
  });
  for (let time = 0; time < 3; time++) {
    expect(stripUnknownFields(SendMessageRequest, body())).toEqual({
      role: "user",
      content: [{ type: "text", text: "a" }],
      run: true,
    });
  }
  expect(Clean(SendMessageRequest, body())).toEqual(stripUnknownFields(SendMessageRequest, body()));
});

test("the narrowest matching alternative is used, as in other implementations", () => {
  const Wide = Type.Object({ kind: Type.String() });
  const Narrow = Type.Object({ kind: Type.Literal("narrow"), size: Type.Number() });
  const schema = Type.Object({ item: Type.Union([Wide, Narrow]) });
  const value = () => ({ item: { kind: "narrow", size: 1, more: 2 } });
  const expected = { item: { kind: "narrow", size: 1 } };
  expect(Clean(schema, value())).toEqual(expected);
  expect(stripUnknownFields(schema, value())).toEqual(expected);
  expect(Clean(schema, value())).toEqual(expected);
});
