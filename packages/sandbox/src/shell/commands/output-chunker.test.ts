import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { type Chunk, maxOutputJsonBytes, splitToFit } from "./event-json.ts";
import { OutputChunker } from "./output-chunker.ts";

const limits = { chunkBytes: 1_000, keptBytes: 10_000, endBytes: 500 };

/** Lets a source be read to its end; gives the pieces, the last of them the rest. */
async function printed(
  source: Iterable<Buffer | string>,
  waitMs?: number,
  write = async (_piece: Chunk) => {},
) {
  const pieces: Chunk[] = [];
  const take = async (piece: Chunk) => {
    pieces.push(piece);
    await write(piece);
  };
  const one = new OutputChunker(limits, take, () => waitMs);
  const stream = Readable.from(source, { objectMode: false });
  one.read("stdout", stream);
  await new Promise((resolve) => stream.once("end", resolve));
  pieces.push(await one.rest());
  return { pieces, text: pieces.map(({ stdout }) => stdout).join("") };
}

test("no output is lost, repeated or torn, wherever it is split", async () => {
  const text = "aä€😀\n".repeat(600);
  const bytes = Buffer.from(text);
  for (const size of [1, 3, 7, 999, 1_000, 6_600]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    for (const waitMs of [undefined, 0]) {
      const found = await printed(chunks, waitMs, () => new Promise((resolve) => setImmediate(resolve)));
      expect(found.text).toBe(text);
      for (const { stdout } of found.pieces)
        expect(Buffer.byteLength(stdout!)).toBeLessThanOrEqual(1_000 + size + 3);
    }
  }
});

test("invalid UTF-8 is replaced, and a byte order mark stays", async () => {
  expect((await printed([Buffer.from([0xef, 0xbb, 0xbf, 0x61, 0xff, 0xc3])])).text).toBe(
    "\ufeffa\ufffd\ufffd",
  );
});

test("output beyond the limit is replaced by a notice and the last part", async () => {
  const lines = Array.from({ length: 100_000 }, (_, index) => `${index}\n`);
  const { pieces, text } = await printed(lines);
  expect(text.slice(0, 6)).toBe("0\n1\n2\n");
  expect(text.endsWith("99998\n99999\n")).toBe(true);
  const left = /\[(\d+) bytes of the output are left out here: more than 10000 are not kept\]/.exec(
    pieces.at(-1)!.stdout!,
  );
  const kept = text.length - left![0].length - 2;
  expect(Number(left![1]) + kept).toBe(lines.join("").length);
  expect(kept).toBeLessThan(20_000);
});

test("a failed write ends the output and is not retried", async () => {
  let tries = 0;
  const failing = printed(["x".repeat(5_000), "y".repeat(5_000)], undefined, async () => {
    tries += 1;
    throw new Error("full");
  });
  await expect(failing).rejects.toThrow("full");
  expect(tries).toBe(1);
});

test("a chunk of control characters is split to fit", () => {
  const stdout = "\u0001😀".repeat(300_000);
  const parts = splitToFit({ stdout, stderr: "e".repeat(900_000) }).map((part) => ({
    stdout: JSON.parse(part.stdout) as string | null,
    stderr: JSON.parse(part.stderr) as string | null,
  }));
  expect(parts.map((part) => part.stdout ?? "").join("")).toBe(stdout);
  expect(parts.map((part) => part.stderr ?? "").join("")).toHaveLength(900_000);
  for (const part of parts) expect(Buffer.byteLength(JSON.stringify(part))).toBeLessThan(maxOutputJsonBytes);
  for (const { stdout } of parts) if (stdout) expect(stdout.isWellFormed()).toBe(true);
  expect(splitToFit({ stdout: "a", stderr: "" })).toEqual([{ stdout: '"a"', stderr: "null" }]);
});
