import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestDriver, testSpec } from "../../../test/support/oci.ts";

/** Memory of the kernel that no control group counts. */

let opened: Awaited<ReturnType<typeof openTestDriver>>;
beforeAll(async () => {
  opened = await openTestDriver();
});
afterAll(() => opened?.end());

const unbounded = { bytes: Number.MAX_SAFE_INTEGER, isScarce: false };

/** Runs a Python program in a new sandbox until it has written a line. */
async function start(id: string, program: string): Promise<void> {
  const { driver } = opened;
  await driver.start({ id, spec: testSpec });
  expect(await driver.uncountedBytes(id, unbounded)).toBe(0);
  const { stdout } = await driver.exec(id, { argv: ["python3", "-c", program] });
  await once(stdout, "data");
}

test("locks of ranges of files are counted, up to the bound", async () => {
  const count = 30_000;
  await start(
    "locks",
    `import fcntl, time
files = [open(f"/tmp/lock-{number}", "w") for number in range(${count / 300})]
for file in files:
  for at in range(300): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * at)
print("held", flush=True); time.sleep(1000)`,
  );
  const { driver } = opened;
  expect(await driver.uncountedBytes("locks", unbounded)).toBe(count * 192);
  expect(await driver.uncountedBytes("locks", { ...unbounded, bytes: 1 })).toBeLessThan(count * 192);
});

test("system call filters are counted", async () => {
  await start(
    "filters",
    `import ctypes, os, signal, struct
libc = ctypes.CDLL(None)
length = 4096
text = b"".join(struct.pack("=HBBI", 4, 0, 0, n) for n in range(length - 1)) + struct.pack("=HBBI", 6, 0, 0, 0x7fff0000)
program = struct.pack("@HP", length, ctypes.addressof(kept := ctypes.create_string_buffer(text)))
libc.prctl(38, 1, 0, 0, 0)
for _ in range(5):
  if os.fork() == 0:
    while libc.prctl(22, 2, program, 0, 0) == 0: pass
    os.write(1, b"x") if _ == 4 else None
    signal.pause()
signal.pause()`,
  );
  // Seven of that size fit into what the kernel allows one process.
  await expect.poll(() => opened.driver.uncountedBytes("filters", unbounded)).toBe(5 * 7 * 80 * 1024);
});

test("unread netlink messages are counted", async () => {
  await start(
    "netlink",
    `import socket, struct, time
one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
one.setblocking(False)
for _ in range(100): one.send(struct.pack("=IHHII", 32, 18, 5, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 1, 0, 0))
print("held", flush=True); time.sleep(1000)`,
  );
  expect(await opened.driver.uncountedBytes("netlink", unbounded)).toBeGreaterThan(50_000);
});
