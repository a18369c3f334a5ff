import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import type { PreparedSpec } from "@sandpiper/sandbox/driver";
import { DockerDriver } from "@sandpiper/sandbox/drivers/docker/docker-driver";
import { usualCapabilities } from "@sandpiper/sandbox/specs/capabilities";
import { createHostSpec } from "@sandpiper/sandbox/specs/specs";
import { run, suiteLimits } from "@sandpiper/sandbox/test/driver-suite/context";
import { startTestEngine, type TestEngine } from "@sandpiper/sandbox/test/support/docker-engine";
import { importFolder } from "@sandpiper/sandbox/test/support/docker-image";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

/** The attacks of `isolation/` from containers of a Docker engine. */

const image = "sandpiper-test/python:1";
const word = `trace-${randomUUID()}`;
let dir: string;
let engine: TestEngine;
let driver: DockerDriver;
let prepared: PreparedSpec;
let abstract: Server;

/** The machine's Python with the parts of its library that the attacks use. */
const copyPython = `
set -e
root=$1
copy() { cp -rL --parents "$@" "$root"; }
eval "$(/usr/bin/python3 -c 'import os, sys, sysconfig; print("program=" + os.path.realpath(sys.executable), "library=" + sysconfig.get_path("stdlib"))')"
copy $(ldd "$program" "$library"/lib-dynload/_ctypes.*.so | grep -o '/[^ :]*\\.so\\.[^ :]*' | sort -u)
copy "$program" "$library"/*.py "$library"/lib-dynload "$library"/encodings "$library"/collections "$library"/json "$library"/ctypes "$library"/re "$library"/importlib
mkdir -p "$root/bin" "$root/tmp" "$root/etc"
chmod 1777 "$root/tmp"
ln -s "$program" "$root/bin/python3"
cp /bin/busybox "$root/bin/busybox"
for name in sh ls cat readlink; do ln -s busybox "$root/bin/$name"; done
`;

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  const root = join(dir, "root");
  mkdirSync(root);
  execFileSync("sh", ["-c", copyPython, "sh", root]);
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/:/bin/sh\n");
  engine = await startTestEngine();
  await importFolder(engine.engine.docker, root, image, ["USER agent"]);
  driver = new DockerDriver({ dir, host: { socketPath: engine.socketPath } });
  await driver.open();
  prepared = await driver.prepare({
    ...createHostSpec(suiteLimits),
    root: { kind: "image", reference: image },
    user: null,
  });
  abstract = createServer((socket) => socket.destroy()).listen({ path: `\0${word}` });
  await once(abstract, "listening");
});
afterAll(async () => {
  abstract?.close();
  for (const { id } of (await driver?.list()) ?? []) await driver.remove(id);
  await driver?.close();
  await engine?.end();
  rmSync(dir, { recursive: true, force: true });
});

async function attack(id: string, script: string, ...args: string[]): Promise<any> {
  const text = readFileSync(new URL(`isolation/attacks/${script}`, import.meta.url), "utf8");
  const { code, out, err } = await run(driver, id, { argv: ["python3", "-c", text, ...args] });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return JSON.parse(out);
}

/** Errors that mean a refusal or a missing object. */
const refused =
  /^(EPERM|EACCES|ENOSYS|EROFS|ENOENT|ESRCH|EAFNOSUPPORT|EPROTONOSUPPORT|ENOPROTOOPT|ENXIO|ENODEV|signal 31)$/;
/** The filter answers these calls like a kernel that lacks them. */
const alsoRefused = /^lock of a descriptor \d+ EINVAL$/;
/** Granted by capabilities that the spec names. */
const granted = ["another user", "chroot", "other groups"];

const root = { name: "root", uid: 0, gid: 0, home: "/root" };
const places: [string, Partial<PreparedSpec>][] = [
  ["agent", {}],
  ["root", { user: root }],
  ["capable-root", { user: root, capabilities: usualCapabilities }],
];

describe.each(places)("%s of a container", (id, spec) => {
  beforeAll(() => driver.start({ id, spec: { ...prepared, ...spec } }));

  test("gets out by no system call", async () => {
    const results: Record<string, string> = await attack(id, "system_calls.py", String(process.pid));
    expect(Object.keys(results).length).toBeGreaterThan(200);
    const open = Object.entries(results).filter(
      ([name, result]) => !refused.test(result) && !alsoRefused.test(`${name} ${result}`),
    );
    expect(open.map(([name]) => name).toSorted()).toEqual(spec.capabilities ? granted : []);
  });

  test("can write no file of the kernel", async () => {
    const { opened, looked } = await attack(id, "kernel_files.py");
    expect(looked).toBeGreaterThan(1_000);
    // The machine's root opens files that take no writes.
    const writes = opened.map((path: string) => `echo 1 >${path}; echo $?`).join("; ");
    const { out } = await run(driver, id, `exec 2>/dev/null; ${writes || "true"}`);
    expect(out).toBe("1\n".repeat(opened.length));
    if (!spec.capabilities) expect(opened).toEqual([]);
  });

  test("can write into no program that enters the container from outside", async () => {
    let isOver = false;
    const opened = attack(id, "catch_runtime.py", "6").finally(() => {
      isOver = true;
    });
    const enter = async () => {
      while (!isOver) await run(driver, id, { argv: ["cat", "/dev/null"], tty: { cols: 80, rows: 24 } });
    };
    expect(await Promise.all([opened, enter()])).toEqual([[], undefined]);
  });

  test("inherits no file, and sees no socket or process of the machine", async () => {
    const { out } = await run(driver, id, "for f in /proc/[0-9]*/fd/*; do readlink $f; done 2>/dev/null");
    const files = out.split("\n").filter((link) => link.startsWith("/") && !/^\/(dev|proc)\//.test(link));
    expect(files).toEqual([]);
    expect((await run(driver, id, "cat /proc/net/unix")).out).not.toContain(word);
    expect(await attack(id, "find_traces.py", word)).toEqual([]);
  });
});
