import { PassThrough } from "node:stream";
import { setImmediate, setTimeout } from "node:timers/promises";
import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { testSandbox } from "../../../test/support/terminal-sandbox.ts";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

let sandbox: Sandbox;
let removeSandbox: () => Promise<void>;
let terminal: Terminal;
let signal: AbortSignal;

beforeAll(async () => {
  ({ sandbox, remove: removeSandbox } = await testSandbox());
});
afterAll(() => removeSandbox());
beforeEach(() => {
  terminal = openTerminal(sandbox, { quietMs: 700 });
  signal = new AbortController().signal;
});
afterEach(() => terminal.close());

function run(command: string, more: Partial<TerminalAction> = {}): Promise<TerminalObservation> {
  return terminal.run({ kind: "TerminalAction", command, is_input: false, reset: false, ...more }, signal);
}
const input = (command: string) => run(command, { is_input: true });
const output = async (command: string) => contentText((await run(command, { timeout: 20 })).content);
const text = (observation: TerminalObservation) => contentText(observation.content);

describe("a command", () => {
  test("returns its output without prompts, with its metadata", async () => {
    const observation = await run("cd /tmp && echo out && echo err >&2 && (exit 7)");
    expect(observation).toEqual({
      kind: "TerminalObservation",
      content: [{ type: "text", text: "out\nerr\n", cache_prompt: false }],
      is_error: false,
      command: "cd /tmp && echo out && echo err >&2 && (exit 7)",
      exit_code: 7,
      timeout: false,
      metadata: {
        exit_code: 7,
        pid: -1,
        username: sandbox.spec.user.name,
        hostname: "shell-1",
        working_dir: "/tmp",
        py_interpreter_path: expect.stringMatching(/^\/usr\/.*python3?$/),
        prefix: "",
        suffix: "\n[The command completed with exit code 7.]",
      },
    });
    expect(await output("hostname")).toBe("shell-1\n");
  });

  test("leaves its directory, variables, functions, aliases, options and exit code to the next command", async () => {
    await run(
      "mkdir -p '/tmp/a b' && cd '/tmp/a b'; export X=1; y=2; f() { echo \"f $X $y\"; }; alias g='f'; shopt -s nullglob",
    );
    expect(await output("pwd; g; echo *")).toBe("/tmp/a b\nf 1 2\n\n");
    await run("(exit 9)");
    expect(await output("echo $?")).toBe("9\n");
  });

  test("may have several lines", async () => {
    expect(await output('for i in 1 2; do\n  echo "n $i"\ndone')).toBe("n 1\nn 2\n");
    expect(await output("cat <<'EOF'\nit's \"$HOME\" `x` \\ !!\n\ttab\nEOF")).toBe(
      'it\'s "$HOME" `x` \\ !!\n\ttab\n',
    );
  });

  test("may be a script of several commands; the exit code is that of the last one", async () => {
    const script = "cd /tmp\n# a comment\ncat > s.txt <<'EOF'\none\nEOF\n\ncat s.txt\nX=y\n(exit 4)";
    expect(await run(script)).toMatchObject({ exit_code: 4, content: [{ text: "one\n" }] });
    expect(await output('echo "$X $PWD"')).toBe("y /tmp\n");
  });

  test("with a syntax error returns at once", async () => {
    for (const broken of [
      "echo 'open",
      'echo "open',
      "if true; then",
      "echo $(",
      "cat <<EOF\nopen",
      ")",
      "for",
    ]) {
      const observation = await run(broken, { timeout: 5 });
      expect(observation.metadata.suffix, broken).toMatch(/completed with exit code/);
    }
    expect(await output("echo fine")).toBe("fine\n");
  });

  test("has a real terminal", async () => {
    expect(await output("test -t 0 && test -t 1 && tty && stty size")).toMatch(/^\/dev\/pts\/\d+\n50 200\n$/);
  });

  test("prints the process id of its background job, whose later output appears with the next command", async () => {
    const started = await run("(while [ ! -e /tmp/go ]; do sleep 0.01; done; echo late; touch /tmp/gone) &");
    expect(started.metadata.pid).toBeGreaterThan(1);
    await run("touch /tmp/go; until [ -e /tmp/gone ]; do :; done");
    const next = await run("echo next");
    expect(text(started) + text(next)).toContain("next\n");
  });
});

describe("a long-running command", () => {
  test("returns after a while without new output, can be polled, and ends", async () => {
    const quiet = await run("echo one; until [ -e /tmp/poll ]; do sleep 0.01; done; echo two");
    expect(quiet).toMatchObject({
      exit_code: -1,
      is_error: false,
      timeout: false,
      metadata: { exit_code: -1 },
    });
    expect(quiet.metadata.suffix).toMatch(/no new output for 0\.7 seconds.*empty command.*C-c/);
    expect(text(quiet)).toBe("one\n");
    const refused = await run("touch /tmp/other");
    expect(refused).toMatchObject({ is_error: true, exit_code: -1 });
    expect(refused.metadata.suffix).toMatch(/NOT run.*still running/);
    await runToEnd(sandbox, { argv: ["touch", "/tmp/poll"] });
    const end = await run("", { timeout: 10 });
    expect(end).toMatchObject({
      exit_code: 0,
      content: [{ text: "two\n" }],
      metadata: { prefix: expect.stringMatching(/earlier command/) },
    });
    expect(await output("ls /tmp/other 2>/dev/null")).toBe("");
  });

  test("that ends between two calls is reported with its output and exit code by any next call", async () => {
    const leave = async (name: string) => {
      const command = `echo first; until [ -e /tmp/${name} ]; do sleep 0.01; done; cd /tmp; echo last; (exit 3)`;
      expect((await run(command)).exit_code).toBe(-1);
      await runToEnd(sandbox, { argv: ["touch", `/tmp/${name}`] });
      await expect.poll(() => terminal.isBusy).toBe(false);
    };
    await leave("ended-1");
    const polled = await run("");
    expect(polled).toMatchObject({ exit_code: 3, is_error: false, content: [{ text: "last\n" }] });
    expect(polled.metadata).toMatchObject({
      prefix: expect.stringMatching(/earlier command/),
      working_dir: "/tmp",
    });
    expect((await run("")).metadata.suffix).toBe("");

    await leave("ended-2");
    const answered = await input("yes");
    expect(answered).toMatchObject({ exit_code: 3, content: [{ text: "last\n" }] });
    expect(answered.metadata.suffix).toMatch(/exit code 3.*not sent/);

    await leave("ended-3");
    const next = await run("pwd");
    expect(next).toMatchObject({ exit_code: 0, content: [{ text: "/tmp\n" }] });
    expect(next.metadata.prefix).toMatch(
      /earlier command `echo first.*has ended[\s\S]*\nlast\n\[.*exit code 3/,
    );
    expect((await run("pwd")).metadata.prefix).toBe("");
  });

  test("is waited for while it keeps writing", async () => {
    terminal.close();
    terminal = openTerminal(sandbox, { quietMs: 1_500 });
    const observation = await run("for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done");
    expect(observation.exit_code).toBe(0);
  });

  test("is left running at its own timeout, with or without output", async () => {
    const observation = await run("while :; do echo tick; sleep 0.05; done", { timeout: 0.4 });
    expect(observation).toMatchObject({ exit_code: -1, timeout: false });
    expect(observation.metadata.suffix).toMatch(/after 0\.4 seconds/);
    const stopped = await input("C-c");
    expect(stopped.exit_code).toBe(130);
    expect(stopped.metadata.suffix).toMatch(/exit code 130\. CTRL\+C was sent/);
    expect(await output("echo usable")).toBe("usable\n");
  });

  test("receives input with Enter, and C-d ends it", async () => {
    await run("cat");
    expect(text(await input("hello 'world'"))).toBe("hello 'world'\nhello 'world'\n");
    expect((await input("C-d")).metadata.suffix).toMatch(/exit code 0\. CTRL\+D was sent/);
    await run("read -p 'name: ' name");
    expect((await input("Ada Löve")).exit_code).toBe(0);
    expect(await output('echo "$name"')).toBe("Ada Löve\n");
  });

  test("is stopped by C-z and continued by fg", async () => {
    await run("sleep 100");
    expect((await input("C-z")).exit_code).toBe(148);
    expect(text(await run("fg"))).toContain("sleep 100");
    expect((await input("C-c")).exit_code).toBe(130);
  });

  test("receives keys as a terminal sends them", async () => {
    await run(`python3 -c "
import sys, tty, termios
old = termios.tcgetattr(0)
tty.setraw(0)
print('ready', flush=True)
data = b''
while b'q' not in data: data += sys.stdin.buffer.raw.read(64)
termios.tcsetattr(0, termios.TCSADRAIN, old)
print(data)
"`);
    for (const key of [
      "UP",
      "DOWN",
      "LEFT",
      "RIGHT",
      "HOME",
      "END",
      "PGUP",
      "PGDN",
      "TAB",
      "ESC",
      "BS",
      "ENTER",
      "C-a",
    ])
      await run(key, { is_input: true, timeout: 0.02 });
    const end = await input("q");
    expect(text(end) + text(await run("", { timeout: 5 }))).toContain(
      String.raw`b'\x1b[A\x1b[B\x1b[D\x1b[C\x1b[H\x1b[F\x1b[5~\x1b[6~\t\x1b\x7f\r\x01q\r'`,
    );
  });

  test("may be a Python session", async () => {
    await run("python3 -q");
    expect(text(await input("6 * 7"))).toContain("42\n");
    expect((await input("exit()")).exit_code).toBe(0);
  });
});

describe("an invalid call is refused", () => {
  test.each<[string, Partial<TerminalAction>, RegExp]>([
    ["", {}, /Nothing is running/],
    ["y", { is_input: true }, /Nothing is running/],
    ["C-c", { is_input: true }, /Nothing is running/],
    ["{'a': [1, None]}", {}, /Python or JSON value/],
    ["echo a\0b", {}, /NUL/],
  ])("%j %j", async (command, more, reason) => {
    const observation = await run(command, more);
    expect(observation).toMatchObject({ is_error: true, exit_code: -1 });
    expect(text(observation)).toMatch(reason);
    expect(await output("ls /tmp/x1 2>/dev/null")).toBe("");
  });

  test("reset with is_input throws", () =>
    expect(run("x", { reset: true, is_input: true })).rejects.toThrow(/reset and is_input/));
});

describe("reset", () => {
  test("clears the state and reports it", async () => {
    await run("cd /tmp; export X=1");
    expect(await run("", { reset: true })).toMatchObject({
      command: "[RESET]",
      exit_code: 0,
      content: [{ text: expect.stringMatching(/reset/) }],
    });
    expect(await output("pwd; echo [$X]")).toBe("/workspace\n[]\n");
  });

  test("replaces a hanging terminal, and runs a command", async () => {
    await run("trap '' INT; cat");
    const observation = await run("echo new; pwd", { reset: true });
    expect(observation).toMatchObject({ command: "[RESET] echo new; pwd", exit_code: 0 });
    expect(text(observation)).toMatch(/reset.*\nnew\n\/workspace\n$/);
  });
});

describe("an interrupt", () => {
  async function interrupt(command: string): Promise<void> {
    const controller = new AbortController();
    const running = terminal.run(
      { kind: "TerminalAction", command, is_input: false, reset: false, timeout: 60 },
      controller.signal,
    );
    void setTimeout(100).then(() => controller.abort(new Error("stop")));
    await expect(running).rejects.toThrow("stop");
  }

  test("stops the command and keeps the shell's state", async () => {
    await run("X=kept");
    await interrupt("sleep 100");
    expect(await output("echo $X")).toBe("kept\n");
    await interrupt("yes");
    expect(await output("echo $X")).toBe("kept\n");
    await interrupt("while :; do :; done");
    expect(await output("echo $X")).toBe("kept\n");
  });

  test("replaces a shell whose command ignores it", async () => {
    await run("cd /tmp");
    const began = performance.now();
    await interrupt("trap '' INT QUIT; while :; do :; done");
    expect(performance.now() - began).toBeLessThan(30_000);
    const next = await run("pwd; echo usable", { timeout: 20 });
    expect(text(next)).toBe("/tmp\nusable\n");
    expect(next.metadata.prefix).toMatch("earlier shell has ended");
    expect((await run("true")).metadata.prefix).toBe("");
  });

  test("keeps the shell's state also while the command is being typed", async () => {
    await run("X=kept");
    for (let lateMs = 0; lateMs < 8; lateMs += 0.5) {
      const controller = new AbortController();
      const action = {
        kind: "TerminalAction",
        command: "sleep 100",
        is_input: false,
        reset: false,
        timeout: 60,
      } as const;
      const running = terminal.run(action, controller.signal);
      // Timers are too coarse for this.
      for (const from = performance.now(); performance.now() - from < lateMs; ) await setImmediate();
      controller.abort(new Error("stop"));
      await expect(running).rejects.toThrow("stop");
      expect(await output("echo $X")).toBe("kept\n");
    }
  });

  test("keeps the shell's state on a very slow host", async () => {
    const slow = slowed(sandbox);
    terminal = openTerminal(slow.sandbox, { quietMs: 700 });
    await run("X=kept");
    slow.lateMs = 2_500;
    await interrupt("sleep 100");
    slow.lateMs = 0;
    expect(await output("echo $X")).toBe("kept\n");
  });

  test("leaves no key behind that would end the next command", async () => {
    terminal = openTerminal(withLateKey(sandbox), { quietMs: 700 });
    await run("X=kept");
    await interrupt("sleep 100");
    // The terminal may show the late key.
    expect(await output("echo $X $?")).toMatch(/^(\^C\r?\n)?kept 130\n$/);
  });
});

test("concurrent calls run one after the other", async () => {
  const calls = [run("sleep 0.1; echo a"), run("echo b"), run("echo c")];
  expect((await Promise.all(calls)).map(text)).toEqual(["a\n", "b\n", "c\n"]);
});

/** A sandbox whose terminals have a second C-c in flight when the next command is typed. */
function withLateKey(of: Sandbox): Sandbox {
  return {
    ...of,
    async exec(command) {
      const process = await of.exec(command);
      let state: "none" | "in flight" | "acted" = "none";
      const stdin = new PassThrough();
      stdin.on("data", (chunk: Buffer) => {
        process.stdin.write(chunk);
        if (state === "in flight") process.stdin.write("\x03");
        state = state !== "none" ? "acted" : chunk.equals(Buffer.from("\x03")) ? "in flight" : "none";
      });
      return { ...process, kill: (name) => process.kill(name), stdin };
    },
  };
}

/** A sandbox in which commands start, and report their start, `lateMs` late. */
function slowed(of: Sandbox): { sandbox: Sandbox; lateMs: number } {
  const late = { lateMs: 0, sandbox: of };
  late.sandbox = {
    ...of,
    async exec(command) {
      await setTimeout(late.lateMs);
      const process = await of.exec(command);
      const stdout = new PassThrough();
      process.stdout.on("data", (chunk) => void setTimeout(late.lateMs).then(() => stdout.write(chunk)));
      process.stdout.on("end", () => void setTimeout(late.lateMs).then(() => stdout.end()));
      return { ...process, kill: (name) => process.kill(name), stdout };
    },
  };
  return late;
}
