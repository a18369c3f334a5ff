import { execFileSync } from "node:child_process";
import { fchownSync, statSync, writeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openNullDevice } from "./null-device.ts";

const module = fileURLToPath(new URL("./null-device.ts", import.meta.url));

test("is a null device whose owner nobody changes", () => {
  const descriptor = openNullDevice();
  const before = statSync("/dev/null");
  expect(writeSync(descriptor, "text")).toBe(4);
  expect(() => fchownSync(descriptor, 0x1000_0000, 0x1000_0000)).toThrow("EROFS");
  expect(statSync("/dev/null")).toMatchObject({ uid: before.uid, mode: before.mode });
});

test("is never the machine's own device because descriptors are missing", () => {
  const script = `import { openSync } from "node:fs";
    const { openNullDevice } = await import(${JSON.stringify(module)});
    const attempt = () => { try { openNullDevice(); return "opened"; } catch (error) { return error.code; } };
    try { for (;;) openSync("/dev/zero"); } catch {}
    process.stdout.write(attempt());`;
  const argv = ["--nofile=64", process.execPath, "--input-type=module", "-e", script];
  expect(execFileSync("prlimit", argv, { encoding: "utf8" })).toBe("EMFILE");
});
