import { afterAll, beforeAll, expect, test } from "vitest";
import { openTestDriver, testSpec } from "../../test/support/oci.ts";
import type { ExecRequest } from "../driver.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import { type RunOptions, runToEnd } from "./run.ts";

let driver: OciDriver;
let end: () => Promise<void>;
const sh = (command: string, options?: RunOptions) =>
  runToEnd({ exec: (one) => driver.exec("run", one) }, { argv: ["sh", "-c", command] }, options);

beforeAll(async () => {
  ({ driver, end } = await openTestDriver());
  await driver.start({ id: "run", spec: testSpec });
});
afterAll(() => end());

test("returns output and exit code", async () => {
  expect(await sh("cat; echo e >&2; exit 3", { input: "in" })).toEqual({
    code: 3,
    stdout: Buffer.from("in"),
    stderr: Buffer.from("e\n"),
    truncated: false,
    timedOut: false,
  });
});

test("keeps the beginning of too long output, and the command runs to its end", async () => {
  const result = await sh("head -c 50m /dev/zero | tr '\\0' x; exit 4", { maxOutputBytes: 1_000 });
  expect(result).toMatchObject({ code: 4, truncated: true });
  expect(result.stdout.toString()).toBe("x".repeat(1_000));
});

test("ends a command and its child processes at the time limit", async () => {
  const result = await sh("trap '' TERM; echo started; sleep 300; echo no", { timeoutMs: 300 });
  expect(result).toMatchObject({ code: 124, timedOut: true, stdout: Buffer.from("started\n") });
  await expect.poll(async () => (await sh("pgrep -c sleep")).stdout.toString()).toBe("0\n");
});

test("returns at the time limit even if the sandbox was paused during the command", async () => {
  const exec = async (command: ExecRequest) => {
    const process = await driver.exec("run", command);
    await driver.pause("run");
    return process;
  };
  try {
    const result = await runToEnd({ exec }, { argv: ["sleep", "300"] }, { timeoutMs: 300 });
    expect(result).toMatchObject({ code: 124, timedOut: true });
  } finally {
    await driver.resume("run");
  }
  await expect.poll(async () => (await sh("pgrep -c sleep")).stdout.toString()).toBe("0\n");
});

test("returns at the time limit if a pause prevents the command's start, which then never runs", async () => {
  // At which millisecond that is depends on the machine.
  const caught = async (ms: number) => {
    const id = `caught-${ms}`;
    await driver.start({ id, spec: testSpec });
    const exec = async (command: ExecRequest) => {
      const process = await driver.exec(id, command);
      await new Promise((resolve) => setTimeout(resolve, ms));
      await driver.pause(id);
      return process;
    };
    await runToEnd({ exec }, { argv: ["sleep", "300"] }, { timeoutMs: 100 });
    await driver.resume(id);
    // The machine's init reaps a process that was killed while frozen.
    const count = { argv: ["sh", "-c", "ps -eo stat,comm | grep -c '^[^Z].*sleep'"] };
    const sleeping = async () =>
      (await runToEnd({ exec: (one) => driver.exec(id, one) }, count)).stdout.toString();
    await expect.poll(sleeping).toBe("0\n");
    await driver.remove(id);
  };
  await Promise.all([1, 3, 5, 7, 9, 11, 15, 20].map(caught));
});

test("ends an aborted command, and does not start one whose signal is already aborted", async () => {
  const controller = new AbortController();
  const running = sh("sleep 300", { signal: controller.signal });
  controller.abort(new Error("enough"));
  await expect(running).rejects.toThrow("enough");
  await expect(sh("touch /tmp/begun", { signal: controller.signal })).rejects.toThrow("enough");
  expect((await sh("test -e /tmp/begun")).code).toBe(1);
});

test("accepts a command that does not read its input", async () => {
  expect(await sh("exit 0", { input: Buffer.alloc(5 * 2 ** 20) })).toMatchObject({ code: 0 });
});

test("reports a signal as a shell does", async () => {
  expect(await sh("kill -9 $$")).toMatchObject({ code: 137, timedOut: false });
});
