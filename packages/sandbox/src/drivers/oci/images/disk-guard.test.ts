import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { getUsableSpace, guardDisk } from "./disk-guard.ts";

test("a disk counts as full while some bytes and inodes are free", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=20m,nr_inodes=200", "tmpfs", folder]);
  const full = () =>
    new Promise<void>((resolve) => {
      const guard = guardDisk(folder, () => {
        guard.end();
        resolve();
      });
    });
  try {
    expect(await getUsableSpace(folder)).toBeGreaterThan(18 * 2 ** 20);
    const filled = full();
    writeFileSync(join(folder, "data"), Buffer.alloc(19.5 * 2 ** 20));
    await filled;
    rmSync(join(folder, "data"));
    expect(await getUsableSpace(folder)).toBeGreaterThan(0);
    const many = full();
    for (let n = 0; n < 197; n++) writeFileSync(join(folder, String(n)), "");
    await many;
  } finally {
    execFileSync("umount", [folder]);
    rmSync(folder, { recursive: true });
  }
});
