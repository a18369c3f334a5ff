import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createDataFolder } from "./data-folder.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-data-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test("creates a missing folder, and accepts an existing one", async () => {
  const path = join(folder, "a/b/c");
  await createDataFolder(path);
  await createDataFolder(path);
  expect((await stat(path)).isDirectory()).toBe(true);
});

test("reports in one sentence why a folder cannot be created", async () => {
  const file = join(folder, "file");
  await writeFile(file, "");
  for (const path of [file, join(file, "below"), "/proc/sandpiper", "/sys/kernel/sandpiper/data"]) {
    await expect(createDataFolder(path)).rejects.toMatchObject({
      code: "ConfigInvalid",
      message: expect.stringMatching(/^The data folder .* cannot be created .*SANDPIPER_DATA\.$/),
    });
  }
});
