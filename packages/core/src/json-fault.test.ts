import { expect, test } from "vitest";
import { findJsonFault } from "./json-fault.ts";

test.each([
  ['{"a": 1}', undefined],
  ['{\n  "a": 1,\n}', "line 3, column 1"],
  ['{\n  "a": tru\n}', "line 2, column 11"],
  ['{"key": "secret"\n "b": 2}', "line 2, column 2"],
  ["{'a': 1}", "line 1, column 2"],
  ["[1,\n2", "line 2, column 2, where its end is missing"],
  ["", "line 1, column 1, where its end is missing"],
  ['{"a": "b\nc"}', "line 1, column 9"],
  [`${" ".repeat(200)}\n\n x`, "line 3, column 2"],
])("%j: %s", (text, place) => expect(findJsonFault(text)).toBe(place));
