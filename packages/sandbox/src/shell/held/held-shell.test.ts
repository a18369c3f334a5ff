import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { TerminalObservation } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { killProcess, startTerminalProcess } from "../../../test/support/terminal-process.ts";
import { testSandbox } from "../../../test/support/terminal-sandbox.ts";
import type { OciDriver } from "../../drivers/oci/oci-driver.ts";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";
import { CommandInterrupted } from "../terminal/command-interrupted.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

let sandbox: Sandbox;
let driver: OciDriver;
let dir: string;
let remove: () => Promise<void>;
let held: { folder: string; epoch: number };
let terminals: Terminal[];
let serial = 0;

beforeAll(async () => {
  ({ sandbox, driver, dir, remove } = await testSandbox());
});
afterAll(() => remove());
beforeEach(() => {
  held = { folder: `/tmp/terminal_output/held_${serial++}`, epoch: 1 };
  terminals = [];
});
afterEach(() => Promise.all(terminals.map((terminal) => terminal.close())));

const inSandbox = async (script: string) =>
  (await runToEnd(sandbox, { argv: ["/bin/sh", "-c", script], cwd: "/" })).stdout.toString();
const text = ({ content, metadata }: TerminalObservation) => contentText(content) + metadata.suffix;

/** Starts a process that runs a command as a server does. */
function startServer(command: string, callId = "call1", timeout?: number) {
  const { id, spec } = sandbox;
  return startTerminalProcess({
    ...{ dir, id, spec, held, command, callId },
    ...(timeout !== undefined && { timeout }),
  });
}

async function runUntil(server: ReturnType<typeof startServer>, pattern: RegExp): Promise<string[]> {
  const seen: string[] = [];
  for await (const line of server.lines) {
    seen.push(line);
    if (pattern.test(line)) return seen;
  }
  throw new Error(`the process ended after: ${seen.join("\n")}`);
}

function repeat(command: string, callId = "call1", more: { timeout?: number; epoch?: number } = {}) {
  const { timeout, epoch = held.epoch } = more;
  const terminal = openTerminal(sandbox, { held: { ...held, epoch }, quietMs: 3_000 });
  terminals.push(terminal);
  const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout } as const;
  const outputs: string[] = [];
  const result = terminal.run(action, new AbortController().signal, (part) => outputs.push(part), {
    id: callId,
    isRepeated: true,
  });
  return { terminal, outputs, result };
}

describe("a command whose server is killed", () => {
  test("goes on, and the next server gets the whole output and the exit code", async () => {
    const command = "export KEPT=1; for i in $(seq 1 40); do echo line $i; sleep 0.05; done; (exit 3)";
    const server = startServer(command);
    await runUntil(server, /line 3\\n/);
    await killProcess(server.child);
    const { result, outputs, terminal } = repeat(command);
    const observation = await result;
    const whole = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`).join("");
    expect(text(observation)).toBe(`${whole}\n[The command completed with exit code 3.]`);
    expect(observation.exit_code).toBe(3);
    expect(outputs.join("")).toBe(whole);
    expect(outputs.length).toBeGreaterThan(3);
    const next = await terminal.run(
      { kind: "TerminalAction", command: "echo $? $KEPT", is_input: false, reset: false },
      new AbortController().signal,
    );
    expect(contentText(next.content)).toBe("3 1\n");
  });

  test("may end before the next server joins", async () => {
    const command = "echo begin; sleep 0.3; echo end; echo x >> /tmp/ran1";
    const server = startServer(command);
    await runUntil(server, /begin/);
    await killProcess(server.child);
    await delay(800);
    expect(text(await repeat(command).result)).toBe(
      "begin\nend\n\n[The command completed with exit code 0.]",
    );
    expect(await inSandbox("cat /tmp/ran1")).toBe("x\n");
  });

  test("keeps its time limit, which counts from its begin", async () => {
    const command = "echo begin; sleep 20";
    const server = startServer(command, "call1", 4);
    await runUntil(server, /begin/);
    await killProcess(server.child);
    await delay(1_500);
    const began = performance.now();
    const observation = await repeat(command, "call1", { timeout: 4 }).result;
    expect(performance.now() - began).toBeLessThan(3_500);
    expect(text(observation)).toMatch(/^begin\n\n\[The command is still running after 4 seconds/);
  });

  test("at any moment of the command runs once", async () => {
    const command = "echo begin; echo x >> /tmp/ran2; for i in 1 2 3 4 5; do echo $i; sleep 0.02; done";
    for (let round = 0; round < 12; round++) {
      held = { ...held, folder: `/tmp/terminal_output/held_r${round}` };
      await inSandbox("rm -f /tmp/ran2");
      const first = repeat("true", "call0").result.catch(() => {});
      await first;
      const setup = openTerminal(sandbox, { held });
      await setup.run(
        { kind: "TerminalAction", command: "true", is_input: false, reset: false },
        new AbortController().signal,
      );
      setup.leave();
      const server = startServer(command);
      await delay(350 + round * 15 + Math.random() * 15);
      await killProcess(server.child);
      const observation = await repeat(command).result;
      expect(text(observation)).toBe("begin\n1\n2\n3\n4\n5\n\n[The command completed with exit code 0.]");
      expect(await inSandbox("cat /tmp/ran2")).toBe("x\n");
    }
  });

  test("that prints very much waits while no client reads, and no output is lost", {
    timeout: 120_000,
  }, async () => {
    const command = "seq 1 12000000";
    const server = startServer(command);
    await runUntil(server, /out/);
    await killProcess(server.child);
    const size = async () => Number(await inSandbox(`cat ${held.folder}/part.* | wc -c`));
    const sizes = [await size()];
    while (sizes.at(-1) !== sizes.at(-2) || sizes.at(-1)! < 30e6) {
      await delay(700);
      sizes.push(await size());
    }
    expect(sizes.at(-1)).toBeLessThan(80e6);
    const { exit_code, content } = await repeat(command, "call1", { timeout: 100 }).result;
    expect(exit_code).toBe(0);
    expect(contentText(content)).toMatch(/^1\n2\n[\s\S]*11999999\n12000000\n$/);
  });

  test("and that left a program in the background ends with its exit code", async () => {
    const command =
      "(sleep 1; echo late > /tmp/late) & setsid sleep 60 >/dev/null 2>&1 & echo begin; sleep 0.5; echo done";
    const server = startServer(command);
    await runUntil(server, /begin/);
    await killProcess(server.child);
    expect(text(await repeat(command).result)).toMatch(/begin\n[\s\S]*done\n\n\[The command completed/);
    await delay(1_000);
    expect(await inSandbox("cat /tmp/late")).toBe("late\n");
  });

  test("and that closed its terminal still gives its exit code", async () => {
    const command = "echo begin; sh -c 'exec </dev/null >/dev/null 2>&1; sleep 1; exit 4'";
    const server = startServer(command);
    await runUntil(server, /begin/);
    await killProcess(server.child);
    expect((await repeat(command).result).exit_code).toBe(4);
  });
});

describe("a repeated call", () => {
  test("runs when the shell lives and has not begun the command", async () => {
    await repeat("true", "call0").result.catch(() => {});
    const first = openTerminal(sandbox, { held });
    await first.run(
      { kind: "TerminalAction", command: "cd /tmp", is_input: false, reset: false },
      new AbortController().signal,
    );
    first.leave();
    expect(text(await repeat("pwd", "call2").result)).toMatch(/^\/tmp\n/);
  });

  test("is interrupted when a later command has begun, and that command goes on", async () => {
    const first = openTerminal(sandbox, { held });
    const action = { kind: "TerminalAction", is_input: false, reset: false } as const;
    const { signal } = new AbortController();
    await first.run({ ...action, command: "echo x >> /tmp/ran4" }, signal, undefined, {
      ...{ id: "call3", isRepeated: false },
    });
    first.leave();
    const command = "echo begin; sleep 1; echo end";
    const server = startServer(command, "call4");
    await runUntil(server, /begin/);
    await killProcess(server.child);
    const { terminal, result } = repeat("echo x >> /tmp/ran4", "call3");
    await expect(result).rejects.toThrow(CommandInterrupted);
    const call = { id: "call4", isRepeated: true };
    expect(text(await terminal.run({ ...action, command }, signal, undefined, call))).toMatch(
      /^begin\nend\n/,
    );
    expect(await inSandbox("cat /tmp/ran4")).toBe("x\n");
    await expect(terminal.run({ ...action, command }, signal, undefined, call)).rejects.toThrow(
      CommandInterrupted,
    );
  });

  test("is interrupted when nothing is known of the command", async () => {
    await expect(repeat("echo x >> /tmp/ran3").result).rejects.toThrow(CommandInterrupted);
    expect(await inSandbox("ls /tmp/ran3 2>/dev/null")).toBe("");
  });

  test("is interrupted, with its output, when the processes of the shell were killed", async () => {
    const command = "echo begin; sleep 60";
    const server = startServer(command);
    await runUntil(server, /begin/);
    await killProcess(server.child);
    await driver.stop(sandbox.id);
    await driver.start({ id: sandbox.id, spec: sandbox.spec });
    const failure = await repeat(command).result.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CommandInterrupted);
    expect((failure as CommandInterrupted).output.text).toBe("begin\n");
  });
});

test("a shell takes the input of the next owner, and none of the earlier owner, which is still connected", async () => {
  const signal = new AbortController().signal;
  const action = (command: string) =>
    ({ kind: "TerminalAction", command, is_input: false, reset: false }) as const;
  const before = openTerminal(sandbox, { held, quietMs: 3_000 });
  terminals.push(before);
  await before.run(action("export KEPT=1; echo one"), signal, undefined, { id: "call1", isRepeated: false });
  const next = repeat("echo $KEPT two", "call2", { epoch: held.epoch + 1 });
  expect(contentText((await next.result).content)).toBe("1 two\n");
  // The earlier owner has not noticed yet that another server owns the conversation.
  const late = before.run(action("echo x >>/tmp/unowned"), AbortSignal.timeout(1_500)).catch(() => {});
  const last = await next.terminal.run(action("sleep 1; echo last"), signal);
  expect(contentText(last.content)).toBe("last\n");
  await late;
  expect(await inSandbox("cat /tmp/unowned 2>&1")).toMatch(/No such file/);
});

test("a process with the id of an earlier holder is not the holder", async () => {
  const other = await sandbox.exec({
    argv: [
      "/bin/sh",
      "-c",
      `mkdir -p ${held.folder}; cd ${held.folder}; echo $$ 1 0 abc /dev/null | tee holder; exec sleep 60`,
    ],
    cwd: "/",
  });
  await once(other.stdout, "data");
  await inSandbox(`cd ${held.folder}; echo '9 s9 bash' >call; mkfifo in out`);
  const terminal = openTerminal(sandbox, { held, quietMs: 3_000 });
  terminals.push(terminal);
  const action = { kind: "TerminalAction", command: "echo works", is_input: false, reset: false } as const;
  expect(text(await terminal.run(action, new AbortController().signal))).toMatch(/^works\n/);
  other.kill();
});

test("a command that runs while the sandbox's disk is full runs once", async () => {
  const parent = mkdtempSync(join(tmpdir(), "sandpiper-small-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=711", "sandpiper-test", parent]);
  const own = await testSandbox(join(parent, "sandboxes"));
  const before = openTerminal(own.sandbox, { held });
  const after = openTerminal(own.sandbox, { held, quietMs: 3_000 });
  try {
    const action = { kind: "TerminalAction", is_input: false, reset: false } as const;
    const { signal } = new AbortController();
    await before.run({ ...action, command: "true" }, signal);
    before.leave();
    expect(() => writeFileSync(join(parent, "ballast"), Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
    const command = "echo x >> /dev/shm/ran; echo begin; sleep 2; echo end";
    const { id, spec } = own.sandbox;
    const server = startTerminalProcess({ dir: own.dir, id, spec, held, command, callId: "call1" });
    await runUntil(server, /begin/);
    await killProcess(server.child);
    const result = await after
      .run({ ...action, command }, signal, undefined, { id: "call1", isRepeated: true })
      .then(text, (error: unknown) => error);
    if (typeof result === "string") expect(result).toMatch(/end\n/);
    else expect(result).toBeInstanceOf(CommandInterrupted);
    const { stdout } = await runToEnd(own.sandbox, { argv: ["cat", "/dev/shm/ran"], cwd: "/" });
    expect(stdout.toString()).toBe("x\n");
    rmSync(join(parent, "ballast"));
    expect(text(await after.run({ ...action, command: "echo works" }, signal))).toMatch(/works\n/);
  } finally {
    await after.close();
    await own.remove();
    execFileSync("umount", ["--lazy", parent]);
    rmSync(parent, { recursive: true, force: true });
  }
});

test("a held shell has seven processes", async () => {
  const terminal = openTerminal(sandbox, { held });
  terminals.push(terminal);
  const action = { kind: "TerminalAction", command: "cd /; pwd", is_input: false, reset: false } as const;
  expect(text(await terminal.run(action, new AbortController().signal))).toMatch(/^\/\n/);
  const own = `for process in /proc/[0-9]*; do [ $process/cwd -ef ${held.folder} ] && echo $process; done 2>/dev/null`;
  // The shell is the seventh process.
  expect((await inSandbox(own)).trim().split("\n").length).toBe(6);
});

test("a command that cannot start names the sandbox's limit of processes", async () => {
  const { signal } = new AbortController();
  const action = (command: string) =>
    ({ kind: "TerminalAction", command, is_input: false, reset: false }) as const;
  const before = openTerminal(sandbox, { held });
  terminals.push(before);
  await before.run(action("true"), signal);
  // The shell ends when it cannot start another process.
  const crowd = await sandbox.exec({
    argv: [...sandbox.shell!, "-c", "while :; do /bin/sleep 600 >/dev/null 2>&1 & done"],
    cwd: "/",
  });
  await crowd.exit;
  const limit = /limit of 512 processes is reached/;
  const late = openTerminal(sandbox, { held: { ...held, folder: `${held.folder}_late` } });
  await expect(late.run(action("echo works"), signal)).rejects.toThrow(limit);
  // The crowd's shell has left one place, and the second shell some more.
  const many = ["/bin/echo works", ...Array.from({ length: 15 }, () => "/bin/cat")].join(" | ");
  expect(text(await before.run(action(many), signal))).toMatch(limit);
  await before.run(action("kill $(</proc/1/task/1/children)"), signal);
  await vi.waitFor(
    async () => expect(text(await late.run(action("echo works"), signal))).toMatch(/^works\n/),
    { timeout: 20_000 },
  );
  await late.close();
});

describe("the fence", () => {
  test("refuses a lower epoch, and ends the earlier owner's input to the shell", async () => {
    const command = "echo begin; cat";
    const server = startServer(command);
    await runUntil(server, /begin/);
    const next = repeat(command, "call1", { timeout: 1, epoch: 2 });
    await next.result;
    const stale = openTerminal(sandbox, { held: { ...held, epoch: 1 } });
    await expect(
      stale.run(
        { kind: "TerminalAction", command: "echo x > /tmp/stale", is_input: false, reset: false },
        new AbortController().signal,
      ),
    ).rejects.toMatchObject({ message: expect.stringMatching(/another server owns/) });
    expect(await inSandbox("ls /tmp/stale 2>/dev/null")).toBe("");
    await killProcess(server.child);
  });
});
