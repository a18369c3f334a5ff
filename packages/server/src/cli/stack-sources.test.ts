import { afterEach, expect, test } from "vitest";
import { nameSourcesInStacks } from "./stack-sources.ts";

const own = Error.prepareStackTrace;
afterEach(() => {
  Error.prepareStackTrace = own;
});

/** A call in a file of the bundle, which has the folder of the function under test. */
const frame = {
  getFileName: () => new URL("platform.js", import.meta.url).href,
  getLineNumber: () => 7,
  getColumnNumber: () => 9,
  toString: () => `serve (${new URL("platform.js", import.meta.url)}:7:9)`,
} as NodeJS.CallSite;

test("no source map is read for connections that ended, which clients can cause", () => {
  const read: string[] = [];
  nameSourcesInStacks((file) => void read.push(file));
  const stackOf = (error: Error) => Error.prepareStackTrace!(error, [frame]);
  const expected = [
    Object.assign(new Error("write EPIPE"), { code: "EPIPE", syscall: "write" }),
    Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" }),
    Object.assign(new Error("Premature close"), { code: "ERR_STREAM_PREMATURE_CLOSE" }),
    Object.assign(new Error("Parse Error"), { code: "HPE_INVALID_METHOD" }),
    Object.assign(new Error("The operation was aborted"), { code: "ABORT_ERR" }),
  ];
  for (const error of expected) expect(stackOf(error)).toBe(`Error: ${error.message}\n    at ${frame}`);
  expect(read).toEqual([]);
  stackOf(new Error("a mistake of ours"));
  stackOf(Object.assign(new Error("ENOENT"), { code: "ENOENT", syscall: "open", path: "/x" }));
  expect(read).toHaveLength(1);
});
