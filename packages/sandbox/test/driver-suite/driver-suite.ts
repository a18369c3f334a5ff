import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { PreparedSpec, SandboxDriver, SandboxSpec } from "../../src/driver.ts";
import { describeCommands } from "./commands.ts";
import { run, type SuiteContext, suiteLimits } from "./context.ts";
import { describeHeldShells } from "./held.ts";
import { describeIsolation } from "./isolation.ts";
import { describePorts } from "./ports.ts";

/** A driver over a real engine with its own installation. */
export interface DriverUnderTest {
  driver: SandboxDriver;
  /** A root with `sh`, `busybox` and the common tools, and an unprivileged user. */
  spec: SandboxSpec;
  /** Roots that cannot be prepared, with the expected error text. */
  unusable: [SandboxSpec["root"], RegExp][];
  /** True when memory is limited per process: allocation fails instead of a kill. */
  memoryByProcess?: boolean;
  /** True when the engine decides alone what of the machine and its network a sandbox sees. */
  showsMachine?: boolean;
  /** Host name of sandboxes from the warm pool; undefined: the host name is the sandbox's id. */
  sharedHostName?: string;
  /** Opens another driver over the same installation, as a later process does. */
  reopen(): Promise<SandboxDriver>;
  /** Removes every sandbox, snapshot and other resource. */
  end(): Promise<void>;
}

/**
 * Tests the behaviour that `driver.ts` promises, for every driver. `make` fails when the engine is
 * not available: no test is skipped.
 */
export function describeDriver(name: string, make: () => Promise<DriverUnderTest>): void {
  describe(name, () => {
    let made: DriverUnderTest;
    let driver: SandboxDriver;
    let spec: PreparedSpec;
    const context: SuiteContext = {
      get driver() {
        return driver;
      },
      get spec() {
        return spec;
      },
      get memoryByProcess() {
        return made.memoryByProcess ?? false;
      },
      get showsMachine() {
        return made.showsMachine ?? false;
      },
    };

    beforeAll(async () => {
      made = await make();
      driver = made.driver;
      spec = await driver.prepare(made.spec);
      await driver.start({ id: "one", spec });
    });
    afterAll(async () => {
      await made?.end();
    });

    afterEach(async () => {
      for (const { id } of await driver.list()) if (id !== "one") await driver.remove(id);
      for (const id of await driver.snapshots()) await driver.removeSnapshot(id);
    });

    test("prepares a spec, also a prepared one, to the same result each time", async () => {
      expect(await driver.prepare(made.spec)).toEqual(spec);
      expect(await driver.prepare(spec)).toEqual(spec);
      expect(spec.user).toMatchObject({
        uid: expect.any(Number),
        gid: expect.any(Number),
        home: expect.stringMatching(/^\//),
      });
    });

    test("reports in one sentence why a root cannot be prepared", async () => {
      for (const [root, words] of made.unusable) {
        await expect(driver.prepare({ ...made.spec, root }), JSON.stringify(root)).rejects.toMatchObject({
          code: "SandboxSpecUnusable",
          message: expect.stringMatching(words),
        });
      }
    });

    describeCommands(context);
    describeHeldShells(context);
    describeIsolation(context);
    describePorts(context);

    test("freezes and resumes every process of a paused sandbox", async () => {
      const counter = await driver.exec("one", {
        argv: ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"],
      });
      let last = 0;
      counter.stdout.on("data", (chunk: Buffer) => {
        last = Number(chunk.toString().trim().split("\n").at(-1));
      });
      await expect.poll(() => last).toBeGreaterThan(3);
      await driver.pause("one");
      await driver.pause("one");
      expect(await driver.list()).toEqual([{ id: "one", state: "paused" }]);
      await expect(driver.exec("one", { argv: ["true"] })).rejects.toMatchObject({
        code: "SandboxNotRunning",
        message: /paused/,
      });
      // Buffered output arrives first; then none does for far longer than a step takes.
      await new Promise((resolve) => setTimeout(resolve, 50));
      const frozen = last;
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(last).toBe(frozen);
      await driver.resume("one");
      await driver.resume("one");
      await expect.poll(() => last).toBeGreaterThan(frozen + 3);
      counter.kill();
      await counter.exit;
    });

    test("refuses to start a running sandbox and does not change it", async () => {
      await expect(driver.start({ id: "one", spec })).rejects.toMatchObject({ code: "SandboxFailed" });
      expect(await run(driver, "one", "echo alive")).toMatchObject({ out: "alive\n" });
    });

    test("stops a sandbox and starts it again with its files", async () => {
      await driver.start({ id: "again", spec });
      await run(driver, "again", "echo kept >file");
      const watcher = await driver.exec("again", {
        argv: ["sh", "-c", 'trap "echo ended >>file; exit" TERM; echo ready; while :; do sleep 0.05; done'],
      });
      await new Promise((resolve) => watcher.stdout.once("data", resolve));
      const stubborn = await driver.exec("again", {
        argv: ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"],
      });
      await new Promise((resolve) => stubborn.stdout.once("data", resolve));
      await driver.stop("again");
      await Promise.all([watcher.exit, stubborn.exit]);
      expect(await driver.list()).toContainEqual({ id: "again", state: "stopped" });
      await expect(driver.exec("again", { argv: ["true"] })).rejects.toMatchObject({
        code: "SandboxNotRunning",
      });
      await expect(driver.pause("again")).rejects.toMatchObject({ code: "SandboxNotRunning" });
      expect(await driver.usage("again")).toMatchObject({ memoryBytes: 0, pids: 0 });
      await driver.stop("again");
      await driver.start({ id: "again", spec });
      expect(await run(driver, "again", "cat file")).toMatchObject({ code: 0, out: "kept\nended\n" });
      await driver.pause("again");
      await driver.stop("again");
      expect(await driver.list()).toContainEqual({ id: "again", state: "stopped" });
    });

    test("removes a paused sandbox with its processes and files", async () => {
      await driver.start({ id: "paused", spec });
      const sleeper = await driver.exec("paused", { argv: ["sleep", "300"] });
      await driver.pause("paused");
      await driver.remove("paused");
      expect(await sleeper.exit).toBeDefined();
      await driver.remove("paused");
      await driver.remove("never-there");
      expect((await driver.list()).map(({ id }) => id)).toEqual(["one"]);
      await driver.start({ id: "paused", spec });
    });

    test("reports an unknown sandbox and one whose processes have ended", async () => {
      for (const work of [
        () => driver.exec("nothing", { argv: ["true"] }),
        () => driver.usage("nothing"),
        () => driver.snapshot("nothing", "s"),
      ]) {
        await expect(work()).rejects.toMatchObject({ code: "SandboxNotFound" });
      }
      await driver.start({ id: "brief", spec: { ...spec, command: ["sh", "-c", "sleep 0.2"] } });
      await expect.poll(() => driver.list()).toContainEqual({ id: "brief", state: "stopped" });
      await expect(driver.exec("brief", { argv: ["true"] })).rejects.toMatchObject({
        code: "SandboxNotRunning",
      });
      await expect(driver.connect("brief", 80)).rejects.toMatchObject({ code: "SandboxNotRunning" });
    });

    test("a failed start leaves no traces and reports the reason", async () => {
      await expect(
        driver.start({ id: "broken", spec: { ...spec, command: ["/no/such/program"] } }),
      ).rejects.toMatchObject({
        code: "SandboxFailed",
        message: expect.stringMatching(/no such|not found/i),
      });
      await expect(driver.start({ id: "../x", spec })).rejects.toMatchObject({ code: "SandboxFailed" });
      expect(await driver.list()).toEqual([{ id: "one", state: "running" }]);
    });

    test("writes files of root into a sandbox at each start", async () => {
      const files = [{ path: "/etc/sandpiper-test/ca.pem", content: "a certificate\n" }];
      await driver.start({ id: "files", spec, files });
      expect(
        await run(driver, "files", "cat /etc/sandpiper-test/ca.pem; echo x >>/etc/sandpiper-test/ca.pem"),
      ).toMatchObject({
        code: expect.any(Number),
        out: "a certificate\n",
        err: expect.stringMatching(/denied|read-only|can't create/i),
      });
      await driver.stop("files");
      await driver.start({
        id: "files",
        spec,
        files: [{ path: "/etc/sandpiper-test/ca.pem", content: "a newer one\n" }],
      });
      expect((await run(driver, "files", "cat /etc/sandpiper-test/ca.pem")).out).toBe("a newer one\n");
    });

    test("starts sandboxes from a snapshot that change independently", async () => {
      await driver.start({ id: "origin", spec });
      await run(driver, "origin", "echo before >file; mkdir -p deep/er; echo x >deep/er/y; rm -f gone");
      await driver.snapshot("origin", "first");
      expect(await driver.snapshots()).toEqual(["first"]);
      if (!(await driver.list()).some(({ id, state }) => id === "origin" && state === "running"))
        await driver.start({ id: "origin", spec });
      await run(driver, "origin", "echo after >file");
      await driver.start({ id: "fork", spec, snapshot: "first" });
      expect(await run(driver, "fork", "cat file deep/er/y; echo fork >file; pwd; id -u")).toMatchObject({
        out: `before\nx\n${spec.workingDir}\n${spec.user.uid}\n`,
      });
      expect(await run(driver, "origin", "cat file")).toMatchObject({ out: "after\n" });
      await driver.remove("origin");
      await driver.removeSnapshot("first");
      await driver.removeSnapshot("first");
      expect(await driver.snapshots()).toEqual([]);
      await driver.stop("fork");
      await driver.start({ id: "fork", spec });
      expect(await run(driver, "fork", "cat file deep/er/y")).toMatchObject({ out: "fork\nx\n" });
      await driver.remove("fork");
      await expect(driver.start({ id: "late", spec, snapshot: "first" })).rejects.toMatchObject({
        code: "SnapshotNotFound",
      });
      expect((await driver.list()).map(({ id }) => id)).toEqual(["one"]);
    });

    test("measures the usage of a sandbox", async () => {
      await driver.start({ id: "used", spec });
      const work =
        "dd if=/dev/zero of=big bs=1048576 count=20 2>/dev/null; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
      // It keeps running, because an engine may count only the CPU time of live processes.
      const worker = await driver.exec("used", { argv: ["sh", "-c", `${work}; echo done; exec sleep 300`] });
      await new Promise((resolve) => worker.stdout.once("data", resolve));
      const usage = await driver.usage("used");
      expect(usage.diskBytes).toBeGreaterThan(20 * 2 ** 20 * 0.99);
      expect(usage.diskBytes).toBeLessThan(40 * 2 ** 20);
      expect(usage.cpuMs).toBeGreaterThan(10);
      expect(usage.cpuMs).toBeLessThan(20_000);
      expect(usage.memoryBytes).toBeLessThan(suiteLimits.memoryBytes);
      expect(usage.pids).toBeGreaterThanOrEqual(1);
      expect(usage.pids).toBeLessThan(8);
    });

    test("is found by another driver with its state and spec", async () => {
      await driver.start({ id: "idle", spec: { ...spec, env: { ...spec.env, FROM_SPEC: "yes" } } });
      await driver.pause("idle");
      const again = await made.reopen();
      expect((await again.list()).toSorted((a, b) => a.id.localeCompare(b.id))).toEqual([
        { id: "idle", state: "paused" },
        { id: "one", state: "running" },
      ]);
      await again.resume("idle");
      expect(await run(again, "idle", "echo $FROM_SPEC; id -u; pwd")).toMatchObject({
        out: `yes\n${spec.user.uid}\n${spec.workingDir}\n`,
      });
      await again.remove("idle");
      await again.close();
    });

    test("reaps unknown sandboxes and snapshots only", async () => {
      await driver.start({ id: "orphan", spec });
      await driver.snapshot("orphan", "orphaned");
      await driver.snapshot("orphan", "wanted");
      await driver.reap({ sandboxes: new Set(["one", "elsewhere"]), snapshots: new Set(["wanted"]) });
      expect(await driver.list()).toEqual([{ id: "one", state: "running" }]);
      expect(await driver.snapshots()).toEqual(["wanted"]);
      await driver.start({ id: "forked", spec, snapshot: "wanted" });
      expect(await run(driver, "forked", "echo alive")).toMatchObject({ out: "alive\n" });
    });

    test("starts several sandboxes concurrently", async () => {
      const ids = ["s1", "s2", "s3", "s4"];
      await Promise.all(ids.map((id) => driver.start({ id, spec })));
      const outs = await Promise.all(ids.map((id) => run(driver, id, "hostname")));
      const own = (out: string, at: number) => (out.trim() === made.sharedHostName ? ids[at] : out.trim());
      expect(outs.map(({ out }, at) => own(out, at))).toEqual(ids);
      await Promise.all(ids.map((id) => driver.remove(id)));
      expect((await driver.list()).map(({ id }) => id)).toEqual(["one"]);
    });
  });
}
