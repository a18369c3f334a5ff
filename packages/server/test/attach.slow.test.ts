import { spawn as spawnPiped } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { LocalTerminal } from "./support/local-terminal.ts";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";

/** `sandpiper attach` on a real terminal and in pipes, with a server in this process. */

const program = fileURLToPath(new URL("../../../bin/sandpiper", import.meta.url));
let server: TestPlatform;
let id: string;
let env: Record<string, string>;
const open: { kill(signal: "SIGKILL"): unknown }[] = [];

beforeAll(async () => {
  server = await startTestPlatform();
  id = (await server.call("POST", "/api/v1/sandboxes")).body.id;
  await server.platform.sandboxes.running(id);
  env = {
    PATH: process.env.PATH!,
    HOME: "/",
    TERM: "xterm",
    SANDPIPER_URL: server.url,
    SANDPIPER_API_KEY: server.key,
  };
});
afterEach(() => {
  for (const one of open.splice(0)) one.kill("SIGKILL");
});
afterAll(() => server.stop());

function onTerminal(line: string): LocalTerminal {
  const local = new LocalTerminal(line, env);
  open.push(local);
  return local;
}

function piped(args: string[], input: string, change: Record<string, string> = {}) {
  const child = spawnPiped(program, ["attach", ...args], { env: { ...env, ...change }, cwd: "/" });
  open.push(child);
  child.stdin.end(input);
  const exit = new Promise<number | null>((resolve) => child.once("close", resolve));
  return Promise.all([exit, text(child.stdout), text(child.stderr)]).then(([code, out, err]) => ({
    code,
    out,
    err,
  }));
}

const inside = async (command: string) =>
  (
    await runToEnd(await server.platform.sandboxes.running(id), { argv: ["sh", "-c", command] })
  ).stdout.toString();

test("on a terminal, keys and sizes are sent to the sandbox, and the exit code is the shell's", async () => {
  const local = onTerminal(`"${program}" attach ${id}; echo "it ended with $?"; stty -a`);
  await local.shows(/\$ /);
  local.pty.write("stty size; pwd\r");
  await local.shows(/30 90\r\n\/workspace/);
  local.pty.write("echo slee''ps ü; sleep 1000\r");
  await local.shows(/sleeps ü\r\n/);
  await until(async () => (await inside("pgrep -x sleep")) !== "");
  local.pty.write("\x03");
  local.pty.write("echo code=$?\r");
  await local.shows(/code=130\r\n/);
  local.pty.resize(70, 20);
  local.pty.write('until [ "$(stty size)" = "20 70" ]; do sleep 0.01; done; echo foll""ows\r');
  await local.shows(/follows\r\n/);
  local.pty.write("exit 5\r");
  await local.exit;
  expect(local.shown).toMatch(/it ended with 5\r\n/);
  expect(local.shown).toMatch(/[; ]icanon/);
  expect(local.shown).toMatch(/[; ]echo /);
});

test("when attach is killed, the local terminal is restored and the shell in the sandbox ends", async () => {
  const local = onTerminal(
    `sh -c 'echo "pid $$."; exec "${program}" attach ${id}'; echo "it ended with $?"; stty -a`,
  );
  await local.shows(/pid \d+\..*\$ /s);
  local.pty.write("sleep 1234\r");
  await until(async () => (await inside("pgrep -f 'sleep 123[4]'")) !== "");
  process.kill(Number(/pid (\d+)\./.exec(local.shown)![1]), "SIGTERM");
  await local.exit;
  expect(local.shown).toMatch(/it ended with 143\r\n/);
  expect(local.shown).toMatch(/[; ]icanon/);
  await until(async () => (await inside("pgrep -f 'sleep 123[4]'")) === "");
});

test("in a pipe the shell reads its commands from standard input and its output is clean", async () => {
  expect(await piped([id], "cd /usr; pwd; test -t 0 || echo plain; exit 3")).toEqual({
    code: 3,
    out: "/usr\nplain\n",
    err: "",
  });
  const large = await piped(
    [id],
    `head -c 20000000 /dev/zero | tr '\\0' y; wc -c <<E\n${"x".repeat(3_000_000)}\nE\n`,
  );
  expect([large.code, large.out.length]).toEqual([0, 20_000_000 + "3000001\n".length]);
});

test("attach reports an error in one sentence", async () => {
  const none = await piped(["sbx-none"], "");
  expect(none).toMatchObject({ code: 1, out: "", err: "sandpiper: There is no sandbox sbx-none.\n" });
  expect(await piped(["../etc"], "")).toMatchObject({
    code: 2,
    err: expect.stringMatching(/is not a sandbox id/),
  });
  expect(await piped([], "")).toMatchObject({
    code: 2,
    err: expect.stringMatching(/missing required argument 'sandbox'/),
  });
  const wrongKey = await piped([id], "", { SANDPIPER_API_KEY: "wrong" });
  expect(wrongKey).toMatchObject({ code: 1, err: expect.stringMatching(/does not accept the API key/) });
  const nowhere = await piped([id], "", { SANDPIPER_URL: "http://127.0.0.1:9" });
  expect(nowhere).toMatchObject({
    code: 1,
    err: expect.stringMatching(/could not be reached: nothing listens there/),
  });

  const gone = (await server.call("POST", "/api/v1/sandboxes")).body.id;
  const attached = piped([gone], "sleep 1000\n");
  await until(async () => {
    const { stdout } = await runToEnd(await server.platform.sandboxes.running(gone), {
      argv: ["pgrep", "sleep"],
    });
    return stdout.length > 0;
  });
  await server.call("DELETE", `/api/v1/sandboxes/${gone}?sandbox_id=${gone}`);
  expect(await attached).toMatchObject({ code: 1, err: "sandpiper: The sandbox has been deleted.\n" });
});
