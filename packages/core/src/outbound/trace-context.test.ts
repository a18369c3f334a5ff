import { expect, test } from "vitest";
import { parseTraceContext } from "./trace-context.ts";

const ids = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
const traceparent = `00-${ids}-01`;

test.each([
  ["another version", `01-${ids}-01`, traceparent],
  ["a newer version with more fields", `01-${ids}-01-more`, traceparent],
  ["blanks around", ` ${traceparent} `, traceparent],
])("%s is passed on as version 00", (_what, given, wanted) => {
  expect(parseTraceContext(given)).toEqual({ traceparent: wanted });
});

test.each([
  "",
  "x",
  `ff-${ids}-01`,
  `00-${ids.toUpperCase()}-01`,
  `00-${ids}-01-more`,
  `00-${ids}-01\r\nx: y`,
  `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${"0".repeat(16)}-01`,
  `${traceparent}, ${traceparent}`,
  `01-${ids}-011`,
])("%j is no traceparent", (given) => {
  expect(parseTraceContext(given, "a=b")).toBeUndefined();
});

test("a tracestate goes along if its members are valid, distinct and not too long", () => {
  const state = (text: string) => parseTraceContext(traceparent, text)?.tracestate;
  expect(state("rojo=00f067aa0ba902b7, congo@x=t6 1 ,")).toBe("rojo=00f067aa0ba902b7,congo@x=t6 1");
  const wrong = ["a=b,a=c", "A=b", "a", "a=", "a=b=c", "a=b\nc", "a=ü", `a=${"x".repeat(257)}`];
  for (const text of [...wrong, "", `${"a".repeat(257)}=b`, `a=b,${" ".repeat(600)}`])
    expect([text, state(text)]).toEqual([text, undefined]);
  const many = (count: number) => Array.from({ length: count }, (_, index) => `k${index}=v`).join(",");
  expect(state(many(32))).toBe(many(32));
  expect(state(many(33))).toBeUndefined();
});
