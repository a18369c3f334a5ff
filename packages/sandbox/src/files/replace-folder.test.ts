import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestDriver, run, testSpec } from "../../test/support/oci.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import type { CommandRunner } from "./files.ts";
import { stageFolder } from "./replace-folder.ts";

const folder = "/workspace/project";
const signal = AbortSignal.timeout(150_000);
let driver: OciDriver;
let end: () => Promise<void>;
let source: CommandRunner;
let target: CommandRunner;
const at = async (id: "source" | "target", command: string) =>
  (await run(driver, id, `mkdir -p ${folder} && cd ${folder} && { ${command}; }`)).out;

describe.each(["resident", "own"])("with the %s shell", (which) => {
  beforeAll(async () => {
    ({ driver, end } = await openTestDriver());
    await Promise.all(["source", "target"].map((id) => driver.start({ id, spec: testSpec })));
    const shell = which === "own" ? ["sh"] : driver.shell;
    source = { exec: (command) => driver.exec("source", command), shell };
    target = { exec: (command) => driver.exec("target", command), shell };
  });
  afterAll(() => end());

  test("everything in the folder is replaced, and nothing else, whatever its name", async () => {
    const names = `'a b' .hidden ..dots -rf "new
line" '$(touch hacked)' .restore-old`;
    await at(
      "source",
      `for n in ${names}; do echo new > "./$n"; done; mkdir -p dir/deep && ln -s /etc/passwd dir/deep/link; ln -s none broken`,
    );
    await at("source", "chmod 711 dir; chmod 666 -- -rf");
    await at(
      "target",
      `for n in ${names}; do echo old > "./$n"; done; mkdir -p gone/deep .restore-left; ln -s ../outside out; echo kept > ../outside`,
    );
    const inode = await at("target", "stat -c %i .");
    const staged = (await stageFolder(source, folder, target, folder, signal))!;
    expect(await at("target", "cat .hidden; ls -A | grep -c restore")).toBe("old\n1\n");
    await staged.swap();
    const list = "find . -mindepth 1 ! -name '.restore-*' -exec stat -c '%a %F %n' {} + | sort";
    expect(await at("target", list)).toBe(await at("source", list));
    expect(
      await at("target", "cat ./.hidden ./-rf ../outside; ls -A | grep -c restore; readlink dir/deep/link"),
    ).toBe("new\nnew\nkept\n0\n/etc/passwd\n");
    expect(await at("target", "stat -c %i .")).toBe(inode);
  });

  test("discarded copies leave nothing, a missing folder copies nothing, and an empty folder empties the target", async () => {
    await at("target", "echo here > file");
    await (await stageFolder(source, folder, target, folder, signal))!.discard();
    expect(await at("target", "cat file; ls -A | grep -c restore")).toBe("here\n0\n");
    expect(await stageFolder(source, "/workspace/none", target, folder, signal)).toBeUndefined();
    await run(driver, "source", "mkdir -p /workspace/empty");
    await (await stageFolder(source, "/workspace/empty", target, "/workspace/made", signal))!.swap();
    expect((await run(driver, "target", "ls -A /workspace/made | wc -l")).out).toBe("0\n");
    await (await stageFolder(source, "/workspace/empty", target, folder, signal))!.swap();
    expect(await at("target", "ls -A | wc -l")).toBe("0\n");
  });

  test("if something cannot be moved, nothing changes; a source that ends early is refused", async () => {
    await at("target", "mkdir -p a z; echo a > a/file; echo z > z/file");
    const staged = (await stageFolder(source, folder, target, folder, signal))!;
    // Removes the prepared copy and the write permission of its target.
    await at("target", "mv .restore-*/dir . && chmod 555 .restore-*");
    await expect(staged.swap()).rejects.toMatchObject({
      code: "SandboxFailed",
      message: expect.stringMatching(/are unchanged/),
    });
    expect(
      await at("target", "cat a/file z/file; chmod 755 .restore-* 2>/dev/null; rm -rf .restore-*; ls -A"),
    ).toMatch(/^a\nz\na\ndir\nz\n/);
    await run(driver, "source", `chmod 000 ${folder}/dir`);
    await expect(stageFolder(source, folder, target, folder, signal)).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await run(driver, "source", `chmod 700 ${folder}/dir`);
    expect(await at("target", "ls -A")).toBe("a\ndir\nz\n");
    const aborted = AbortSignal.abort(new Error("enough"));
    await expect(stageFolder(source, folder, target, folder, aborted)).rejects.toThrow("enough");
    expect(await at("target", "ls -A")).toBe("a\ndir\nz\n");
  });
});
