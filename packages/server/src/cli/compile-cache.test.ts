import { execFileSync } from "node:child_process";
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

/**
 * A copy of the module in a folder with packages of this owner; gives whether code was kept there.
 */
function keeps(owner: number): boolean {
  const clone = mkdtempSync(join(tmpdir(), "sandpiper compile cache "));
  try {
    const folder = join(clone, "packages/server/src/cli");
    mkdirSync(folder, { recursive: true });
    mkdirSync(join(clone, "node_modules"));
    chownSync(join(clone, "node_modules"), owner, -1);
    const module = join(folder, "compile-cache.ts");
    cpSync(new URL("./compile-cache.ts", import.meta.url), module);
    const code = `import { keepCompiledCode } from ${JSON.stringify(module)}; keepCompiledCode();`;
    execFileSync(process.execPath, ["--input-type=module", "--eval", code]);
    return existsSync(join(clone, "node_modules/.cache/sandpiper"));
  } finally {
    rmSync(clone, { recursive: true });
  }
}

test("compiled code is stored next to packages of this user, not next to another user's", () => {
  expect([keeps(process.getuid!()), keeps(65_534)]).toEqual([true, false]);
});
