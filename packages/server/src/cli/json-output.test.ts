import { expect, test, vi } from "vitest";
import { JsonOutput } from "./json-output.ts";

test("a result has its seconds rounded to milliseconds, in the place of the other fields", () => {
  const write = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    const rest = { tokens: 3, cost: 0, answer: null, patch: null, applied: false };
    new JsonOutput().result({ status: "finished", exit_code: 0, seconds: 1.2345678, ...rest });
    expect(write.mock.calls).toEqual([
      [
        '{"type":"result","status":"finished","exit_code":0,"seconds":1.235,"tokens":3,"cost":0,' +
          '"answer":null,"patch":null,"applied":false}\n',
      ],
    ]);
  } finally {
    write.mockRestore();
  }
});
