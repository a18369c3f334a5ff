import { execFileSync } from "node:child_process";
import { mkdtemp, open, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { scanFolder } from "./folder-scan.ts";
import { packFolder } from "./tree.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-sparse-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const mebibyte = 2 ** 20;
const long = `${"long name ü ".repeat(12)}.bin`;

/** Data of each file, by where it begins, and the file's size. */
const files: Record<string, { size: number; data: Record<number, string> }> = {
  "hole at both ends": { size: 3 * 2 ** 30, data: { [2 ** 30]: "middle" } },
  "only a hole": { size: 100 * mebibyte, data: {} },
  "data at both ends": {
    size: 50 * mebibyte + 4,
    data: { 0: "begin", [20 * mebibyte]: "x".repeat(9_999), [50 * mebibyte]: "last" },
  },
  [long]: { size: 2 * mebibyte, data: { 700001: "odd" } },
};

test("holes of files are neither read nor packed nor counted, and GNU tar makes them again", async () => {
  await writeFile(join(folder, "plain"), "plain");
  for (const [name, { size, data }] of Object.entries(files)) {
    const file = await open(join(folder, name), "w", 0o755);
    for (const [at, text] of Object.entries(data)) await file.write(text, Number(at));
    await file.truncate(size);
    await file.close();
  }
  const scan = await scanFolder(folder, { tracked: new Set(), ignored: new Set() });
  expect([scan.files, scan.bytes < mebibyte]).toEqual([5, true]);

  const tar = await buffer(packFolder(folder));
  expect(tar.length).toBeLessThan(mebibyte);
  const copy = join(folder, "copy");
  execFileSync("sh", ["-c", 'mkdir "$1" && tar -xo -C "$1" -f -', "sh", copy], { input: tar });
  for (const name of Object.keys(files)) {
    const [from, to] = await Promise.all([stat(join(folder, name)), stat(join(copy, name))]);
    expect([name, to.size, to.mode, Math.floor(to.mtimeMs / 1000)]).toEqual([
      name,
      from.size,
      from.mode,
      Math.floor(from.mtimeMs / 1000),
    ]);
    expect(to.blocks).toBeLessThanOrEqual(from.blocks + 256);
    // The file of 3 GB is compared around its data only.
    const [skip, count] = from.size > 2 ** 30 ? [2 ** 30 - 10_000, 20_000] : [0, from.size];
    execFileSync("cmp", ["-i", String(skip), "-n", String(count), join(folder, name), join(copy, name)]);
  }
  execFileSync("cmp", [join(folder, "plain"), join(copy, "plain")]);
});
