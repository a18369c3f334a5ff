import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DriverProcess } from "../../../test/support/driver-processes.ts";
import { getRuntimeDir, groups, testSpec, workingRuntimes } from "../../../test/support/oci.ts";
import { listPids } from "../common/processes.ts";
import { isRootless } from "../common/uid-range.ts";

describe.each(await workingRuntimes())("several processes over one folder with %s", (runtime) => {
  let top: string;
  let dir: string;
  let processes: DriverProcess[];
  const begin = (count: number) => {
    const begun = Array.from({ length: count }, () => new DriverProcess({ dir, runtime }));
    processes.push(...begun);
    return begun;
  };

  beforeEach(() => {
    top = mkdtempSync("/tmp/sandpiper-test-");
    dir = join(top, "sandboxes");
    processes = [];
  });
  afterEach(async () => {
    for (const one of processes) await one.kill();
    const [last] = begin(1);
    await last!.open();
    await last!.reap([], []);
    await last!.close();
    await last!.kill();
    rmSync(top, { recursive: true, force: true });
  });

  /** Expects that nothing is left of any sandbox. */
  const expectNothingLeft = () => {
    const run = getRuntimeDir(dir);
    expect({
      groups: groups(dir),
      runtime: ["state", "boxes", "ranges"].flatMap((name) =>
        existsSync(join(run, name)) ? readdirSync(join(run, name)) : [],
      ),
      files: ["sandboxes", "snapshots", "work", "trash", "images/tmp"].flatMap((name) =>
        readdirSync(join(dir, name)),
      ),
      layers: readdirSync(join(dir, "layers")).filter((name) => !name.startsWith("h")),
      mounts: readFileSync("/proc/self/mountinfo", "utf8").includes(dir),
      runtimes: listPids().filter((pid) => commandLine(pid).includes(join(run, "state"))),
    }).toEqual({ groups: [], runtime: [], files: [], layers: [], mounts: false, runtimes: [] });
  };

  test.each([2, 4])("%i processes open an empty folder and start 20 sandboxes at once", async (count) => {
    const all = begin(count);
    await Promise.all(all.map((one) => one.open()));
    const made = Array.from({ length: 20 }, (_, at) => ({ id: `box-${at}`, owner: all[at % count]! }));
    await Promise.all(
      made.map(async ({ id, owner }) => {
        await owner.start({ id, spec: testSpec });
        expect((await owner.run(id, `echo ${id} >own; hostname`)).out).toBe(`${id}\n`);
      }),
    );
    const maps = await Promise.all(made.map(({ id, owner }) => owner.run(id, "cat own /proc/self/uid_map")));
    expect(maps.map(({ out }) => out.split("\n")[0])).toEqual(made.map(({ id }) => id));
    if (!isRootless()) {
      const bases = maps.map(({ out }) => out.split("\n")[1]);
      const ranges = made.map(({ id }) =>
        readFileSync(join(getRuntimeDir(dir), "boxes", id, "ids"), "latin1"),
      );
      expect(new Set(ranges.map((text) => text.split(" ")[0])).size).toBe(20);
      expect([1, 20]).toContain(new Set(bases).size);
    }
    for (const one of all) expect((await one.list()).length).toBe(20);
    // Each process knows only its own sandboxes.
    for (const one of all)
      await one.reap(
        made.filter(({ owner }) => owner === one).map(({ id }) => id),
        [],
      );
    for (const { id, owner } of made) expect((await owner.run(id, "cat own")).out).toBe(`${id}\n`);
    await Promise.all(made.map(({ id, owner }) => owner.remove(id)));
    expectNothingLeft();
    for (const one of all) await one.close();
    expect(readdirSync(join(dir, "members"))).toEqual([]);
  });

  test("another process takes over the sandboxes of a killed process without a change", async () => {
    const [first, second] = begin(2) as [DriverProcess, DriverProcess];
    await Promise.all([first.open(), second.open()]);
    await first.start({ id: "one", spec: { ...testSpec, env: { WHO: "first" } } });
    await first.start({ id: "two", spec: testSpec });
    await first.run("one", "echo kept >file; sleep 1000 >/dev/null 2>&1 & echo $! >pid");
    // The warm shells of the killed process end with that process.
    for (let round = 0; round < 5; round++) await first.run("one", "true");
    await first.pause("two");
    await first.kill();
    const states = new Map((await second.list()).map(({ id, state }) => [id, state]));
    expect(Object.fromEntries(states)).toEqual({ one: "running", two: "paused" });
    expect((await second.run("one", "cat file; echo $WHO; kill -0 $(cat pid) && echo runs")).out).toBe(
      "kept\nfirst\nruns\n",
    );
    await second.resume("two");
    expect((await second.run("two", "echo works")).out).toBe("works\n");
    await second.pause("one");
    await second.resume("one");
    await second.stop("one");
    await second.start({ id: "one", spec: { ...testSpec, env: { WHO: "second" } } });
    expect((await second.run("one", "cat file; echo $WHO")).out).toBe("kept\nsecond\n");
    await second.remove("one");
    await second.remove("two");
    expectNothingLeft();
  });

  test("both processes see the present state of a sandbox that moves to the other and back", async () => {
    const [first, second] = begin(2) as [DriverProcess, DriverProcess];
    await Promise.all([first.open(), second.open()]);
    await first.start({ id: "one", spec: testSpec });
    for (let round = 0; round < 4; round++) await first.run("one", "true");
    await second.snapshot("one", "snap");
    // Another sandbox takes the range of ids in the meantime.
    await first.start({ id: "fork", spec: testSpec, snapshot: "snap" });
    await second.start({ id: "one", spec: { ...testSpec, env: { WHO: "second" } } });
    await second.run("one", "echo new >file");
    for (let round = 0; round < 4; round++)
      expect((await first.run("one", "cat file; echo $WHO; touch ~/mine; stat -c %U ~/mine")).out).toBe(
        "new\nsecond\nagent\n",
      );
    await second.removeSnapshot("snap");
    await first.reap(["one", "fork"], []);
    expect((await second.run("fork", "test ! -e file && echo apart")).out).toBe("apart\n");
    await first.remove("one");
    await second.remove("fork");
    expectNothingLeft();
  });

  test("another process can end or use each sandbox whose starting process was killed", async () => {
    const [keeper] = begin(1) as [DriverProcess];
    await keeper.open();
    await keeper.start({ id: "kept", spec: testSpec });
    let seen = 0;
    for (const waitMs of [0, 5, 10, 20, 30, 45, 60, 90, 120]) {
      const [doomed] = begin(1) as [DriverProcess];
      await doomed.open();
      const starts = [0, 1, 2].map((at) => doomed.start({ id: `late-${at}`, spec: testSpec }));
      await delay(waitMs);
      await doomed.kill();
      await Promise.allSettled(starts);
      for (const { id, state } of await keeper.list()) {
        if (id === "kept") continue;
        seen++;
        // The service starts a sandbox whose start was interrupted unless it runs.
        if (state !== "running") await keeper.start({ id, spec: testSpec });
        expect((await keeper.run(id, "echo works")).out).toBe("works\n");
        await keeper.remove(id);
      }
      await keeper.reap(["kept"], []);
      expect((await keeper.list()).map(({ id }) => id)).toEqual(["kept"]);
      expect(readdirSync(join(getRuntimeDir(dir), "boxes"))).toEqual(["kept"]);
    }
    expect(seen).toBeGreaterThan(0);
    expect((await keeper.run("kept", "echo still")).out).toBe("still\n");
    await keeper.remove("kept");
    await keeper.close();
    const [later] = begin(1) as [DriverProcess];
    await later.open();
    await later.reap([], []);
    expectNothingLeft();
  });

  test("no process reaps a sandbox that another living process has just created", async () => {
    const [first, second] = begin(2) as [DriverProcess, DriverProcess];
    await Promise.all([first.open(), second.open()]);
    await first.start({ id: "new", spec: testSpec });
    await first.snapshot("new", "snap");
    await first.start({ id: "new", spec: testSpec });
    await second.reap([], []);
    expect((await first.run("new", "echo works")).out).toBe("works\n");
    await first.start({ id: "fork", spec: testSpec, snapshot: "snap" });
    await first.kill();
    await second.reap([], []);
    expectNothingLeft();
  });

  test("processes that open and close the folder do not disturb a process that works", async () => {
    const [first] = begin(1) as [DriverProcess];
    await first.open();
    let isDone = false;
    const work = async () => {
      for (let round = 0; round < 12; round++) {
        await first.start({ id: `box-${round}`, spec: testSpec });
        expect((await first.run(`box-${round}`, "echo works")).out).toBe("works\n");
        await first.snapshot(`box-${round}`, `snap-${round}`);
        await first.remove(`box-${round}`);
        await first.removeSnapshot(`snap-${round}`);
      }
      isDone = true;
    };
    const others = async () => {
      while (!isDone) {
        const [other] = begin(1) as [DriverProcess];
        await other.open();
        await other.reap([], []);
        await other.close();
        await other.kill();
      }
    };
    await Promise.all([work(), others()]);
    expectNothingLeft();
  });
});

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}
