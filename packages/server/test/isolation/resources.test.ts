import { once } from "node:events";
import { statfsSync } from "node:fs";
import { openTerminal } from "@sandpiper/sandbox/shell/terminal";
import { beforeAll, describe, expect, test } from "vitest";
import { type Place, specs, useArena } from "./arena.ts";

/** Sandboxes that take all they can of processes, memory, CPU and the server's attention. */

const arena = useArena(() => ({ specs }));
const python = (text: string) => ["python3", "-c", text];
let bystander: Place;
beforeAll(async () => {
  bystander = await arena.place();
});

/** Starts a lasting attack, checks that others and the sandbox still work, deletes the sandbox. */
async function survive(command: string[], { own = true, holdMs = 700 } = {}): Promise<void> {
  const place = await arena.place();
  const attack = await (await place.handle()).exec({ argv: command });
  attack.stdin.end();
  attack.stdout.resume();
  attack.stderr.resume();
  const began = performance.now();
  do {
    expect((await bystander.run("echo alive")).out).toBe("alive\n");
    expect((await arena.server.call("GET", `/api/v1/sandboxes?id=${place.id}`)).body[0].status).toBe(
      "RUNNING",
    );
  } while (performance.now() - began < holdMs);
  // A full sandbox may refuse a command or never get to it.
  const answer = await place.run("echo alive", { timeoutMs: own ? 150_000 : 5_000 });
  if (own) expect(answer.out).toBe("alive\n");
  expect((await place.route("POST", "/pause")).status).toBe(200);
  expect((await place.route("POST", "/resume")).status).toBe(200);
  const deleting = performance.now();
  expect((await place.route("DELETE", "")).status).toBe(200);
  expect(performance.now() - deleting).toBeLessThan(30_000);
}

describe("other sandboxes keep working during", () => {
  test("a fork bomb", () =>
    survive(["sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 30"], { own: false }));
  test("a fork bomb of processes that ignore signals and are orphans", () =>
    survive(
      python(`import os, signal, time
for n in range(1, 65):
  if n not in (9, 19, 32, 33): signal.signal(n, signal.SIG_IGN)
while True:
  try:
    if os.fork() == 0: os.setsid()
  except OSError: time.sleep(0.01)`),
      { own: false },
    ));
  test("busy threads", () =>
    survive(["sh", "-c", "for i in $(seq 60); do sh -c 'while :; do :; done' & done; wait"]));
  test("short-lived processes", () => survive(["sh", "-c", "while :; do /bin/true & done"], { own: false }));
});

describe("ends at its memory limit", () => {
  test.each([
    ["memory of its own", python("x = []\nwhile True: x.append(bytearray(1 << 20))")],
    [
      "memory that is shared",
      python(
        "import mmap\nx = []\nwhile True:\n  x.append(mmap.mmap(-1, 1 << 24)); x[-1].write(bytes(1 << 24))",
      ),
    ],
    [
      "locked memory",
      python(
        "import ctypes, mmap\nctypes.CDLL(None).mlockall(3)\nx = []\nwhile True: x.append(bytearray(1 << 20))",
      ),
    ],
    ["files in memory", python("import os\nwhile True: os.write(os.memfd_create('x'), bytes(1 << 24))")],
    [
      "pipes",
      python(
        "import os\nwhile True:\n  r, w = os.pipe(); os.set_blocking(w, False); os.write(w, bytes(65536))",
      ),
    ],
    [
      "queues of sockets",
      python(
        "import socket\nx = []\nwhile True:\n  x.append(socket.socketpair()); x[-1][0].setblocking(False)\n  try:\n    while True: x[-1][0].send(bytes(4096))\n  except BlockingIOError: pass",
      ),
    ],
  ])("that takes %s", async (_, command) => {
    const place = await arena.place();
    const hog = await place.run(["sh", "-c", 'exec 2>/dev/null; "$@"; echo "ended $?"', "sh", ...command]);
    // The kernel ends the shell too if it needs memory before it has what the hog held.
    expect(hog.out || `ended ${hog.code}\n`).toMatch(/^ended (137|1)\n$/);
    expect((await place.run("echo alive")).out).toBe("alive\n");
    expect((await bystander.run("echo alive")).out).toBe("alive\n");
  });

  test("/dev/shm and shared segments have bounds", async () => {
    const place = await arena.place();
    const { out } = await place.run(
      "head -c 1G /dev/zero >/dev/shm/x 2>/dev/null; echo $?; stat -c %s /dev/shm/x",
    );
    const [code, size] = out.split("\n").map(Number);
    expect(code).not.toBe(0);
    expect(size).toBeLessThan(2 ** 28 + 1);
    expect(
      (await place.run("rm /dev/shm/x; head -c 2M /dev/zero >/dev/x; ls -s /dev/x; echo alive")).out,
    ).toMatch(/alive\n$/);
  });

  test("files that a sandbox reads and writes do not count towards its memory permanently", async () => {
    const place = await arena.place();
    const { out } = await place.run(
      "head -c 400M /dev/zero >big; for i in 1 2; do cat big >/dev/null; done; stat -c %s big",
    );
    expect(out).toBe(`${400 * 2 ** 20}\n`);
  });

  test("no swap is used", async () => {
    const { out } = await bystander.run(
      "cat /proc/swaps | tail -n +2 | wc -l; grep -c VmSwap /proc/self/status",
    );
    expect(out).toMatch(/^\d+\n1\n$/);
  });
});

describe("the server serves others during", () => {
  test("a flood through a command", async () => {
    const place = await arena.place();
    const flood = await (await place.handle()).exec({ argv: ["sh", "-c", "yes & exec yes >&2"] });
    let bytes = 0;
    for (const stream of [flood.stdout, flood.stderr])
      stream.on("data", (chunk: Buffer) => (bytes += chunk.length));
    const began = performance.now();
    while (bytes < 10e6 || performance.now() - began < 1_500)
      expect((await bystander.run("echo alive")).out).toBe("alive\n");
    flood.kill();
    await flood.exit;
  });

  test("a flood through a terminal", async () => {
    const place = await arena.place();
    const terminal = openTerminal(await place.handle());
    const action = {
      kind: "TerminalAction",
      command: "cat /dev/zero | tr '\\0' x | fold -w 99",
      is_input: false,
      timeout: 1.5,
      reset: false,
    } as const;
    const running = terminal.run(action, new AbortController().signal);
    const began = performance.now();
    while (performance.now() - began < 1_200) expect((await bystander.run("echo alive")).out).toBe("alive\n");
    expect((await running).exit_code).toBe(-1);
    terminal.close();
  });

  test("a flood of downloads without a reader", async () => {
    const place = await arena.place();
    await place.run("head -c 200M /dev/zero >big");
    const before = process.memoryUsage().rss;
    const open = await Promise.all(Array.from({ length: 8 }, () => place.file("GET", "big")));
    for (let i = 0; i < 20; i++) expect((await bystander.run("echo alive")).out).toBe("alive\n");
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 2 ** 20);
    for (const { body } of open) await body!.cancel();
  });
});

test("processes that ignore SIGTERM end with their sandbox and do not delay a snapshot", async () => {
  const place = await arena.place();
  const stubborn = "trap '' TERM HUP INT QUIT; while :; do sleep 1; done";
  const process = await (await place.handle()).exec({
    argv: [
      "sh",
      "-c",
      `for i in 1 2 3 4 5; do setsid sh -c "${stubborn}" & done; ${stubborn.replace("while", "echo up; while")}`,
    ],
  });
  await once(process.stdout, "data");
  const began = performance.now();
  expect((await place.route("POST", "/snapshots")).status).toBe(201);
  expect(performance.now() - began).toBeLessThan(30_000);
  expect((await place.run("pgrep -c sleep")).out).toBe("0\n");
  expect((await place.route("DELETE", "")).status).toBe(200);
});

test("pauses, snapshots and deletions in the middle of an attack come to an end", async () => {
  const place = await arena.place();
  const attack = "while :; do mkdir -p a/b; echo x >a/b/c; rm -rf a; ln -s / a; rm a; done";
  // A pause freezes requests that it meets; they end once the sandbox runs again.
  const work: Promise<unknown>[] = [];
  for (const verb of ["/pause", "/resume", "/snapshots", "/pause", "/snapshots", "/resume"]) {
    await (await place.handle()).exec({
      argv: ["sh", "-c", `for i in 1 2 3; do (mkdir -p $i; cd $i; ${attack}) & done; wait`],
    });
    work.push(
      place.run("echo alive", { timeoutMs: 5_000 }).catch(() => {}),
      place.file("PUT", "x", "y"),
      place.file("GET", "x"),
    );
    expect((await place.route("POST", verb)).status).toBeLessThan(300);
  }
  expect((await place.run("echo alive")).out).toBe("alive\n");
  await Promise.all(work);
  expect((await place.route("DELETE", "")).status).toBe(200);
  expect(statfsSync(arena.folder).bavail).toBeGreaterThan(0);
});
