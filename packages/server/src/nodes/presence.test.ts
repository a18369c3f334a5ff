import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { NodePresence } from "./presence.ts";

let folder: string;
beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), "sandpiper presence-")), "nodes");
});
afterEach(() => rm(join(folder, ".."), { recursive: true, force: true }));

const module = fileURLToPath(new URL("./presence.ts", import.meta.url));

/** Starts a process that enters the folder and then waits. */
async function startProcess(incarnation: string) {
  const program = `const { NodePresence } = await import(${JSON.stringify(module)});
    new NodePresence(${JSON.stringify(folder)}).enter(${JSON.stringify(incarnation)});
    console.log("entered");
    setInterval(() => {}, 1_000);`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return {
    child,
    async kill() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

test("a process that was killed has ended, and one that stands still has not", async () => {
  const presence = new NodePresence(folder);
  presence.enter("own");
  const [killed, frozen] = await Promise.all([startProcess("killed"), startProcess("frozen")]);
  expect(presence.listEnded()).toEqual([]);
  frozen.child.kill("SIGSTOP");
  await killed.kill();
  expect(presence.listEnded()).toEqual(["killed"]);
  presence.forget("killed");
  expect(presence.listEnded()).toEqual([]);
  await frozen.kill();
  expect(presence.listEnded()).toEqual(["frozen"]);
});

test("a node that leaves does not count as ended, and leaves no file", async () => {
  const one = new NodePresence(folder);
  const other = new NodePresence(folder);
  expect(other.listEnded()).toEqual([]);
  one.enter("first");
  one.enter("second");
  one.leave("first");
  expect(other.listEnded()).toEqual([]);
  expect(await readdir(folder)).toEqual(["second"]);
  expect((await stat(join(folder, "second"))).mode & 0o777).toBe(0o600);
  one.leave("second");
  one.leave("unknown");
  expect(await readdir(folder)).toEqual([]);
});
