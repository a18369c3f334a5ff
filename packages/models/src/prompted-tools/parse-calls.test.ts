import fc from "fast-check";
import { expect, test } from "vitest";
import type { ModelTool } from "../model.ts";
import { parseCalls } from "./parse-calls.ts";

const tools: ModelTool[] = [
  {
    name: "terminal",
    description: "",
    parameters: {
      type: "object",
      properties: {
        command: { type: "string" },
        timeout: { type: "number" },
        reset: { type: "boolean" },
        list: { type: "array", items: {} },
        either: { anyOf: [{ type: "string" }, { type: "integer" }] },
      },
    },
  },
];

const calls = (text: string) =>
  parseCalls(text, tools).toolCalls.map(({ name, arguments: written }) => ({ name, ...JSON.parse(written) }));

test("a call with several parameters is parsed, and the text before it is kept", () => {
  const answer = `I look around.

<function=terminal>
<parameter=command>
cat <<EOF > a.html
<p>1 < 2</p>
EOF
</parameter>
<parameter=timeout>30.5</parameter>
<parameter=reset>True</parameter>
<parameter=list>[1, "a"]</parameter>
<parameter=either>17</parameter>
<parameter=unknown>{"a": 1}</parameter>
</function>`;
  expect(parseCalls(answer, tools).text).toBe("I look around.");
  expect(calls(answer)).toEqual([
    {
      name: "terminal",
      command: "cat <<EOF > a.html\n<p>1 < 2</p>\nEOF",
      timeout: 30.5,
      reset: true,
      list: [1, "a"],
      either: "17",
      unknown: '{"a": 1}',
    },
  ]);
});

test.each([
  ["<function=terminal>\n<parameter=command>ls</parameter>\n", { command: "ls" }],
  ["<function=terminal>\n<parameter=command>ls\n", { command: "ls" }],
  ["<function=terminal>\n<parameter=command>ls\n</function", { command: "ls" }],
  ["<function=terminal>", {}],
  ["<function= terminal >\n</function>", {}],
])("a call that ends at the stop sequence, or is not closed, is complete: %j", (answer, parameters) => {
  expect(calls(answer)).toEqual([{ name: "terminal", ...parameters }]);
});

test("several calls are parsed in order, and the tool checks the types of values", () => {
  const one = "<function=terminal><parameter=timeout>soon</parameter></function>";
  expect(calls(`${one}\n${one} and ${one}`)).toEqual(Array(3).fill({ name: "terminal", timeout: "soon" }));
});

test.each([
  ["<function=>", "no such name"],
  ["<function=a b c\nls", "no such name"],
  ["<function=terminal>\nls -la\n</function>", 'instead of "ls -la'],
  ["<function=terminal><parameter=>x</parameter></function>", "a parameter has no name"],
  ["<function=terminal><parameter=command", "a parameter has no name"],
])("an unreadable call is reported: %j", (answer, problem) => {
  const parsed = parseCalls(answer, tools);
  expect(parsed.toolCalls).toEqual([]);
  expect(parsed.text).toBe(answer);
  expect(parsed.problem).toContain(problem);
});

test("text without a call is unchanged", () => {
  expect(parseCalls("1 < 2, <function> and <parameter=x>", tools)).toEqual({
    text: "1 < 2, <function> and <parameter=x>",
    toolCalls: [],
  });
});

test("any text is parsed quickly and without an error", () => {
  const word = fc.constantFrom(
    "<function=",
    "<parameter=",
    "</parameter>",
    "</function>",
    ">",
    "terminal",
    "command",
    "\n",
    " ",
    "x",
    "<",
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 40 }), (words) => void parseCalls(words.join(""), tools)),
    { numRuns: 2000 },
  );
  for (const part of [
    "<function=",
    "<function=terminal>",
    "<parameter=command>",
    "</parameter>",
    "\n",
    "<function=terminal><parameter=a>",
  ]) {
    const start = performance.now();
    parseCalls(`<function=terminal>${part.repeat(200_000)}`, tools);
    expect(performance.now() - start).toBeLessThan(20_000);
  }
});
