import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { expect, test } from "vitest";
import type { ExecRequest } from "../../src/driver.ts";
import { openInteractiveShell } from "../../src/shell/interactive-shell.ts";
import { runToEnd } from "../../src/shell/run.ts";
import { run, type SuiteContext } from "./context.ts";

/** The part of the driver suite about commands in a running sandbox. */
export function describeCommands(context: SuiteContext): void {
  const inside = (command: Parameters<typeof run>[2]) => run(context.driver, "one", command);

  test("separates stdout and stderr and returns the exit code", async () => {
    expect(await inside("echo out; echo err >&2; exit 7")).toEqual({ code: 7, out: "out\n", err: "err\n" });
  });

  test("passes 10 MB of random bytes in and out unchanged", async () => {
    const input = randomBytes(10 * 2 ** 20);
    const exec = (argv: string[]) =>
      runToEnd({ exec: (one) => context.driver.exec("one", one) }, { argv }, { input });
    const [echoed, hashed] = [await exec(["cat"]), await exec(["sha256sum"])];
    expect(echoed.stdout.equals(input)).toBe(true);
    expect(hashed.stdout.toString().slice(0, 64)).toBe(createHash("sha256").update(input).digest("hex"));
  });

  test("passes arguments, folder and environment literally", async () => {
    const odd = ["", " ", "$HOME", "`id`", "a\nb", '"', "'", "\\", "-n", "ü\u{1f600}"];
    const print = 'for x; do printf "%s\\0" "$x"; done; printf %s "$ODD"; pwd';
    const { out } = await inside({
      argv: ["sh", "-c", print, "sh", ...odd],
      cwd: "/tmp",
      env: { ODD: odd.join("|") },
    });
    expect(out).toBe(`${odd.map((text) => `${text}\0`).join("")}${odd.join("|")}/tmp\n`);
  });

  test("runs in the spec's folder as its user, with its environment", async () => {
    const { spec } = context;
    const { out } = await inside(
      "pwd; id -u; id -g; echo $HOME; touch mine && ls -ln mine | cut -d' ' -f1; rm mine",
    );
    expect(out).toBe(
      `${spec.workingDir}\n${spec.user.uid}\n${spec.user.gid}\n${spec.user.home}\n-rw-r--r--\n`,
    );
    const env = Object.entries(spec.env);
    const { out: values } = await inside(env.map(([name]) => `echo "$${name}"`).join("\n") || "true");
    expect(values).toBe(env.map(([, value]) => `${value}\n`).join(""));
  });

  test("returns 127 for a missing program and 126 for one that cannot run, with the message on stderr", async () => {
    const cases = [
      { argv: ["no-such-program"] },
      { argv: ["/no/such"] },
      { argv: ["/etc/passwd"] },
      { argv: ["/etc"] },
      { argv: ["true"], cwd: "/no/such" },
    ];
    const results = [];
    for (const command of cases) results.push(await inside(command));
    expect(results.map(({ code }) => code)).toEqual([127, 127, 126, 126, 126]);
    expect(results.map(({ out }) => out).join("")).toBe("");
    for (const { err } of results) expect(err).not.toBe("");
  });

  test("does not mistake a program's own output and exit code for the runtime's", async () => {
    const words = "OCI runtime exec failed: executable file not found";
    expect(await inside(`echo '${words}'; echo '${words}' >&2; exit 126`)).toEqual({
      code: 126,
      out: `${words}\n`,
      err: `${words}\n`,
    });
    const long = await inside(
      `echo '${words}'; i=0; while [ $i -lt 10000 ]; do echo 0123456789; i=$((i+1)); done`,
    );
    expect(long).toEqual({ code: 0, out: `${words}\n${"0123456789\n".repeat(10_000)}`, err: "" });
    expect(await inside("echo 'executable file not found' >&2; exit 255")).toMatchObject({ code: 255 });
    expect(await inside("exit 137")).toMatchObject({ code: 137 });
  });

  test("refuses a NUL and an empty command", async () => {
    const { driver } = context;
    await expect(driver.exec("one", { argv: ["echo", "a\0b"] })).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await expect(driver.exec("one", { argv: ["echo"], env: { A: "\0" } })).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await expect(driver.exec("one", { argv: [] })).rejects.toMatchObject({ code: "InvalidParameter" });
  });

  test("ends with its process although a child keeps the pipes open", async () => {
    const { code, out } = await inside("sleep 300 & echo $!");
    expect(code).toBe(0);
    expect((await inside(`kill -9 ${Number(out)}`)).code).toBe(0);
  });

  test("slows down a command whose output is not read", async () => {
    const flood = await context.driver.exec("one", { argv: ["sh", "-c", "cat /dev/zero"] });
    flood.stdout.once("readable", () => {});
    await expect.poll(() => flood.stdout.readableLength).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(flood.stdout.readableLength).toBeLessThan(4 * 2 ** 20);
    flood.stdout.resume();
    flood.kill();
    expect(await flood.exit).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("delivers signals, also to a process that has just started", async () => {
    const { driver } = context;
    const ended = await driver.exec("one", { argv: ["sleep", "300"] });
    ended.kill("SIGTERM");
    expect(await ended.exit).toEqual({ code: null, signal: "SIGTERM" });

    const stubborn = await driver.exec("one", {
      argv: ["sh", "-c", "trap '' TERM INT HUP; echo ready; while :; do sleep 0.1; done"],
    });
    await once(stubborn.stdout, "data");
    stubborn.kill("SIGTERM");
    stubborn.kill();
    expect(await stubborn.exit).toEqual({ code: null, signal: "SIGKILL" });
    stubborn.kill();
  });

  test("runs a command on a terminal with a size, input and a changed size", async () => {
    const shell = await context.driver.exec("one", {
      argv: ["sh"],
      tty: { cols: 91, rows: 17 },
      env: { PS1: "" },
    });
    let text = "";
    shell.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    shell.stdin.write("stty size; test -t 0 && tty; echo written >/dev/stderr; echo $TERM\n");
    await expect.poll(() => text).toMatch(/17 91\r\n.*\/dev\/pts\/\d+\r\n.*written\r\n.*xterm/s);
    shell.resize(60, 20);
    // The size arrives asynchronously, so the shell polls it.
    shell.stdin.write('while [ "$(stty size)" != "20 60" ]; do sleep 0.01; done; exit 5\n');
    expect(await shell.exit).toEqual({ code: 5, signal: null });
  });

  test("kills a terminal's process", async () => {
    const shell = await context.driver.exec("one", {
      argv: ["sh", "-c", "trap '' TERM HUP; echo ready; cat"],
      tty: { cols: 80, rows: 24 },
    });
    await once(shell.stdout, "data");
    shell.kill();
    expect(await shell.exit).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("ends a terminal's input", async () => {
    const cat = await context.driver.exec("one", { argv: ["cat"], tty: { cols: 80, rows: 24 } });
    cat.stdout.resume();
    cat.stdin.end();
    expect(await cat.exit).toEqual({ code: 0, signal: null });
  });

  test("opens an interactive shell that ends with its processes when its terminal hangs up", async () => {
    const { driver, spec } = context;
    const sandbox = {
      id: "one",
      incarnation: "1",
      spec,
      shell: driver.shell,
      exec: (one: ExecRequest) => driver.exec("one", one),
    };
    const open = async (tty: { cols: number; rows: number } | undefined) => {
      const opened = await openInteractiveShell(sandbox, { tty, cwd: undefined });
      const shell = { process: opened.process, hangUp: () => opened.hangUp(), text: "" };
      shell.process.stdout.on("data", (chunk: Buffer) => {
        shell.text += chunk;
      });
      return shell;
    };
    const commandLines = async () => (await inside("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).out;
    const shell = await open({ cols: 91, rows: 17 });
    shell.process.stdin.write("stty size; pwd; sleep 4321\n");
    await expect.poll(() => shell.text).toMatch(/17 91\r\n.*\/\S+\r\n/s);
    await expect.poll(commandLines).toMatch(/sleep 4321/);
    shell.hangUp();
    await shell.process.exit;
    await expect.poll(commandLines).not.toMatch(/sleep 4321/);

    const piped = await open(undefined);
    piped.process.stdin.end("pwd; test -t 0; exit 6");
    expect(await piped.process.exit).toEqual({ code: 6, signal: null });
    expect(piped.text).toBe(`${spec.workingDir}\n`);
    const waiting = await open(undefined);
    waiting.process.stdin.write("echo waits; sleep 4321\n");
    await expect.poll(() => waiting.text).toBe("waits\n");
    waiting.hangUp();
    await waiting.process.exit;
    await expect.poll(commandLines).not.toMatch(/sleep 4321/);
  });
}
