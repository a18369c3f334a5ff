import { Type } from "typebox";
import { Compile } from "typebox/compile";
import { expect, test } from "vitest";
import { cutMaps } from "./cut-maps.ts";

const map = Type.Record(Type.String(), Type.String(), { maxProperties: 3 });
const schema = Type.Object({
  map,
  inner: Type.Object({ either: Type.Union([map, Type.Null()]) }),
  other: Type.Any(),
});
const members = (count: number, value: unknown = "x") =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, value]));

test("a map that has too many members keeps one too many, wherever it is; the faults stay", () => {
  const value = { map: members(9), inner: { either: members(1_000) }, other: members(50) };
  const cut = cutMaps(schema, value);
  expect(cut).toEqual({ map: members(4), inner: { either: members(4) }, other: members(50) });
  const faults = (of: unknown) =>
    Compile(schema)
      .Errors(of)
      .map(({ instancePath, keyword }) => [instancePath, keyword]);
  expect(faults(cut)).toEqual(faults(value));
  expect(faults(value)).toContainEqual(["/map", "maxProperties"]);
});

test("what is within its bounds, and what is no map, stays as it is", () => {
  for (const value of [
    { map: members(3, 1), inner: { either: null } },
    { map: [1], inner: 5 },
    "text",
    null,
    [members(9)],
  ])
    expect(cutMaps(schema, value)).toBe(value);
});
