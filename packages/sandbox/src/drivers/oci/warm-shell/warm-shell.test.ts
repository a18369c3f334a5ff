import { once } from "node:events";
import { readdirSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openTestDriver, run, testSpec, workingRuntimes } from "../../../../test/support/oci.ts";
import type { ExecRequest } from "../../../driver.ts";
import type { OciDriver } from "../oci-driver.ts";

const runtimes = await workingRuntimes();

/** The parent of a command: a shell of the sandbox, or the runtime outside (shown as 0). */
const parent = ["/bin/sh", "-c", "echo $PPID"];

describe.each(runtimes)("the warm shell over %s", (runtime) => {
  let driver: OciDriver;
  let end: () => Promise<void>;
  let id = "";
  let number = 0;
  const inside = async (command: string | ExecRequest) => (await run(driver, id, command)).out;
  const resident = async () => (await inside({ argv: parent })) !== "0\n";
  /** A new sandbox with an idle shell. */
  const fresh = async (pids = testSpec.limits.pids) => {
    id = `resident-${++number}`;
    await driver.start({ id, spec: { ...testSpec, limits: { ...testSpec.limits, pids } } });
    await expect.poll(resident).toBe(true);
  };

  beforeAll(async () => {
    ({ driver, end } = await openTestDriver(runtime));
  });
  afterAll(() => end());
  beforeEach(() => fresh());
  afterEach(() => driver.remove(id));

  test("starts after the first command, not with the sandbox", async () => {
    await driver.start({ id: "first", spec: testSpec });
    const count = async () => (await run(driver, "first", "pgrep -c busybox")).out;
    expect(await count()).toBe("0\n");
    await expect.poll(count).toBe("1\n");
    await driver.remove("first");
  });

  test("gives a command the same environment as the runtime", async () => {
    await driver.start({ id: "plain", spec: testSpec });
    const env = {
      PS1: "a $x `id`",
      IFS: "x",
      go: "1",
      HOME: "/nowhere",
      PWD: "/p",
      OLDPWD: "/o",
      SHLVL: "9",
      EMPTY: "",
      QUOTE: 'it\'s\n"q"',
    };
    const facts =
      "env -0 | sort -z; pwd; umask; ulimit -n; ulimit -c; grep -E 'Cap|NoNew|Seccomp|SigIgn|SigBlk|Groups|[UG]id' /proc/self/status; ls /proc/self/fd; ps -o sid=,pgid= -p $$ | awk '{print $1 == $2}'";
    for (const request of [{}, { env }, { cwd: "/usr/../tmp" }, { env: { PATH: "/usr/bin" }, cwd: "/" }]) {
      const command = { argv: ["/bin/sh", "-c", facts], ...request };
      const [one, other] = [await run(driver, "plain", command), await run(driver, id, command)];
      expect(other).toEqual(one);
      await driver.remove("plain");
      await driver.start({ id: "plain", spec: testSpec });
    }
    // The score is written from outside, shortly after a process has begun.
    const score = async (name: string) => (await run(driver, name, "cat /proc/self/oom_score_adj")).out;
    await expect.poll(async () => (await score(id)) === (await score("plain"))).toBe(true);
    await driver.remove("plain");
    expect(await resident()).toBe(true);
  });

  test("passes arguments and variables with every character", async () => {
    const bytes = Array.from({ length: 0x2ff }, (_, at) => String.fromCodePoint(at + 1)).join("");
    const words = [bytes, "", "-n", "'", "\\", "$(id)", "\u{1f600}", "\n\n", "*", "~", "x".repeat(10_000)];
    const { out } = await run(driver, id, { argv: ["printf", "%s\\0", ...words, "end"] });
    expect(out.split("\0")).toEqual([...words, "end", ""]);
    expect(await inside({ argv: ["printenv", "ALL"], env: { ALL: bytes } })).toBe(`${bytes}\n`);
    // The runtime runs what a shell cannot. (With runc another shell precedes a command and drops
    // such a name.)
    if (runtime === "crun")
      expect(await inside({ argv: ["printenv", "a.b-c"], env: { "a.b-c": "x" } })).toBe("x\n");
    expect(await inside({ argv: ["printenv", "RANDOM"], env: { RANDOM: "y" } })).toBe("y\n");
    const long = "y".repeat(100_000);
    expect(await inside({ argv: ["printf", "%s", long] })).toBe(long);
  });

  test("runs the sandbox's own programs and reports programs that cannot run", async () => {
    expect(await inside("ls --version; command -v ls")).toContain("GNU coreutils");
    expect(await inside({ argv: ["ls", "--version"] })).toContain("GNU coreutils");
    await inside(
      "mkdir -p /tmp/bin/ls; printf 'text' >/tmp/bin/plain; printf '#!/bin/sh\\necho mine' >/tmp/bin/tr; chmod 755 /tmp/bin/tr",
    );
    const path = { PATH: "/tmp/bin:/usr/bin" };
    expect((await run(driver, id, { argv: ["tr"], env: path })).out).toBe("mine\n");
    expect((await run(driver, id, { argv: ["ls", "/tmp/bin"], env: path })).out).toBe("ls\nplain\ntr\n");
    const codes = [];
    for (const argv of [["plain"], ["/tmp/bin/plain"], ["/tmp"], ["nothing"], ["/nothing/at all"]]) {
      const { code, err } = await run(driver, id, { argv, env: { PATH: "/usr/bin:/tmp/bin" } });
      codes.push(code);
      expect(err).not.toBe("");
    }
    expect(codes).toEqual([126, 126, 126, 127, 127]);
    for (const cwd of ["/nowhere", "/etc/passwd", "/root"])
      expect((await run(driver, id, { argv: ["true"], cwd })).code).toBe(126);
    expect(await resident()).toBe(true);
  });

  test("opens its standard streams also by path", async () => {
    expect(
      await run(driver, id, "echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin", { input: "in" }),
    ).toEqual({
      code: 0,
      out: "out\nin",
      err: "err\n",
    });
    // stdin has ended long before it is opened.
    expect(await run(driver, id, "sleep 0.2; cat /dev/stdin; echo end")).toMatchObject({ out: "end\n" });
  });

  test("passes megabytes both ways concurrently and waits for a slow reader", async () => {
    const big = Buffer.alloc(5_000_000, "abcdefghij");
    expect(await inside({ argv: ["cat"] })).toBe("");
    expect((await run(driver, id, { argv: ["cat"] }, { input: big })).out.length).toBe(big.length);
    const process = await driver.exec(id, { argv: ["head", "-c", "3000000", "/dev/zero"] });
    await new Promise(setImmediate);
    let length = 0;
    process.stdout.on("data", (chunk: Buffer) => {
      length += chunk.length;
    });
    expect(await process.exit).toEqual({ code: 0, signal: null });
    expect(length).toBe(3_000_000);
  });

  test("does not wait for background processes, whose output reaches no later command", async () => {
    expect(await inside("(sleep 0.4; echo late; echo late >&2) & echo now")).toBe("now\n");
    expect(await run(driver, id, "sleep 0.6; echo later")).toEqual({ code: 0, out: "later\n", err: "" });
    expect(await inside("setsid sleep 300 >/dev/null 2>&1 & echo ok")).toBe("ok\n");
    await expect.poll(() => inside("pgrep -c sleep")).toBe("1\n");
    await inside("pkill sleep");
    await expect.poll(() => inside("ps -ef | grep -c '[d]efunct'")).toBe("0\n");
  });

  test.each(["SIGTERM", "SIGINT", "SIGKILL"] as const)(
    "%s ends only the command, SIGKILL also its group",
    async (signal) => {
      await inside("setsid sleep 77 >/dev/null 2>&1 &");
      const process = await driver.exec(id, { argv: ["sh", "-c", "sleep 88 & echo ready; wait"] });
      await once(process.stdout, "data");
      process.stdout.resume();
      process.kill(signal);
      expect(await process.exit).toEqual({ code: null, signal });
      process.kill();
      expect(await inside("pgrep -fc '^sleep 77'")).toBe("1\n");
      expect(await inside("pgrep -fc '^sleep 88'")).toBe(signal === "SIGKILL" ? "0\n" : "1\n");
      await inside("pkill sleep");
      expect(await resident()).toBe(true);
    },
  );

  test("runs commands concurrently and leaves no file, process or pipe", async () => {
    const fds = () => readdirSync("/proc/self/fd").length;
    const all = () => Promise.all(Array.from({ length: 8 }, (_, at) => inside(`sleep 0.02; echo ${at}`)));
    for (let round = 0; round < 3; round++)
      expect(await all()).toEqual(Array.from({ length: 8 }, (_, at) => `${at}\n`));
    await inside("true");
    const [before, processes] = [fds(), await inside("ps -e | wc -l")];
    for (let round = 0; round < 50; round++) await inside({ argv: ["true"] });
    expect(await inside("ps -e | wc -l")).toBe(processes);
    await expect.poll(fds).toBeLessThanOrEqual(before + 2);
    expect(readdirSync(pipes(id)).filter((name) => name !== "busybox")).toEqual([]);
    expect(Number(await inside("pgrep -c busybox"))).toBeLessThanOrEqual(4);
  });

  test.runIf(runtime === runtimes[0])(
    "a sandbox that kills, stops, floods or misleads its shell only loses speed",
    async () => {
      const attacks = {
        kill: "kill -9 -1",
        stop: "pkill -STOP busybox",
        flood: "exec 9>/proc/$PPID/fd/3; yes >&9",
        "wrong word": "echo 'x 0' >/proc/$PPID/fd/3; echo s >/proc/$PPID/fd/3",
        "long word": "head -c 100000 /dev/zero >/proc/$PPID/fd/3",
      };
      for (const [name, attack] of Object.entries(attacks)) {
        await driver.remove(id);
        await fresh();
        const began = Date.now();
        await run(driver, id, attack, { timeoutMs: 500 });
        expect((await run(driver, id, "echo works")).out, name).toBe("works\n");
        expect(Date.now() - began, name).toBeLessThan(30_000);
        await expect.poll(resident, { message: name }).toBe(true);
      }
    },
  );

  test("a full sandbox gets an error at once, and works again when processes end", async () => {
    await driver.remove(id);
    await fresh(12);
    await inside("for i in 1 2 3 4 5 6 7 8 9; do setsid sleep 50 & done >/dev/null 2>&1");
    const began = Date.now();
    for (let round = 0; round < 3; round++)
      await run(driver, id, { argv: ["sh", "-c", "true | true | true"] });
    expect(Date.now() - began).toBeLessThan(30_000);
    await run(driver, id, { argv: ["pkill", "sleep"] });
    await expect.poll(() => inside("echo again")).toBe("again\n");
  });

  test("runs a terminal as the runtime does, and another shell runs the next commands", async () => {
    await driver.start({ id: "plain", spec: testSpec });
    const facts =
      "env -0 | sort -z | tr '\\0' ' '; tty | tr 0-9 N; stty -a; ls /proc/self/fd; grep -E 'Cap|NoNew|Seccomp|SigIgn|SigBlk' /proc/self/status; ps -o tpgid=,sid= -p $$ | awk '{print $1 == $2}'; [ -w /dev/tty ]; exit 7";
    const onTerminal = async (name: string, argv: string[]) => {
      const process = await driver.exec(name, { argv, cwd: "/tmp", tty: { cols: 91, rows: 17 } });
      const text = (await process.stdout.toArray()).join("");
      // runc changes this setting, which matters to nobody behind a terminal.
      return { text: text.replace(/-?onlcr/, "").replaceAll("\r", ""), exit: await process.exit };
    };
    const [one, other] = [
      await onTerminal("plain", ["/bin/sh", "-c", facts]),
      await onTerminal(id, ["/bin/sh", "-c", facts]),
    ];
    expect(one.exit).toEqual({ code: 7, signal: null });
    expect(other).toEqual(one);
    await driver.remove("plain");
    await expect.poll(resident).toBe(true);
    expect((await onTerminal(id, parent)).text).not.toBe("0\n");
    await expect.poll(resident).toBe(true);
    const owner = await onTerminal(id, ["sh", "-c", "stat -c '%U %G %a' $(tty)"]);
    expect(owner.text).toBe("agent tty 620\n");
    await expect.poll(resident).toBe(true);
    const closing = await onTerminal(id, ["sh", "-c", "exec <&- >&- 2>&-; sleep 0.1; exit 7"]);
    expect(closing).toEqual({ text: "", exit: { code: 7, signal: null } });
  });

  test("a terminal takes a size, keys and signals, and hangs up at its end", async () => {
    const tty = { cols: 91, rows: 17 };
    const shell = await driver.exec(id, { argv: ["bash", "--norc", "-i"], env: { PS1: "> " }, tty });
    let text = "";
    shell.stdout.on("data", (chunk: Buffer) => {
      text += chunk;
    });
    shell.stdin.write("echo $PPID is no$((0))ne; sleep 4321\n");
    await expect.poll(() => text).toMatch(/[1-9]\d* is no0ne\r\n/);
    await expect.poll(() => inside("pgrep -c sleep")).toBe("1\n");
    shell.stdin.write("\x03");
    shell.stdin.write("echo code $?; stty size\n");
    await expect.poll(() => text).toMatch(/code 130\r\n.*17 91\r\n/s);
    shell.resize(60, 20);
    shell.stdin.write("stty size; sleep 4321\n");
    await expect.poll(() => text).toMatch(/20 60\r\n/);
    await expect.poll(() => inside("pgrep -c sleep")).toBe("1\n");
    shell.kill();
    expect(await shell.exit).toEqual({ code: null, signal: "SIGKILL" });
    await expect.poll(() => inside("pgrep -c 'sleep|bash'")).toBe("0\n");
    shell.resize(1, 1);
    await expect.poll(resident).toBe(true);

    const left = await driver.exec(id, { argv: ["cat"], tty });
    left.stdout.resume();
    await driver.remove(id);
    expect((await left.exit).code).not.toBe(0);
  });

  test("survives a pause and is replaced after a restart of the sandbox", async () => {
    const shell = await inside({ argv: parent });
    const running = await driver.exec(id, { argv: ["cat"] });
    await driver.pause(id);
    await expect(driver.exec(id, { argv: ["true"] })).rejects.toMatchObject({ code: "SandboxNotRunning" });
    await driver.resume(id);
    running.stdin.end("through");
    expect((await running.stdout.toArray()).join("")).toBe("through");
    await running.exit;
    expect(await inside({ argv: parent })).toBe(shell);
    const left = await driver.exec(id, { argv: ["sleep", "60"] });
    left.stdout.resume();
    await driver.remove(id);
    expect((await left.exit).code).toBe(137);
    await driver.start({ id, spec: testSpec });
    expect(await inside({ argv: parent })).toBe("0\n");
    await driver.remove(id);
    expect(() => readdirSync(pipes(id))).toThrow();
  });
});

/** Folder of a sandbox's pipes on the host. */
function pipes(id: string): string {
  const found = ["/run", "/dev/shm"].flatMap((place) =>
    readdirSync(place)
      .filter((name) => name.startsWith("sandpiper-"))
      .map((name) => `${place}/${name}`),
  );
  const folder = found.find((one) => readdirSync(one).includes(id));
  if (!folder) throw new Error("there is no folder of pipes");
  return `${folder}/${id}`;
}
