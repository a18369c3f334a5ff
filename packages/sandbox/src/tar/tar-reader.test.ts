import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { filterTar } from "../files/tar-filter.ts";
import { padding, writeExtension, writeHeader } from "./tar-header.ts";
import { TarReader } from "./tar-reader.ts";

const end = Buffer.alloc(1024);
const file = (path: string, text: string, size = text.length) =>
  Buffer.concat([writeHeader({ path, size }), Buffer.from(text), padding(text.length)]);

async function* whole(data: Buffer): AsyncGenerator<Buffer> {
  yield data;
}

function listEntries(tar: Buffer): string[] {
  const stdio = ["pipe", "pipe", "ignore"] as const;
  return execFileSync("tar", ["-t"], { input: tar, encoding: "utf8", stdio: [...stdio] })
    .trim()
    .split("\n");
}

/** What GNU tar finds in an archive after a filter left out `secret`. */
async function listFiltered(archive: Buffer): Promise<string[]> {
  const filter = { keep: ({ name }: { name: string }) => name !== "secret", last: () => undefined };
  return listEntries(Buffer.concat(await Array.fromAsync(filterTar(whole(archive), filter))));
}

const smuggled = file("secret", "x");
const hiding: Record<string, Buffer> = {
  "a size in an extended header, smaller than that of the header": Buffer.concat([
    writeExtension({ size: "0" }),
    writeHeader({ path: "a", size: smuggled.length }),
    smuggled,
  ]),
  "a hard link with a size": Buffer.concat([
    writeHeader({ path: "a", type: "1", size: smuggled.length }),
    smuggled,
  ]),
  "a path with an end in its middle": Buffer.concat([
    writeExtension({ path: "secret\0more" }),
    file("b", "x"),
  ]),
  "the path of a sparse file": Buffer.concat([
    writeExtension({
      ...{ "GNU.sparse.major": "1", "GNU.sparse.minor": "0", path: "b" },
      ...{ "GNU.sparse.name": "secret", "GNU.sparse.realsize": "0" },
    }),
    file("b", "0\n"),
  ]),
};

test.each(Object.entries(hiding))("a filter is not deceived by %s", async (_, archive) => {
  const all = Buffer.concat([archive, file("c", "x"), end]);
  expect(listEntries(all)).toContain("secret");
  expect(await listFiltered(all)).not.toContain("secret");
});

const refused: [what: string, archive: Buffer, reason: RegExp][] = [
  [
    "one size for all files",
    Buffer.concat([
      writeHeader({ path: "g", type: "g", size: 10 }),
      Buffer.from("10 size=1\n"),
      padding(10),
      file("a", "x"),
    ]),
    /one path or size/,
  ],
  ["a wrong checksum", Buffer.from(file("a", "x").fill("b", 0, 1)), /no tar/],
  ["a negative size", Buffer.from(writeExtension({ size: "-1" })), /no valid size/],
  ["a size in other digits", Buffer.from(writeExtension({ size: "0x10" })), /no valid size/],
  [
    "extended headers without an entry",
    Buffer.concat(Array.from({ length: 3_000 }, () => writeExtension({ path: "a" }))),
    /header of more than 1 MB/,
  ],
];

test.each(refused)("%s is refused", (_, archive, reason) => {
  const reader = new TarReader();
  expect(() => [...reader.read(archive)]).toThrow(reason);
});

test("contents are passed over without a copy, however the chunks are cut", () => {
  const archive = Buffer.concat([file("a", "x".repeat(2_000)), file("b", "y"), end, Buffer.alloc(100)]);
  for (const size of [1, 500, 513, archive.length]) {
    const reader = new TarReader();
    const paths: string[] = [];
    let content = 0;
    for (let at = 0; at < archive.length; at += size) {
      const chunk = archive.subarray(at, at + size);
      for (const part of reader.read(chunk)) {
        if (part.kind === "entry") paths.push(`${part.entry.path} ${part.entry.size}`);
        if (part.kind !== "content") continue;
        content += part.bytes.length;
        expect(part.bytes.buffer).toBe(chunk.buffer);
      }
    }
    expect([paths, content, reader.hasEnded]).toEqual([["a 2000", "b 1"], 2_048 + 512, true]);
    expect(reader.trailing).toBe(512 + 100);
  }
});
