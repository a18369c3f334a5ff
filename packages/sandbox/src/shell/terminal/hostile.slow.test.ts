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

beforeAll(async () => {
  ({ sandbox, remove: removeSandbox } = await testSandbox());
});
afterAll(() => removeSandbox());
beforeEach(() => {
  terminal = openTerminal(sandbox, { quietMs: 3_000 });
});
afterEach(() => terminal.close());

function run(
  command: string,
  more: Partial<TerminalAction> = {},
  signal = new AbortController().signal,
): Promise<TerminalObservation> {
  return terminal.run({ kind: "TerminalAction", command, is_input: false, reset: false, ...more }, signal);
}
const text = (observation: TerminalObservation) => contentText(observation.content);
const output = async (command: string) => text(await run(command));

describe("output", () => {
  test("that is still being copied when its command ends does not delay the next one", async () => {
    for (let round = 0; round < 60; round++) {
      await run("head -c 200000 /dev/zero | tr '\\0' x");
      expect(await run(`echo ${round}`)).toMatchObject({ exit_code: 0, content: [{ text: `${round}\n` }] });
    }
  });

  test("of more than 30 000 characters is cut in the middle, and the sandbox keeps all of it", async () => {
    const observation = await run("seq 1 20000");
    expect(text(observation).length).toBeLessThanOrEqual(30_000);
    const [, left, total, path, line] =
      /\[(\d+) of (\d+) characters are left out.* whole output is in (\S+); .*line (\d+)\.\]/.exec(
        text(observation),
      )!;
    expect([Number(total), Number(left) > 0]).toEqual([108_894, true]);
    expect(text(observation)).toMatch(/^1\n2\n[\s\S]*\n19999\n20000\n$/);
    expect(path).toMatch(/^\/tmp\/terminal_output\/terminal_output_[0-9a-f]{8}\.txt$/);
    expect(observation.full_output_save_dir).toBe("/tmp/terminal_output");
    expect(await output(`seq 1 20000 | cmp - ${path} && echo same`)).toBe("same\n");
    expect(text(observation).split("\n")[Number(line) - 2]).toBe(String(Number(line) - 1));
  });

  test("of exactly 30 000 characters is not cut", async () => {
    expect(await output("head -c 30000 /dev/zero | tr '\\0' x")).toBe("x".repeat(30_000));
  });

  test("of 100 MB is read in bounded memory while the server serves others", async () => {
    const before = process.memoryUsage().rss;
    let worst = 0;
    let last = performance.now();
    const timer = setInterval(() => {
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
    }, 5);
    const observation = await run("head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end", {
      timeout: 60,
    });
    clearInterval(timer);
    expect(observation.exit_code).toBe(0);
    expect(text(observation)).toMatch(/beginning of the output is in/);
    expect(text(observation)).toMatch(/xend\n$/);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    expect(worst).toBeLessThan(5_000);
  });

  test("without end is stopped by C-c", async () => {
    const flood = await run("yes", { timeout: 0.5 });
    expect(flood.exit_code).toBe(-1);
    expect(text(flood).length).toBeLessThanOrEqual(30_000);
    expect((await run("C-c", { is_input: true })).exit_code).toBe(130);
    expect(await output("echo usable")).toBe("usable\n");
  });

  test("of binary garbage and escapes is harmless", async () => {
    await run("head -c 300000 /dev/urandom");
    expect(
      await output("printf '\\033[31mred\\033[0m \\033]0;title\\007\\033[2J\\033[?1049h\\033c|\\303|\\n'"),
    ).toBe("red |\ufffd|\n");
    expect(await output("printf 'no line break'")).toBe("no line break");
    expect(await output("printf '\\033]0;open'")).toBe("");
    expect(await output("echo 'grüße 😀 日本'")).toBe("grüße 😀 日本\n");
  });

  test("that quotes the shell's markers stays output", async () => {
    const shown = await output('echo "$PS1"; declare -p PROMPT_COMMAND 2>&1; echo after');
    expect(shown).toMatch(/^[0-9a-f]{24}:P\d+:\$\$:[\s\S]*PROMPT_COMMAND=[\s\S]*\nafter\n$/);
  });
});

describe("a command", () => {
  test("of 200 KB reaches the shell unchanged", async () => {
    const line = 'it\'s a "line" with $x `y` \\ and ünï€😀\t';
    const body = `${line.repeat(60)}\n`.repeat(75);
    expect(Buffer.byteLength(body)).toBeGreaterThan(200_000);
    await run(`cat > /tmp/big <<'EOF'\n${body}EOF`);
    const read = await runToEnd(sandbox, { argv: ["cat", "/tmp/big"] });
    expect(read.stdout.toString()).toBe(body);
    expect(await output(`true ${"x".repeat(5_000)}; cd /tmp; false; echo $? && pwd`)).toBe("1\n/tmp\n");
    expect(await output("ls /tmp/terminal_output | grep command_")).toBe("");
  });

  test("rejects input that is longer than a terminal line", async () => {
    await run("cat", { timeout: 0.2 });
    expect(await run("x".repeat(5_000), { is_input: true })).toMatchObject({ is_error: true, exit_code: -1 });
    expect((await run("C-c", { is_input: true })).exit_code).toBe(130);
  });

  test("with control characters does not reach the terminal's line editing", async () => {
    const controls = Array.from({ length: 31 }, (_, index) => String.fromCharCode(index + 1))
      .filter((char) => char !== "\n")
      .join("");
    await run(`printf %s '${controls}\x7f' > /tmp/controls`);
    const read = await runToEnd(sandbox, { argv: ["cat", "/tmp/controls"] });
    expect(read.stdout.toString()).toBe(`${controls}\x7f`);
  });

  test("may change the terminal settings, the prompts and the shell's output", async () => {
    for (const change of [
      "PS1='$ '; PS2='> '; PS0=zero; PROMPT_COMMAND='echo noise'",
      "stty raw -echo",
      "stty sane",
      "unset PS1 PROMPT_COMMAND",
      "set -u",
      "set -f -C",
      "IFS=0123456789:",
      "printf() { echo fake; }; eval() { echo fake; }; alias printf=false",
      "exec 2>/tmp/err",
    ]) {
      expect((await run(change)).exit_code, change).toBe(0);
      expect(await output("echo usable"), change).toContain("usable\n");
    }
  });

  test("may redirect the shell's output", async () => {
    expect(await run("exec 3>&1 >/tmp/out 2>&1")).toMatchObject({ exit_code: 0 });
    expect(await run("echo hidden")).toMatchObject({ exit_code: 0, content: [{ text: "" }] });
    expect(await run("exec >&3 2>&3 3>&-; cat /tmp/out")).toMatchObject({
      exit_code: 0,
      content: [{ text: expect.stringContaining("hidden\n") }],
    });
  });

  test("may be traced, trapped and aborted by a failed expansion", async () => {
    expect(await output("set -x; echo traced")).toMatch(/\+ echo traced\ntraced\n$/);
    expect(await output("set +x")).toMatch(/^(\+.*\n)*$/);
    expect((await run("trap 'echo caught' INT; trap 'echo failed' ERR; set -u")).exit_code).toBe(0);
    expect((await run("echo ${nothing?is missing}; echo never")).exit_code).not.toBe(0);
    expect((await run("readonly r=1; r=2; echo never")).exit_code).not.toBe(0);
    expect(await output("echo usable")).toBe("usable\n");
  });

  test("may leave a background process that holds the terminal", async () => {
    await run("(trap '' HUP TTIN; cat 2>/tmp/cat.log; sleep 30) &");
    await run("sleep 30 & disown");
    expect(await output("echo usable")).toContain("usable\n");
    expect(await output("read x <<< typed; echo $x")).toBe("typed\n");
    await run("kill %1; kill -9 $!");
  });

  test("may leave unread input", async () => {
    await run("sleep 0.5", { timeout: 0.1 });
    await run("UP", { is_input: true, timeout: 0.1 });
    await run("", { timeout: 5 });
    expect(await output("echo usable")).toContain("usable\n");
  });
});

describe("a shell that ends", () => {
  test.each([
    ["exit 3", 3, false],
    ["exec false", 1, false],
    ["set -e; false", 1, false],
    ["kill -9 $$", 137, true],
  ])(
    "%s is reported, and the next command gets a new shell in the same folder",
    async (command, code, isError) => {
      await run("cd /tmp && X=1");
      const observation = await run(command);
      expect(observation).toMatchObject({ exit_code: code, is_error: isError });
      expect(observation.metadata.suffix).toMatch(/shell itself ended with exit code.*new shell in \/tmp/);
      const next = await run("pwd; echo [$X]");
      expect(text(next)).toBe("/tmp\n[]\n");
      expect(next.metadata.prefix).toMatch(/new one/);
    },
  );

  test("while idle is replaced too, in another folder if its own was removed", async () => {
    await run("mkdir /tmp/gone && cd /tmp/gone && rmdir /tmp/gone");
    await run("exit");
    expect(await output("pwd")).toBe("/workspace\n");
  });
});

test("startup files are read", async () => {
  await run("echo 'export FROM_RC=yes; echo noise' > ~/.bashrc");
  expect(text(await run("echo $FROM_RC", { reset: true }))).toMatch(/\nyes\n$/);
  await run("rm ~/.bashrc");
});

test("without bash the terminal uses sh", async () => {
  await run(
    "mkdir -p /tmp/bin && cd /tmp/bin && ln -s /bin/sh /usr/bin/cat /usr/bin/sleep /usr/bin/seq /usr/bin/mkdir . && cd",
  );
  terminal.close();
  terminal = openTerminal(sandbox, { env: { PATH: "/tmp/bin" }, quietMs: 300 });
  expect(await output("echo [$BASH_VERSION] it\\'s; cd /tmp; X=1; f() { echo f $X; }")).toBe("[] it's\n");
  const next = await run("f; pwd; (exit 4)");
  expect(next).toMatchObject({ exit_code: 4, content: [{ text: "f 1\n/tmp\n" }] });
  expect(await output("echo $?; echo 'a\rb\x01'")).toBe("4\nb\n");
  expect((await run("echo 'open")).exit_code).toBe(2);
  await run("cat");
  expect(text(await run("hi", { is_input: true }))).toBe("hi\nhi\n");
  expect((await run("C-c", { is_input: true })).exit_code).toBe(130);
  expect(text(await run("seq 1 20000"))).toMatch(/whole output is in/);
  expect((await run("exit 5")).exit_code).toBe(5);
  expect(await output("pwd")).toBe("/tmp\n");
});

test("a call in a removed sandbox throws a readable error", async () => {
  const other = await testSandbox();
  terminal = openTerminal(other.sandbox);
  const running = run("sleep 100", { timeout: 60 });
  setTimeout(other.remove, 300);
  expect((await running).is_error).toBe(true);
  await expect(run("echo x")).rejects.toThrow(/\w+/);
});

test("a call of an endlessly printing command returns after a while, and the command can be stopped", async () => {
  terminal.close();
  terminal = openTerminal(sandbox, { quietMs: 20_000, longestMs: 1_200 });
  const endless = await run("yes");
  expect(endless).toMatchObject({ exit_code: -1, is_error: false });
  expect(endless.metadata.suffix).toMatch(/still prints.*C-c/);
  expect(text(endless).length).toBeLessThanOrEqual(30_000);
  let end = await run("C-c", { is_input: true });
  while (end.exit_code === -1) end = await run("");
  expect(end.exit_code).toBe(130);
  expect(await output("echo after")).toBe("after\n");
});
