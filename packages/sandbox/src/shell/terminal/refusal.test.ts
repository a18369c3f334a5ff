import { describe, expect, test } from "vitest";
import { findRefusal } from "./refusal.ts";

describe("a Python or JSON value", () => {
  test.each([
    '{"a": 1}',
    "{'a': True, 'b': None}",
    "[1, 2, 3]",
    "['x', \"y\",]",
    '"""\ntext\n"""',
    '{\n  "a": [1, {"b": 2}]\n}',
  ])("%j is refused with a hint", (text) => expect(findRefusal(text)).toMatch(/script file/));
  test.each([
    "[ -f x ]",
    '[ "$a" = b ]',
    "{ ls; }",
    "[[ -n $x ]]",
    "echo '{}'",
    "{ echo a; echo b; }",
    "true",
    "(1)",
  ])("%j may run", (text) => expect(findRefusal(text)).toBeUndefined());
});
