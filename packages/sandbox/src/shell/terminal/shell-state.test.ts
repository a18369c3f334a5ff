import { contentText } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { testSandbox } from "../../../test/support/terminal-sandbox.ts";
import { readFile } from "../../files/files.ts";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../run.ts";
import { openTerminal, type Terminal } from "../terminal.ts";

const stateFile = "/tmp/terminal_output/it's a state";

let sandbox: Sandbox;
let removeSandbox: () => Promise<void>;
const opened: Terminal[] = [];

beforeAll(async () => {
  ({ sandbox, remove: removeSandbox } = await testSandbox());
});
afterAll(() => removeSandbox());
afterEach(() => {
  for (const terminal of opened.splice(0)) terminal.close();
});

function open(): Terminal {
  const terminal = openTerminal(sandbox, { quietMs: 300, stateFile });
  opened.push(terminal);
  return terminal;
}
async function run(terminal: Terminal, command: string, timeout: number | null = 20): Promise<string> {
  const signal = AbortSignal.timeout(50_000);
  const action = { kind: "TerminalAction", command, timeout, is_input: false, reset: false } as const;
  return contentText((await terminal.run(action, signal)).content);
}

test("a new shell starts with the saved directory and exported variables of the last one", async () => {
  const first = open();
  await run(first, 'mkdir -p "/tmp/it\'s a dir" && cd "/tmp/it\'s a dir"');
  await run(
    first,
    "export WORD=\"a 'b' \\$c \\\"d\\\"\"; export LINES_OF_TEXT=$'one\\ntwo\\e[1m\\x01'; unset LANG; local_one=1",
  );
  const shown = 'printf "%s|" "$PWD" "$WORD" "$LINES_OF_TEXT" "${LANG-none}" | od -An -c';
  const before = await run(first, shown);
  await first.saveState();
  first.close();
  const second = open();
  expect(await run(second, shown)).toBe(before);
  expect(await run(second, 'echo "${local_one-none}"')).toBe("none\n");
  // It is taken over once.
  expect((await readFile(sandbox, stateFile)).kind).toBe("missing");
});

test("only the user can read the state file, and no shell option prevents its writing", async () => {
  const first = open();
  await run(first, "cd /var && set -o noclobber && umask 000");
  await first.saveState();
  await first.saveState();
  const { stdout } = await runToEnd(sandbox, { argv: ["stat", "-c", "%a", stateFile] });
  expect(stdout.toString()).toBe("600\n");
  first.close();
  expect(await run(open(), "pwd")).toBe("/var\n");
});

test("the directory of a shell with a running command is saved at once", async () => {
  const first = open();
  await run(first, "cd /usr; export GONE=1");
  await run(first, "sleep 300", null);
  expect(first.isBusy).toBe(true);
  const began = performance.now();
  await first.saveState();
  expect(performance.now() - began).toBeLessThan(30_000);
  first.close();
  const second = open();
  expect(second.isBusy).toBe(false);
  expect(await run(second, 'pwd; echo "${GONE-gone}"')).toBe("/usr\ngone\n");
});

test("a stopped shell delays no caller, and a damaged state file is harmless", async () => {
  const first = open();
  await run(first, "cd /usr");
  const pid = Number.parseInt(await run(first, "echo $$; (sleep 0.3; kill -STOP $$) >/dev/null 2>&1 &"), 10);
  await expect
    .poll(async () => (await runToEnd(sandbox, { argv: ["cat", `/proc/${pid}/stat`] })).stdout.toString())
    .toMatch(/\) T /);
  const began = performance.now();
  await first.saveState();
  expect(performance.now() - began).toBeLessThan(30_000);
  first.close();
  await runToEnd(sandbox, { argv: ["sh", "-c", 'echo "cd /usr; export A=\\"" >"$1"', "sh", stateFile] });
  const second = open();
  expect(await run(second, "echo fine")).toBe("fine\n");
});

test("an unused terminal saves no state, and the saved state stays for the next one", async () => {
  const first = open();
  await run(first, "cd /usr");
  await first.saveState();
  first.close();
  const unused = open();
  await unused.saveState();
  unused.close();
  expect(await run(open(), "pwd")).toBe("/usr\n");
});
