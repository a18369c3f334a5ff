import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DriverProcess } from "../../../test/support/driver-processes.ts";
import { getRuntimeDir, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import { isAlive, listPids, readStatFields } from "../common/processes.ts";

/** Long enough for a busy machine. */
const patience = { timeout: 60_000, interval: 20 };

describe.each(await workingRuntimes())(
  "runtimes of commands with %s",
  (real) => {
    let top: string;
    let dir: string;
    let processes: DriverProcess[];
    const begin = async (runtime = real) => {
      const one = new DriverProcess({ dir, runtime });
      processes.push(one);
      await one.open();
      return one;
    };

    beforeEach(() => {
      top = mkdtempSync("/tmp/sandpiper-test-");
      chmodSync(top, 0o755);
      dir = join(top, "sandboxes");
      processes = [];
    });
    afterEach(async () => {
      for (const one of processes) await one.kill();
      const last = await begin();
      await last.reap([], []);
      await last.close();
      await last.kill();
      rmSync(top, { recursive: true, force: true });
    });

    /** Ids of the runtimes that run a command in a sandbox. */
    const runtimesOf = (id: string) => {
      const state = join(getRuntimeDir(dir), "state");
      return listPids().filter((pid) => {
        const words = readCommandLine(pid);
        return isAlive(pid) && words.includes(state) && words.includes("exec") && words.at(-1) === id;
      });
    };
    /** Starts a sandbox with a long command, which has a runtime of its own. */
    const startWithCommand = async (owner: DriverProcess, id: string) => {
      await owner.start({ id, spec: testSpec });
      void owner.run(id, "echo $$ >pid; exec sleep 100000").catch(() => {});
      await expect.poll(() => runtimesOf(id), patience).toHaveLength(1);
      await expect.poll(async () => (await owner.run(id, "cat pid")).code, patience).toBe(0);
    };
    const goesOn = "kill -0 $(cat pid) && echo goes on";

    test("the next owner ends those of a killed process, and the commands go on", async () => {
      const [first, other] = [await begin(), await begin()];
      await startWithCommand(first, "left");
      await startWithCommand(other, "kept");
      await first.kill();
      // The note of a process that ended long ago, whose id another process has by now.
      const bystander = spawn("sleep", ["100000"], { stdio: "ignore" });
      await noteFalsely(bystander);

      const next = await begin();
      await next.list();
      await expect.poll(() => runtimesOf("left"), patience).toEqual([]);
      expect((await next.run("left", goesOn)).out).toBe("goes on\n");
      expect(isAlive(bystander.pid!)).toBe(true);
      expect(runtimesOf("kept")).toHaveLength(1);
      expect((await other.run("kept", goesOn)).out).toBe("goes on\n");
      expect(readdirSync(join(getRuntimeDir(dir), "runtimes"))).toHaveLength(2);
      bystander.kill("SIGKILL");
    });

    const noteFalsely = async ({ pid }: ChildProcess) => {
      await expect.poll(() => isAlive(pid!), patience).toBe(true);
      const folder = join(getRuntimeDir(dir), "runtimes", "1-0123456789ab");
      mkdirSync(folder);
      writeFileSync(join(folder, `left.${pid}.${Number(readStatFields(pid!)[19]) - 1}`), "");
    };

    test("a process that stays ends those of a killed one when it looks for sandboxes", async () => {
      const [first, next] = [await begin(), await begin()];
      await startWithCommand(first, "left");
      await first.kill();
      await next.list();
      await expect.poll(() => runtimesOf("left"), patience).toEqual([]);
      expect((await next.run("left", goesOn)).out).toBe("goes on\n");
    });

    test("a command that is starting does not outlive the end of its sandbox", async () => {
      const owner = await begin(writeHoldingRuntime(top, real));
      await owner.start({ id: "one", spec: testSpec });
      const command = owner.run("one", "echo ran >file");
      await expect.poll(() => existsSync(join(top, "held")), patience).toBe(true);
      await owner.stop("one");
      expect(runtimesOf("one")).toEqual([]);
      expect((await command).code).not.toBe(0);
      await owner.start({ id: "one", spec: testSpec });
      rmSync(join(top, "held"));
      expect((await owner.run("one", "echo works; ls file")).out).toBe("works\n");
      expect(runtimesOf("one")).toEqual([]);
    });
  },
  180_000,
);

/** A program in place of a runtime whose first `exec` waits until the file `held` is removed. */
function writeHoldingRuntime(folder: string, real: string): string {
  const path = join(folder, real);
  const script = `#!/bin/bash
case " $* " in
  *" exec "*) if mv ${folder}/armed ${folder}/held 2>/dev/null; then
    while [ -e ${folder}/held ]; do sleep 0.02; done
  fi ;;
esac
exec ${real} "$@"
`;
  writeFileSync(join(folder, "armed"), "");
  writeFileSync(path, script);
  chmodSync(path, 0o755);
  return path;
}

function readCommandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  } catch {
    return [];
  }
}
