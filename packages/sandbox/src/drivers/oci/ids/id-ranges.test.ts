import { spawnSync } from "node:child_process";
import { readFileSync, watch } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestDriver, run, testSpec, workingRuntimes } from "../../../../test/support/oci.ts";
import { hasResourceCapability } from "../../../kernel/capabilities.ts";
import type { OciDriver } from "../oci-driver.ts";

/** Takes all that it gets of what the kernel counts by user id; prints how much, and keeps it. */
const greedy = `import ctypes, fcntl, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def take(most, work):
  for count in range(most):
    if not work(): return count
  return most
def timer():
  return libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0
pipes = []
def pipe():
  pipes.append(os.pipe())
  try: return fcntl.fcntl(pipes[-1][0], 1031, 1 << 20) >= 1 << 20
  except OSError: return False
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
ours.setblocking(False)
parts = []
def flight():
  try:
    if len(parts) % 200 == 0: parts.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    parts[-1][0].setblocking(False)
    socket.send_fds(parts[-1][0], [b"x"], [0] * 200); parts.append(parts[-1]); return True
  except OSError: return False
print(take(300, lambda: libc.inotify_init() >= 0), take(5000, timer), take(100, pipe), take(100, flight), flush=True)
time.sleep(float(sys.argv[1]))
`;

describe.each(await workingRuntimes())("sandboxes of %s", (runtime) => {
  let driver: OciDriver;
  let dir: string;
  let end: () => Promise<void>;
  const ids = ["one", "two"];
  const start = (id: string) =>
    driver.start({ id, spec: { ...testSpec, command: ["sh", "-c", "exec sleep 1000"] } });

  beforeAll(async () => {
    ({ driver, dir, end } = await openTestDriver(runtime));
    await Promise.all(ids.map(start));
  });
  afterAll(() => end());

  const base = async (id: string) =>
    Number((await run(driver, id, "cat /proc/self/uid_map")).out.trim().split(/\s+/)[1]);

  test("have ids of their own, and files that each later start owns", async () => {
    const bases = await Promise.all(ids.map(base));
    expect(new Set(bases).size).toBe(2);
    await run(driver, "one", "mkdir ~/kept && echo text >~/kept/file && chmod 700 ~/kept");
    await driver.snapshot("one", "kept");
    await driver.start({ id: "fork", spec: testSpec, snapshot: "kept" });
    await start("one");
    expect(await base("fork")).not.toBe(await base("one"));
    for (const id of ["one", "fork"]) {
      const { out } = await run(
        driver,
        id,
        "stat -c %U:%G ~ ~/kept /etc/passwd; echo more >>~/kept/file; mv ~/kept/file ~/kept/moved; cat ~/kept/moved",
      );
      expect(out).toBe("agent:agent\nagent:agent\nroot:root\ntext\nmore\n");
    }
    await driver.remove("fork");
    await driver.removeSnapshot("kept");
  });

  test("keep their ids when the server starts again", async () => {
    const before = await base("two");
    await driver.close();
    await driver.open();
    await driver.start({ id: "later", spec: testSpec });
    expect(await base("two")).toBe(before);
    expect(await base("later")).not.toBe(before);
    const tty = { argv: ["sh", "-c", "stat -c %U $(tty)"], tty: { cols: 80, rows: 24 } };
    expect((await run(driver, "two", tty)).out).toContain("agent");
    await driver.remove("later");
  });

  test("do not use up each other's or the machine's objects of the kernel", async () => {
    const hog = await driver.exec("one", { argv: ["python3", "-c", greedy, "300"] });
    const taken = await new Promise<string>((resolve) =>
      hog.stdout.once("data", (text) => resolve(String(text))),
    );
    const other = await run(driver, "two", { argv: ["python3", "-c", greedy, "0"] });
    const [mine, others] = [taken, other.out].map((text) => text.trim().split(" ").map(Number));
    expect(mine!.every((count) => count > 0)).toBe(true);
    // runc needs root as the owner of user namespaces where root lacks a capability.
    const separate = runtime === "crun" || hasResourceCapability();
    if (separate) {
      expect(others).toEqual(mine);
      watch(dir).close();
    } else expect(others!.slice(1)).toEqual(mine!.slice(1));
    const { stdout } = spawnSync("python3", ["-c", greedy, "0"], { encoding: "utf8" });
    expect(Number(stdout.split(" ")[1])).toBe(5_000);
    hog.kill();
    await hog.exit;
  });

  test("have limits of pending signals, message queues and open files", async () => {
    const { out } = await run(driver, "one", "cat /proc/self/limits");
    const limit = (name: string) => Number(new RegExp(`^Max ${name}\\s+(\\d+)`, "m").exec(out)?.[1]);
    const limits = ["pending signals", "msgqueue size", "open files"].map(limit);
    const own = readFileSync("/proc/sys/fs/file-max", "latin1");
    expect(limits.slice(0, 2)).toEqual([2_048, 819_200]);
    expect(limits[2]).toBeLessThanOrEqual(Math.min(16_384, Number(own)));
  });
});
