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
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DriverProcess } from "../../../test/support/driver-processes.ts";
import { getRuntimeDir, groups, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import { listPids } from "../common/processes.ts";

/** Where the runtime of a start stands still. The id of a sandbox is the name of its point. */
const points = ["before", "state-folder", "create-runtime", "poststart", "after"];

/** Long enough for a busy machine. */
const patience = { timeout: 60_000, interval: 20 };

/**
 * Writes a program in place of a runtime that holds the first start of each sandbox at its point
 * until the file `<folder>/held/<id>` is removed: before or after the runtime, in a hook of the
 * runtime, or by SIGSTOP once the runtime has created the folder of its state.
 */
function writeHoldingRuntime(folder: string, real: string): string {
  const hold = `#!/bin/sh
# Holds once: the second start of the same sandbox finds the file gone.
mv ${folder}/armed/$1 ${folder}/held/$1 2>/dev/null || exit 0
while [ -e ${folder}/held/$1 ]; do sleep 0.02; done
`;
  const runtime = `#!/bin/bash
for last; do :; done
case " $* " in *" run "*) ;; *) exec ${real} "$@" ;; esac
case "$last" in
  before) ${folder}/hold before; exec ${real} "$@" ;;
  after) ${real} "$@"; code=$?; ${folder}/hold after; exit $code ;;
  state-folder)
    before=("$@")
    while [ "$1" != --root ]; do shift; done
    ${real} "\${before[@]}" & pid=$!
    while ! [ -e "$2/$last" ]; do :; done
    kill -STOP $pid; ${folder}/hold state-folder; kill -CONT $pid
    wait $pid; exit ;;
  create-runtime) hook=createRuntime ;;
  poststart) hook=poststart ;;
  *) exec ${real} "$@" ;;
esac
while [ "$1" != --bundle ]; do args+=("$1"); shift; done
bundle=$2
printf '{"hooks":{"%s":[{"path":"${folder}/hold","args":["hold","%s"],"env":["PATH=/usr/bin:/bin"]}]},' "$hook" "$last" > "$bundle/hooked"
tail -c +2 "$bundle/config.json" >> "$bundle/hooked" && mv "$bundle/hooked" "$bundle/config.json"
exec ${real} "\${args[@]}" "$@"
`;
  for (const name of ["armed", "held"]) mkdirSync(join(folder, name));
  for (const point of points) writeFileSync(join(folder, "armed", point), "");
  writeFileSync(join(folder, "hold"), hold);
  const path = join(folder, real);
  writeFileSync(path, runtime);
  for (const program of [path, join(folder, "hold")]) chmodSync(program, 0o755);
  chmodSync(folder, 0o755);
  return path;
}

describe.each(await workingRuntimes())(
  "starts whose owner has changed, with %s",
  (real) => {
    let top: string;
    let dir: string;
    let runtime: string;
    let processes: DriverProcess[];
    let first: DriverProcess;
    let next: DriverProcess;
    const begin = async () => {
      const one = new DriverProcess({ dir, runtime });
      processes.push(one);
      await one.open();
      return one;
    };
    const release = (point: string) => rmSync(join(top, "held", point), { force: true });
    const start = (owner: DriverProcess, id: string, who: string) =>
      owner.start({ id, spec: { ...testSpec, env: { WHO: who } } });

    beforeEach(async () => {
      top = mkdtempSync("/tmp/sandpiper-test-");
      dir = join(top, "sandboxes");
      processes = [];
      runtime = writeHoldingRuntime(top, real);
      first = await begin();
      next = await begin();
    });
    afterEach(async () => {
      for (const point of points) release(point);
      for (const one of processes) await one.kill();
      const last = await begin();
      await last.reap([], []);
      await last.close();
      await last.kill();
      rmSync(top, { recursive: true, force: true });
    });

    /** Starts a sandbox at each point, and waits until each runtime is held there. */
    const holdAll = async () => {
      const held = points.map((id) => start(first, id, "first"));
      for (const id of points)
        await expect.poll(() => existsSync(join(top, "held", id)), { ...patience, message: id }).toBe(true);
      return held;
    };
    const settled = (starts: Promise<unknown>[]) => Promise.allSettled(starts);
    /** Expects that every sandbox runs, as the next owner has started it, and can be ended. */
    const expectOwnedByNext = async () => {
      for (const id of points) {
        expect({ id, ...(await next.run(id, "echo $WHO >>file; cat file")) }).toMatchObject({
          id,
          out: "next\n",
        });
      }
      expect(await next.list()).toEqual(
        expect.arrayContaining(points.map((id) => ({ id, state: "running" }))),
      );
      for (const id of points) await next.remove(id);
      const run = getRuntimeDir(dir);
      expect({
        groups: groups(dir),
        runtime: ["state", "boxes", "ranges", "turns"].flatMap((name) => readdirSync(join(run, name))),
        files: ["sandboxes", "work"].flatMap((name) => readdirSync(join(dir, name))),
        runtimes: listPids().filter((pid) => isOfRuntime(pid, run)),
      }).toEqual({ groups: [], runtime: [], files: [], runtimes: [] });
    };

    test("the next owner starts anew when the first one goes on, and the first one ends nothing", async () => {
      const held = await holdAll();
      await Promise.all(points.map((id) => start(next, id, "next")));
      for (const point of points) release(point);
      for (const result of await settled(held))
        expect(result).toMatchObject({ status: "rejected", reason: { code: "SandboxFailed" } });
      await expectOwnedByNext();
    });

    test("the next owner starts anew when the first one was killed", async () => {
      await holdAll();
      await first.kill();
      await Promise.all(points.map((id) => start(next, id, "next")));
      for (const point of points) release(point);
      await expectOwnedByNext();
    });

    test("the next owner starts anew when the first one stands still, and wakes up later", async () => {
      const held = await holdAll();
      first.signal("SIGSTOP");
      await Promise.all(points.map((id) => start(next, id, "next")));
      for (const point of points) release(point);
      first.signal("SIGCONT");
      for (const result of await settled(held))
        expect(result).toMatchObject({ status: "rejected", reason: { code: "SandboxFailed" } });
      await expectOwnedByNext();
    });

    test("the next owner waits for a start that soon ends, and finds the sandbox running", async () => {
      const held = await holdAll();
      const late = points.map((id) => start(next, id, "next"));
      await delay(100);
      for (const point of points) release(point);
      for (const result of await settled(held)) expect(result).toMatchObject({ status: "fulfilled" });
      for (const result of await settled(late))
        expect(result).toMatchObject({ reason: { message: expect.stringContaining("already running") } });
      for (const id of points) expect((await next.run(id, "echo $WHO")).out).toBe("first\n");
    });

    test("an end waits for its turn too, and ends what a killed owner was starting", async () => {
      await holdAll();
      await first.kill();
      await Promise.all(points.map((id) => next.remove(id)));
      for (const point of points) release(point);
      await Promise.all(points.map((id) => start(next, id, "next")));
      await expectOwnedByNext();
    });
  },
  180_000,
);

function isOfRuntime(pid: number, folder: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(folder);
  } catch {
    return false;
  }
}
