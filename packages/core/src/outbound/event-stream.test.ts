import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { easeEventStream } from "./event-stream.ts";

function feed(pieces: readonly string[]): ReadableStream<Uint8Array> {
  return ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece))).pipeThrough(
    easeEventStream(),
  );
}

test("every line ends in LF, wherever the stream is divided", async () => {
  const parts = fc.array(fc.string({ unit: fc.constantFrom("a", "\r", "\n"), maxLength: 5 }));
  await fc.assert(
    fc.asyncProperty(parts, async (pieces) => {
      const text = await new Response(feed(pieces)).text();
      expect(text).toBe(pieces.join("").replaceAll(/\r\n?/g, "\n"));
    }),
  );
});

test("other work runs while thousands of events of one piece are read", async () => {
  let [events, rounds, done] = [0, 0, false];
  const read = (async () => {
    for await (const piece of feed(["data:\r\r".repeat(10_000)])) events += piece.byteLength;
    done = true;
  })();
  while (!done) {
    await setImmediate();
    rounds++;
  }
  await read;
  expect(events).toBe("data:\n\n".length * 10_000);
  expect(rounds).toBeGreaterThan(20);
});
