import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run, suiteLimits } from "../../../test/driver-suite/context.ts";
import { startTestEngine, type TestEngine } from "../../../test/support/docker-engine.ts";
import { importTestImages, scratchImage } from "../../../test/support/docker-image.ts";
import type { PreparedSpec } from "../../driver.ts";
import { createHostSpec } from "../../specs/specs.ts";
import { DockerDriver } from "./docker-driver.ts";

/** An engine whose files and process ids cannot be reached, as in a virtual machine. */
let dir: string;
let engine: TestEngine;
let driver: DockerDriver;
let spec: PreparedSpec;

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  engine = await startTestEngine({ elsewhere: true });
  await importTestImages(engine.engine.docker);
  driver = new DockerDriver({ dir, host: { socketPath: engine.socketPath } });
  await driver.open();
  spec = await driver.prepare({
    ...createHostSpec(suiteLimits),
    root: { kind: "image", reference: scratchImage },
  });
  await driver.start({ id: "one", spec });
});
afterAll(async () => {
  await engine?.end();
  rmSync(dir, { recursive: true, force: true });
});

test("copies the init and the shell into the sandbox", async () => {
  expect(
    await run(driver, "one", { argv: [...driver.shell!, "-c", "echo a shell; pwd; id -u"] }),
  ).toMatchObject({
    code: 0,
    out: "a shell\n/workspace/project\n1000\n",
  });
});

test("sends signals from inside, to that command only", async () => {
  const start = async () => {
    const command = await driver.exec("one", {
      argv: [...driver.shell!, "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done"],
    });
    const [pid] = (await once(command.stdout, "data")) as [Buffer];
    return Object.assign(command, { pid: Number(pid.toString()) });
  };
  const [first, second] = [await start(), await start()];
  first.kill("SIGTERM");
  first.kill("SIGKILL");
  expect(await first.exit).toEqual({ code: null, signal: "SIGKILL" });
  expect(await run(driver, "one", { argv: [...driver.shell!, "-c", `kill -0 ${second.pid}`] })).toMatchObject(
    { code: 0 },
  );
  second.kill();
  expect(await second.exit).toEqual({ code: null, signal: "SIGKILL" });
});

test("stops a sandbox and starts it again with its files", async () => {
  const watcher = await driver.exec("one", {
    argv: [
      ...driver.shell!,
      "-c",
      'trap "echo ended >>file; exit" TERM; echo ready; while :; do sleep 0.05; done',
    ],
  });
  await once(watcher.stdout, "data");
  await driver.stop("one");
  await watcher.exit;
  expect(await driver.list()).toEqual([{ id: "one", state: "stopped" }]);
  await driver.start({ id: "one", spec });
  expect(await run(driver, "one", { argv: [...driver.shell!, "-c", "cat file"] })).toMatchObject({
    out: "ended\n",
  });
});

test("reports that ports are not available", async () => {
  const words = /only when the container engine is on the same machine/;
  await expect(driver.connect("one", 80)).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(words),
  });
  await expect(driver.listen("one", 3128, () => {})).rejects.toMatchObject({
    code: "SandboxFailed",
    message: expect.stringMatching(words),
  });
});
