import { setTimeout as delay } from "node:timers/promises";
import { contentText, type TerminalAction, type TerminalObservation } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type CuttableSandbox, makeCuttable } from "../../../test/support/cuttable-sandbox.ts";
import { testSandbox } from "../../../test/support/terminal-sandbox.ts";
import { runToEnd } from "../run.ts";
import { CommandInterrupted } from "../terminal/command-interrupted.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

/** The connection between a terminal and its held shell is lost, and both go on. */

let sandbox: CuttableSandbox;
let remove: () => Promise<void>;
let terminal: Terminal;
let folder: string;
let serial = 0;
let calls = 0;

beforeAll(async () => {
  const made = await testSandbox();
  sandbox = makeCuttable(made.sandbox);
  remove = made.remove;
});
afterAll(() => remove());

beforeEach(() => {
  folder = `/tmp/terminal_output/held_${serial++}`;
  terminal = openTerminal(sandbox, { held: { folder, epoch: 1 } });
});
afterEach(() => terminal.close());

const inSandbox = async (script: string) =>
  (await runToEnd(sandbox, { argv: ["/bin/sh", "-c", script], cwd: "/" })).stdout.toString();
const text = ({ content, metadata }: TerminalObservation) => contentText(content) + metadata.suffix;

function act(action: Partial<TerminalAction>, onOutput?: (text: string) => void) {
  const whole = { kind: "TerminalAction", command: "", is_input: false, reset: false, ...action } as const;
  const call =
    whole.command && !whole.is_input && !whole.reset
      ? { id: `call${calls++}`, isRepeated: false }
      : undefined;
  return terminal.run(whole, new AbortController().signal, onOutput, call);
}

test("a command goes on, and its call gets the whole output once and the exit code", async () => {
  const outputs: string[] = [];
  const command = "echo x >>/tmp/ran1; for i in $(seq 1 40); do echo line $i; sleep 0.05; done; (exit 3)";
  const result = act({ command }, (part) => outputs.push(part));
  for (const line of ["line 3\n", "line 20\n"]) {
    await vi.waitFor(() => expect(outputs.join("")).toContain(line), 30_000);
    sandbox.cut();
  }
  const observation = await result;
  const whole = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`).join("");
  expect(text(observation)).toBe(`${whole}\n[The command completed with exit code 3.]`);
  expect(observation.exit_code).toBe(3);
  expect(outputs.join("")).toBe(whole);
  expect(await inSandbox("cat /tmp/ran1")).toBe("x\n");
});

test("an idle shell keeps its folder and variables, and the next command runs in it", async () => {
  const before = await act({ command: "cd /tmp; KEPT=yes; echo $$" });
  sandbox.cut();
  expect(contentText((await act({ command: "echo $KEPT $PWD $$" })).content)).toBe(
    `yes /tmp ${contentText(before.content)}`,
  );
});

test("a look at a command that a call left running shows the command's output and end", async () => {
  const left = await act({ command: "echo begin; sleep 2; echo end", timeout: 1 });
  expect(left.exit_code).toBe(-1);
  sandbox.cut();
  await vi.waitFor(async () => expect(text(await act({}))).toMatch(/begin\nend\n[\s\S]*exit code 0/), 30_000);
});

test("input that may be lost is interrupted, and the program still waits for it", async () => {
  const asked = await act({ command: "read -r answer; sleep 1; echo got $answer", timeout: 1 });
  expect(asked.exit_code).toBe(-1);
  const answered = act({ command: "one", is_input: true });
  await delay(300);
  sandbox.cut();
  await expect(answered).rejects.toThrow(CommandInterrupted);
  expect(text(await act({}))).toMatch(/got one\n/);
});

test("an interrupt reaches the command of a lost connection", async () => {
  const abort = new AbortController();
  const action = {
    kind: "TerminalAction",
    command: "echo on; sleep 1000",
    is_input: false,
    reset: false,
  } as const;
  let output = "";
  const result = terminal.run(action, abort.signal, (part) => (output += part), {
    id: `call${calls++}`,
    isRepeated: false,
  });
  result.catch(() => {});
  await vi.waitFor(() => expect(output).toContain("on"), 30_000);
  sandbox.cut();
  abort.abort("stop");
  await expect(result).rejects.toBe("stop");
  await vi.waitFor(async () => expect(await inSandbox("pgrep -f 'sleep 100[0]' || :")).toBe(""), 30_000);
});

test("a command runs once, at whatever moment the connection is lost", { timeout: 240_000 }, async () => {
  for (let round = 0; round < 12; round++) {
    await inSandbox("rm -f /tmp/ran2");
    const command = "echo x >>/tmp/ran2; for i in 1 2 3 4 5; do echo $i; sleep 0.02; done";
    const result = act({ command });
    // The first rounds cut the shell off while it opens.
    await delay(round * 25);
    sandbox.cut();
    expect(text(await result)).toBe("1\n2\n3\n4\n5\n\n[The command completed with exit code 0.]");
    expect(await inSandbox("cat /tmp/ran2")).toBe("x\n");
    if (round % 3 === 2) await act({ reset: true });
  }
});
