import fc from "fast-check";
import { expect, test } from "vitest";
import { parseTerminalFrame, parseTerminalRequest } from "./terminal-frames.ts";

test("a frame is input unless it is a control frame", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(parseTerminalFrame(Buffer.from(bytes), true)).toEqual({ input: Buffer.from(bytes) });
    }),
  );
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(parseTerminalFrame(Buffer.from(text), false)).toEqual({ input: Buffer.from(text) });
    }),
  );
  const frame = (value: unknown) => parseTerminalFrame(Buffer.from(JSON.stringify(value)), false);
  expect(frame({ type: "input", data: "\0ä", more: 1 })).toEqual({ input: Buffer.from("\0ä") });
  expect(frame({ type: "resize", cols: 80.7, rows: 1e9 })).toEqual({ cols: 80, rows: 1_000 });
  expect(frame({ type: "eof" })).toBe("eof");
  for (const ignored of [
    { type: "auth" },
    { type: "input", data: 1 },
    { type: "resize", cols: null, rows: 2 },
    { type: "resize" },
  ])
    expect(frame(ignored)).toBeUndefined();
  const pasted = "x".repeat(1_000_000);
  expect(frame({ type: "input", data: pasted })).toEqual({ input: Buffer.from(pasted) });
  // Text that is costly to parse is not a control frame.
  const nested = Buffer.from(`{"type":"resize","cols":${"[".repeat(400_000)}${"]".repeat(400_000)}}`);
  expect((parseTerminalFrame(nested, false) as { input: Buffer }).input).toBe(nested);
});

test("sizes in the query are clamped, and invalid ones rejected", () => {
  const read = (query: string) => parseTerminalRequest(new URLSearchParams(query));
  expect(read("")).toEqual({ sandboxId: undefined, tty: { cols: 80, rows: 24 }, cwd: undefined });
  expect(read("cols=0&rows=999999999&cwd=a&sandbox_id=s")).toEqual({
    sandboxId: "s",
    tty: { cols: 1, rows: 1_000 },
    cwd: "a",
  });
  expect(read("tty=false")).toMatchObject({ tty: undefined });
  for (const query of ["cols=-1", "rows=1e3", "cols=9999999999", "cwd=%00", `cwd=${"x".repeat(4_096)}`])
    expect(read(query)).toEqual(expect.stringMatching(/^(cols|rows|cwd): Input should be/));
});
