import { execFileSync } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  getRuntimeDir,
  groups,
  openTestDriver,
  run,
  startDriverProcess,
  testSpec,
  workingRuntimes,
} from "../../../test/support/oci.ts";
import type { DriverSandbox, PreparedSpec } from "../../driver.ts";
import { findBusybox } from "../common/busybox.ts";
import { getSandboxIdBase } from "../common/uid-range.ts";
import type { OciDriver } from "./oci-driver.ts";

describe.each(await workingRuntimes())("files and processes of sandboxes over %s", (runtime) => {
  let driver: OciDriver;
  let dir: string;
  let end: () => Promise<void>;
  const out = async (id: string, command: string) => (await run(driver, id, command)).out;
  const layers = () => readdirSync(join(dir, "layers")).filter((name) => !name.startsWith("h"));

  beforeAll(async () => {
    ({ driver, dir, end } = await openTestDriver(runtime));
  });
  afterAll(() => end());

  test("a stopped sandbox has no process, mount or group, and starts again with its files", async () => {
    await driver.start({
      id: "one",
      spec: testSpec,
      files: [{ path: "/opt/made/up/file", content: "given" }],
    });
    expect(
      await out("one", "cat /opt/made/up/file; stat -c %u:%a /opt/made/up/file /opt/made; echo work >file"),
    ).toBe("given0:644\n0:755\n");
    await driver.pause("one");
    await driver.stop("one");
    await driver.stop("one");
    expect(await driver.list()).toEqual([{ id: "one", state: "stopped" }]);
    expect(groups(dir)).toEqual([]);
    expect(["state", "boxes"].map((name) => readdirSync(join(getRuntimeDir(dir), name)))).toEqual([[], []]);
    expect(readFileSync("/proc/self/mountinfo", "utf8")).not.toContain(dir);
    await expect(driver.exec("one", { argv: ["true"] })).rejects.toMatchObject({ code: "SandboxNotRunning" });
    await driver.start({ id: "one", spec: { ...testSpec, env: { LATER: "yes" } } });
    expect(await out("one", "cat file /opt/made/up/file; echo $LATER")).toBe("work\ngivenyes\n");
    await driver.remove("one");
  });

  test("stop lets processes end by themselves and kills the others", async () => {
    await driver.start({ id: "one", spec: testSpec });
    const polite = await driver.exec("one", {
      argv: ["sh", "-c", "trap 'echo ended >polite; exit' TERM; echo ready; while :; do sleep 0.01; done"],
    });
    await once(polite.stdout, "data");
    await driver.stop("one");
    await polite.exit;

    await driver.start({ id: "one", spec: testSpec });
    expect(await out("one", "cat polite")).toBe("ended\n");
    const stubborn = await driver.exec("one", {
      argv: ["sh", "-c", "trap '' TERM; trap '' HUP; echo ready; while :; do sleep 0.01; done"],
    });
    await once(stubborn.stdout, "data");
    await driver.stop("one");
    await stubborn.exit;

    await driver.start({ id: "one", spec: testSpec });
    const shell = await driver.exec("one", { argv: ["bash", "--norc", "-i"], tty: { cols: 80, rows: 24 } });
    await once(shell.stdout, "data");
    await driver.stop("one");
    expect(await driver.list()).toEqual([{ id: "one", state: "stopped" }]);
    await driver.remove("one");
  });

  test("a snapshot keeps its files; forks and the sandbox change independently", async () => {
    await driver.start({ id: "base", spec: testSpec });
    await run(driver, "base", "echo 1 >count; mkdir -p gone/deep; touch gone/deep/file; ln -s count link");
    await driver.snapshot("base", "snap");
    await Promise.all([
      driver.start({ id: "base", spec: testSpec }),
      driver.start({ id: "fork", spec: testSpec, snapshot: "snap" }),
    ]);
    await run(driver, "base", "echo 2 >count; rm -r gone");
    await run(driver, "fork", "echo fork >>count");
    expect(await out("base", "cat link; ls")).toBe("2\ncount\nlink\n");
    expect(await out("fork", "cat link; ls; hostname; cat /etc/hostname")).toBe(
      "1\nfork\ncount\ngone\nlink\nfork\nfork\n",
    );

    await driver.snapshot("fork", "second");
    await driver.remove("base");
    await driver.remove("fork");
    await driver.removeSnapshot("snap");
    expect(await driver.snapshots()).toEqual(["second"]);
    await driver.start({ id: "again", spec: testSpec, snapshot: "second" });
    expect(await out("again", "cat count; ls -d gone/deep")).toBe("1\nfork\ngone/deep\n");
    await driver.remove("again");
    await driver.removeSnapshot("second");
    await driver.removeSnapshot("second");
    expect(layers()).toEqual([]);
    expect(readdirSync(join(dir, "work"))).toEqual([]);
    await expect(driver.start({ id: "none", spec: testSpec, snapshot: "snap" })).rejects.toMatchObject({
      code: "SnapshotNotFound",
    });
    expect(await driver.list()).toEqual([]);
  });

  test("many snapshots of one sandbox stack up", async () => {
    await driver.start({ id: "tall", spec: testSpec });
    for (let round = 0; round < 60; round++) {
      await driver.snapshot("tall", `tall-${round}`);
      writeFileSync(join(dir, "layers", upperOf("tall"), "mark"), String(round));
    }
    await driver.start({ id: "tall", spec: testSpec });
    expect(await out("tall", "cat /mark")).toBe("59");
    await driver.start({ id: "early", spec: testSpec, snapshot: "tall-11" });
    expect(await out("early", "cat /mark")).toBe("10");
    for (const id of ["tall", "early"]) await driver.remove(id);
    for (const id of await driver.snapshots()) await driver.removeSnapshot(id);
    expect(layers()).toEqual([]);
  });

  test("measures the usage of a sandbox", async () => {
    await driver.start({ id: "one", spec: testSpec });
    // runc returns while the first process still has the threads of runc.
    await expect.poll(async () => (await driver.usage("one")).pids).toBe(1);
    const before = await driver.usage("one");
    await run(
      driver,
      "one",
      "dd if=/dev/zero of=file bs=1M count=20 2>/dev/null; ln -s / out; ln file again; sync file",
    );
    const after = await driver.usage("one");
    expect(after.diskBytes - before.diskBytes).toBeGreaterThanOrEqual(20 * 2 ** 20);
    expect(after.diskBytes - before.diskBytes).toBeLessThan(22 * 2 ** 20);
    expect(after).toMatchObject({ pids: expect.any(Number), memoryBytes: expect.any(Number) });
    expect(after.cpuMs).toBeGreaterThan(before.cpuMs);
    expect(before.memoryBytes).toBeGreaterThan(0);
    await driver.stop("one");
    expect(await driver.usage("one")).toEqual({
      memoryBytes: 0,
      cpuMs: 0,
      pids: 0,
      diskBytes: expect.any(Number),
      files: expect.any(Number),
      isPartial: false,
    });
    await driver.remove("one");
    await expect(driver.usage("one")).rejects.toMatchObject({ code: "SandboxNotFound" });
  });

  test("counts files and bytes of its snapshots too, and ends the count at a bound", async () => {
    await driver.start({ id: "one", spec: testSpec });
    const empty = await driver.usage("one");
    await run(
      driver,
      "one",
      "mkdir d; for i in $(seq 50); do : >d/$i; done; head -c 3000000 /dev/zero >big; sync big",
    );
    await driver.snapshot("one", "kept");
    await driver.start({ id: "one", spec: testSpec });
    await run(driver, "one", "rm -r d big; head -c 3000000 /dev/zero >again; sync again");
    for (const id of ["one", "fork"]) {
      if (id === "fork") await driver.start({ id, spec: testSpec, snapshot: "kept" });
      const { diskBytes, files, isPartial } = await driver.usage(id);
      expect([files - empty.files >= 52, isPartial]).toEqual([true, false]);
      expect(diskBytes - empty.diskBytes).toBeGreaterThanOrEqual(id === "fork" ? 3e6 : 6e6);
    }
    expect((await driver.usage("one", { diskBytes: 2 ** 40, files: 10 })).files).toBeGreaterThan(10);
    for (const id of ["one", "fork"]) await driver.remove(id);
    await driver.removeSnapshot("kept");
  });

  test("counts deleted open files once, and no files in memory", async () => {
    await driver.start({ id: "one", spec: testSpec });
    const hold = `import mmap, os, time
held = open("held", "w+b"); held.write(bytes(20 << 20)); held.flush(); os.unlink("held"); os.dup(held.fileno())
mapped = open("mapped", "w+b"); mapped.write(bytes(10 << 20)); mapped.flush(); area = mmap.mmap(mapped.fileno(), 10 << 20); mapped.close(); os.unlink("mapped")
os.write(os.memfd_create("x"), bytes(5 << 20)); shm = open("/dev/shm/x", "wb"); shm.write(bytes(5 << 20)); shm.flush(); os.unlink("/dev/shm/x")
os.fork(); print("ready", flush=True); time.sleep(60)`;
    const before = await driver.usage("one");
    const process = await driver.exec("one", { argv: ["python3", "-c", hold] });
    await once(process.stdout, "data");
    const grown = (await driver.usage("one")).diskBytes - before.diskBytes;
    expect(grown).toBeGreaterThanOrEqual(20 * 2 ** 20);
    expect(grown).toBeLessThan(32 * 2 ** 20);
    // Only the machine's root may read mappings.
    if (getSandboxIdBase() !== 1) expect(grown).toBeGreaterThanOrEqual(30 * 2 ** 20);
    await driver.remove("one");
  });

  test("reap removes unknown sandboxes and unused files only", async () => {
    for (const id of ["mine", "orphan"]) await driver.start({ id, spec: testSpec });
    await run(driver, "mine", "echo kept >file");
    for (const id of ["mine", "orphan"]) await driver.snapshot(id, `of-${id}`);
    await driver.start({ id: "orphan", spec: testSpec });
    await driver.start({ id: "mine", spec: testSpec });
    for (const folder of ["layers/stray", "work/lonely", "trash/half/deep", "layers/h0.new"]) {
      mkdirSync(join(dir, folder), { recursive: true });
    }
    mkdirSync(join(getRuntimeDir(dir), "state", "ghost"));
    await driver.reap({ sandboxes: new Set(["mine"]), snapshots: new Set(["of-mine"]) });
    expect((await driver.list()).map(({ id }) => id)).toEqual(["mine"]);
    expect(await driver.snapshots()).toEqual(["of-mine"]);
    expect(layers()).toHaveLength(2);
    expect(readdirSync(join(dir, "layers")).filter((name) => name.endsWith(".new"))).toEqual([]);
    expect([readdirSync(join(dir, "work")), readdirSync(join(dir, "trash"))]).toEqual([
      [upperOf("mine")],
      [],
    ]);
    expect(readdirSync(join(getRuntimeDir(dir), "state"))).toEqual(["mine"]);
    expect(groups(dir).every((path) => path.endsWith("/mine"))).toBe(true);
    expect(await out("mine", "cat file")).toBe("kept\n");
    await driver.remove("mine");
    await driver.removeSnapshot("of-mine");
  });

  test("an unreadable record costs no other sandbox a layer", async () => {
    await driver.start({ id: "one", spec: testSpec });
    await run(driver, "one", "echo kept >file");
    await driver.stop("one");
    const file = join(dir, "sandboxes", "one.json");
    const record = readFileSync(file, "utf8");
    writeFileSync(file, "");
    await driver.close();
    await driver.open();
    await driver.reap({ sandboxes: new Set(["one"]), snapshots: new Set() });
    writeFileSync(file, record);
    await driver.close();
    await driver.open();
    await driver.start({ id: "one", spec: testSpec });
    expect(await out("one", "cat file")).toBe("kept\n");
    await driver.remove("one");
  });

  test("a kill during a snapshot, stop or removal leaves the old or the new state", async () => {
    await driver.start({ id: "kept", spec: testSpec });
    await run(driver, "kept", "echo 0 >round; sync");
    await driver.close();
    for (let round = 0; round < 3; round++) {
      const victim = startDriverProcess(
        `const spec = ${JSON.stringify(testSpec)};
        await driver.open();
        console.log("working");
        for (let n = 0; ; n++) {
          const name = "snap-${round}-" + n;
          await driver.snapshot("kept", name);
          await driver.start({ id: "kept", spec });
          await driver.start({ id: "fork-" + n, spec, snapshot: name });
          await driver.stop("fork-" + n);
          await driver.removeSnapshot(name);
          await driver.remove("fork-" + n);
        }`,
        dir,
        runtime,
      );
      await once(victim.stdout, "data");
      await delay(20 + Math.random() * 150);
      victim.kill("SIGKILL");
      await once(victim, "exit");
      await driver.open();
      await driver.reap({ sandboxes: new Set(["kept"]), snapshots: new Set() });
      const [kept, ...others] = await driver.list();
      expect([kept?.id, others]).toEqual(["kept", []]);
      // A stop that the kill interrupted may still end the sandbox.
      const inKept = async (command: string) => {
        const [{ state }] = (await driver.list()) as [DriverSandbox];
        if (state === "stopped") await driver.start({ id: "kept", spec: testSpec });
        return run(driver, "kept", command);
      };
      await expect.poll(() => inKept("cat round")).toEqual({ code: 0, out: `${round}\n`, err: "" });
      await expect.poll(() => inKept(`echo ${round + 1} >round && sync`)).toMatchObject({ code: 0 });
      const record = JSON.parse(readFileSync(join(dir, "sandboxes", "kept.json"), "utf8"));
      expect(layers().toSorted()).toEqual([record.upper, ...record.layers].toSorted());
      expect([readdirSync(join(dir, "work")), readdirSync(join(dir, "trash"))]).toEqual([[record.upper], []]);
      expect(groups(dir).every((path) => path.endsWith("/kept"))).toBe(true);
      await driver.close();
    }
    await driver.open();
    await driver.remove("kept");
    expect(layers()).toEqual([]);
  });

  test("a folder root keeps its owners and is never written", async () => {
    const root = join(dir, "..", "root");
    const busybox = findBusybox()!;
    for (const folder of ["app", "etc", "home/joe"]) mkdirSync(join(root, folder), { recursive: true });
    copyFileSync(busybox, join(root, "app/busybox"));
    // runc runs commands by a shell of the root, crun does not.
    if (runtime === "runc") {
      mkdirSync(join(root, "bin"));
      symlinkSync("/app/busybox", join(root, "bin/sh"));
    }
    symlinkSync("/etc/outside", join(root, "etc/hosts"));
    symlinkSync("/../../../../../../tmp", join(root, "out"));
    writeFileSync(join(root, "home/joe/own"), "joe's");
    execFileSync("chown", ["-R", "1234:1234", join(root, "home/joe")]);
    const spec: PreparedSpec = {
      ...testSpec,
      root: { kind: "folder", path: root },
      workingDir: "/home/joe/work",
      user: { name: "joe", uid: 1234, gid: 1234, home: "/home/joe" },
    };
    const argv = (...words: string[]) => ({ argv: ["/app/busybox", ...words] });
    await driver.start({ id: "bare", spec, files: [{ path: "/out/given", content: "x" }] });
    await driver.start({ id: "other", spec });
    expect(
      (await run(driver, "bare", argv("stat", "-c", "%u %a", "/home/joe/own", "/app/busybox", "/tmp", ".")))
        .out,
    ).toBe("1234 644\n0 755\n0 1777\n1234 755\n");
    expect(
      (
        await run(
          driver,
          "bare",
          argv("sh", "-c", "echo changed >../own; echo new >file; cat ../own /tmp/given"),
        )
      ).out,
    ).toBe("changed\nx");
    expect((await run(driver, "other", argv("cat", "/home/joe/own"))).out).toBe("joe's");
    expect(readFileSync(join(root, "home/joe/own"), "utf8")).toBe("joe's");
    expect(
      readdirSync(root)
        .filter((name) => name !== "bin")
        .toSorted(),
    ).toEqual(["app", "etc", "home", "out"]);
    expect(statSync("/tmp/given", { throwIfNoEntry: false })).toBeUndefined();
    await driver.snapshot("bare", "bare");
    await driver.start({ id: "fork", spec: testSpec, snapshot: "bare" });
    expect((await run(driver, "fork", { ...argv("cat", "/home/joe/own"), cwd: "/" })).out).toBe("changed\n");
    for (const id of ["bare", "other", "fork"]) await driver.remove(id);
    await driver.removeSnapshot("bare");
    rmSync(root, { recursive: true });
    await expect(driver.start({ id: "missing", spec })).rejects.toMatchObject({ code: "SandboxFailed" });
    expect(await driver.list()).toEqual([]);
  });

  test("starts 30 sandboxes concurrently", async () => {
    const ids = Array.from({ length: 30 }, (_, index) => `many-${index}`);
    await Promise.all(ids.map((id) => driver.start({ id, spec: testSpec })));
    expect(await Promise.all(ids.map((id) => out(id, "hostname")))).toEqual(ids.map((id) => `${id}\n`));
    await Promise.all(ids.map((id) => driver.remove(id)));
    expect(layers()).toEqual([]);
  });

  function upperOf(id: string): string {
    return JSON.parse(readFileSync(join(dir, "sandboxes", `${id}.json`), "utf8")).upper;
  }
});
