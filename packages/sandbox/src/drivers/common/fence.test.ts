import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFencedProcess } from "../../../test/support/fenced-process.ts";
import { testSandbox } from "../../../test/support/terminal-sandbox.ts";
import type { Sandbox } from "../../sandbox.ts";
import { runToEnd } from "../../shell/run.ts";
import { fencedExitCode, toFencedArgv } from "./fence.ts";

let sandbox: Sandbox;
let dir: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ sandbox, dir, remove } = await testSandbox());
});
afterAll(() => remove());

const run = (script: string, epoch: number, key = "a") =>
  runToEnd(sandbox, { argv: ["/bin/sh", "-c", script], fence: { key, epoch } });

test("the sandbox refuses an epoch of a key only when it has seen a higher epoch", async () => {
  expect((await run("echo one", 9)).stdout.toString()).toBe("one\n");
  expect((await run("echo two", 10)).stdout.toString()).toBe("two\n");
  expect((await run("echo again", 10)).stdout.toString()).toBe("again\n");
  const refused = await run("echo three", 9);
  expect(refused).toMatchObject({ code: fencedExitCode, stdout: Buffer.alloc(0) });
  expect(refused.stderr.toString()).toMatch(/another server owns its conversation now/);
  expect((await run("echo other", 1, "b")).stdout.toString()).toBe("other\n");
  expect((await runToEnd(sandbox, { argv: ["/bin/echo", "free"] })).stdout.toString()).toBe("free\n");
});

test("the sandbox also refuses a command whose argv contains the fence", async () => {
  const start = (epoch: number) => {
    const argv = toFencedArgv({ argv: ["/bin/echo", "a b"], fence: { key: "c", epoch } }, sandbox.shell!);
    return runToEnd(sandbox, { argv });
  };
  expect((await start(2)).stdout.toString()).toBe("a b\n");
  expect((await start(1)).code).toBe(fencedExitCode);
});

test("a fence refuses a key that is no word", async () => {
  await expect(run("true", 1, "a/../b")).rejects.toThrow(TypeError);
});

test("an owner that is frozen at any moment starts nothing after the next owner has", {
  timeout: 120_000,
}, async () => {
  for (let round = 1; round <= 6; round++) {
    const file = `/tmp/log${round}`;
    const key = `frozen${round}`;
    const id = sandbox.id;
    const old = startFencedProcess({ dir, id, fence: { key, epoch: 1 }, script: `echo x >> ${file}` });
    const ended = once(old, "exit");
    let output = "";
    old.stdout!.on("data", (chunk: Buffer) => (output += chunk));
    while (output === "") await once(old.stdout!, "data");
    await delay(100 + Math.random() * 50);
    old.kill("SIGSTOP");
    expect((await run("true", 2, key)).code).toBe(0);
    // A command that started before the stop may still run.
    await delay(300);
    const before = (await run(`wc -c < ${file}`, 2, key)).stdout.toString();
    old.kill("SIGCONT");
    await ended;
    expect(output.trim().split("\n").at(-1)).toBe(String(fencedExitCode));
    expect((await run(`wc -c < ${file}`, 2, key)).stdout.toString()).toBe(before);
  }
});
