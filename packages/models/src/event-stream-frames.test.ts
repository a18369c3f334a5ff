import { expect, test } from "vitest";
import { bedrockEvents } from "../test/support/model-wire-bedrock.ts";
import { BrokenStream, splitFrames } from "./event-stream-frames.ts";

const frames = bedrockEvents({ text: "Hello there, you." }, 0);
const whole = Buffer.concat(frames);

async function read(chunks: Uint8Array[]): Promise<Buffer[]> {
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const result: Buffer[] = [];
  for await (const chunk of stream.pipeThrough(splitFrames())) result.push(Buffer.from(chunk));
  return result;
}

const split = (size: number) =>
  Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
    whole.subarray(at * size, (at + 1) * size),
  );

test.each([1, 2, 3, 7, 100, 1_000_000])("frames are reassembled from packets of %i bytes", async (size) => {
  expect(await read(split(size))).toEqual(frames);
});

test.each([
  ["one that ends within an event", whole.subarray(0, whole.length - 1)],
  [
    "an event with a wrong checksum",
    Buffer.concat([Buffer.from(frames[0]!).fill(0, 20, 24), ...frames.slice(1)]),
  ],
  ["an event of four gigabytes", Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])],
  ["an event without a head", Buffer.from([0, 0, 0, 4, 0, 0, 0, 0])],
  ["something else", Buffer.from("<html>no</html>")],
])("%s is a broken stream", async (_, bytes) => {
  await expect(read([bytes])).rejects.toBeInstanceOf(BrokenStream);
});
