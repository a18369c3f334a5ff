import { expect, test } from "vitest";
import { findLastMessage } from "./run-program.ts";

test("finds the last message in the stderr of crun and of runc", () => {
  expect(findLastMessage("warning\nchdir `/x`: No such file or directory\n")).toBe(
    "chdir `/x`: No such file or directory",
  );
  expect(findLastMessage('time="2026-01-01T00:00:00Z" level=error msg="exec: \\"x\\": not found"\n')).toBe(
    'exec: "x": not found',
  );
  expect(findLastMessage("")).toBe("");
});
