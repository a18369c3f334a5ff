import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadPlaceId } from "./place-id.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-place-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test("ten processes at once get the same id, which stays", async () => {
  const module = fileURLToPath(new URL("./place-id.ts", import.meta.url));
  // Each process says that it is ready, and begins when all processes are ready.
  const code = `import { loadPlaceId } from ${JSON.stringify(module)};
    console.log("ready");
    process.stdin.once("data", async () => {
      console.log(await loadPlaceId(${JSON.stringify(dir)}));
      process.exit();
    });`;
  const children = Array.from({ length: 10 }, () =>
    spawn(process.execPath, ["--input-type=module", "-e", code], { stdio: ["pipe", "pipe", "inherit"] }),
  );
  const outputs = children.map((child) => {
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    return new Promise<string>((resolve) => child.once("close", () => resolve(text.split("\n")[1] ?? "")));
  });
  await Promise.all(children.map((child) => new Promise((resolve) => child.stdout.once("data", resolve))));
  for (const child of children) child.stdin.write("go\n");
  const ids = await Promise.all(outputs);
  expect(new Set(ids)).toEqual(new Set([await loadPlaceId(dir)]));
  expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
  expect(readdirSync(dir)).toEqual(["place-id"]);
  expect(statSync(join(dir, "place-id")).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(dir, "place-id"), "utf8")).toBe(`${ids[0]}\n`);
});

test("a damaged file is refused with a sentence that says what to do", async () => {
  for (const text of ["", "no id\n", "0".repeat(100_000)]) {
    writeFileSync(join(dir, "place-id"), text);
    await expect(loadPlaceId(dir)).rejects.toMatchObject({
      code: "ConfigInvalid",
      message: expect.stringMatching(/place-id is damaged: .*\.$/),
    });
  }
});

test("a folder that cannot be written gives the error of the file system", async () => {
  await expect(loadPlaceId(join(dir, "missing"))).rejects.toMatchObject({ code: "ENOENT" });
});
