import { expect, test } from "vitest";
import { boundedBody, type StreamEnd } from "./event-bound.ts";

/** Reads a body that arrives in these chunks; returns its length and the problem at its end. */
async function read(
  pieces: readonly string[],
  isStream = true,
): Promise<{ length: number; problem: string | undefined }> {
  let problem: string | undefined;
  const body = ReadableStream.from(pieces.map((piece) => Buffer.from(piece)));
  const onEnd = (_resumable: boolean, end: StreamEnd) => (problem = end.problem);
  const bounded = boundedBody(body as ReadableStream<Uint8Array>, { maxBytes: 100, isStream, onEnd });
  let length = 0;
  try {
    for await (const piece of bounded) length += piece.length;
  } catch {}
  return { length, problem };
}

const data = `data: ${"x".repeat(60)}\n`;

test.each([
  ["in one piece each", Array(10).fill(`${data}\n`)],
  ["with the empty line in a piece of its own", Array(10).fill([data, "\n"]).flat()],
  ["with carriage returns, one byte at a time", [...`${data.trim()}\r\n\r\n`.repeat(10)]],
])("a stream may be longer than any of its messages, %s", async (_name, pieces) => {
  expect(await read(pieces)).toEqual({ length: pieces.join("").length, problem: undefined });
});

test("a message above the limit ends the stream, and so does a long plain body", async () => {
  const cut = expect.objectContaining({ problem: expect.stringContaining("It sent a message of more than") });
  expect(await read([`${data}\n`, ...Array(10).fill(data)])).toEqual(cut);
  expect(await read([`${data}\n`, `${data}\n`], false)).toEqual(cut);
});
