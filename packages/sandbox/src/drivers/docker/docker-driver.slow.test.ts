import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { run, suiteLimits } from "../../../test/driver-suite/context.ts";
import { startTestEngine, type TestEngine } from "../../../test/support/docker-engine.ts";
import { busyboxImage, importTestImages, scratchImage } from "../../../test/support/docker-image.ts";
import type { PreparedSpec } from "../../driver.ts";
import { hasResourceCapability } from "../../kernel/capabilities.ts";
import { createHostSpec } from "../../specs/specs.ts";
import { DockerDriver } from "./docker-driver.ts";

const spec = {
  ...createHostSpec(suiteLimits),
  root: { kind: "image" as const, reference: busyboxImage },
  user: null,
};
let dir: string;
let engine: TestEngine;
let driver: DockerDriver;
let prepared: PreparedSpec;

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  engine = await startTestEngine();
  await importTestImages(engine.engine.docker);
  driver = new DockerDriver({ dir, host: { socketPath: engine.socketPath } });
  await driver.open();
  prepared = await driver.prepare(spec);
});
afterAll(async () => {
  await driver?.close();
  await engine?.end();
  rmSync(dir, { recursive: true, force: true });
});
afterEach(async () => {
  for (const { id } of await driver.list()) await driver.remove(id);
});

test("starts an image without a shell, runs its programs, and has a shell for tools", async () => {
  const single = await driver.prepare({ ...spec, root: { kind: "image", reference: scratchImage } });
  expect(single.user).toEqual({ name: "root", uid: 0, gid: 0, home: "/root" });
  await driver.start({ id: "single", spec: single });
  expect(await run(driver, "single", { argv: ["/busybox", "echo", "own"] })).toEqual({
    code: 0,
    out: "own\n",
    err: "",
  });
  expect(await run(driver, "single", { argv: ["sh", "-c", "true"] })).toMatchObject({ code: 127, out: "" });
  expect(
    await run(driver, "single", { argv: [...driver.shell!, "-c", "ls / | head -1; echo $PPID"] }),
  ).toMatchObject({
    code: 0,
  });
  await driver.pause("single");
  await driver.stop("single");
  await driver.start({ id: "single", spec: single });
  expect(await run(driver, "single", { argv: ["/busybox", "true"] })).toMatchObject({ code: 0 });
});

test("overrides the image's environment by the spec's and looks up its user", async () => {
  const named = await driver.prepare({
    ...spec,
    env: { FROM_IMAGE: "no", MORE: "1" },
    user: "agent:staff",
    workingDir: "",
  });
  expect(named).toMatchObject({
    env: { FROM_IMAGE: "no", MORE: "1" },
    user: { name: "agent", uid: 1000, gid: 50, home: "/home/agent" },
    workingDir: "/workspace/project",
  });
  expect(prepared).toMatchObject({
    env: { FROM_IMAGE: "yes" },
    user: { name: "agent", uid: 1000, gid: 1000 },
  });
  expect(prepared.root).toMatchObject({ reference: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) });
  await expect(driver.prepare({ ...spec, user: "nobody-here" })).rejects.toMatchObject({
    code: "SandboxSpecUnusable",
    message: expect.stringContaining('no user "nobody-here"'),
  });
  expect(await engine.engine.docker.listContainers({ all: true })).toEqual([]);
});

test("sets the limits and the filter", async () => {
  await driver.start({ id: "limits", spec: prepared });
  const [{ Id } = { Id: "" }] = await engine.engine.docker.listContainers();
  const { HostConfig, Mounts } = await engine.engine.docker.getContainer(Id).inspect();
  expect(HostConfig).toMatchObject({
    ...{
      Memory: suiteLimits.memoryBytes,
      MemorySwap: suiteLimits.memoryBytes,
      PidsLimit: suiteLimits.pids,
      CpuQuota: 200_000,
    },
    ...{ NetworkMode: "none", CapDrop: ["ALL"], Privileged: false, PidMode: "", LogConfig: { Type: "none" } },
  });
  expect(Mounts.map(({ Source, RW }) => [Source, RW])).toEqual(Mounts.map(({ Source }) => [Source, false]));
  expect(Mounts.some(({ Source }) => Source.includes("docker.sock"))).toBe(false);
  const mounts = (await run(driver, "limits", "cat /proc/mounts")).out;
  expect(mounts).toMatch(/^\S+ \/sys sysfs ro,/m);
  expect(mounts).toMatch(/^\S+ \/proc\/sys proc ro,/m);
});

test("leaves process ids to the machine, however many sandboxes there are", async () => {
  await driver.start({ id: "ids", spec: prepared });
  const group = `/sandpiper-docker-${readFileSync(join(dir, "installation"), "utf8")}`;
  const [{ Id } = { Id: "" }] = await engine.engine.docker.listContainers();
  const { HostConfig, State } = await engine.engine.docker.getContainer(Id).inspect();
  expect(HostConfig.CgroupParent).toBe(group);
  expect(readFileSync(`/proc/${State.Pid}/cgroup`, "latin1")).toContain(`${group}/${Id}`);
  const folder = existsSync("/sys/fs/cgroup/cgroup.controllers") ? "" : "/pids";
  const most = Number(readFileSync(`/sys/fs/cgroup${folder}${group}/pids.max`, "latin1"));
  expect(most).toBeLessThan(Number(readFileSync("/proc/sys/kernel/pid_max", "latin1")));
});

test("separates the sandboxes of two installations on one engine", async () => {
  const other = new DockerDriver({ dir: join(dir, "other"), host: { socketPath: engine.socketPath } });
  await other.open();
  await Promise.all([
    driver.start({ id: "same", spec: prepared }),
    other.start({ id: "same", spec: prepared }),
  ]);
  await other.snapshot("same", "kept");
  await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
  expect([await driver.list(), await driver.snapshots()]).toEqual([[], []]);
  expect([await other.list(), await other.snapshots()]).toEqual([
    [{ id: "same", state: "running" }],
    ["kept"],
  ]);
  await other.reap({ sandboxes: new Set(), snapshots: new Set() });
  expect([await other.list(), await other.snapshots()]).toEqual([[], []]);
  await other.close();
});

test("removes helper containers of an earlier process", async () => {
  const { docker } = engine.engine;
  await driver.start({ id: "whole", spec: prepared });
  const installation = readFileSync(join(dir, "installation"), "utf8");
  const labels = { "sandpiper.installation": installation };
  await docker.createContainer({
    Image: busyboxImage,
    Cmd: ["true"],
    Labels: { ...labels, "sandpiper.helper": "yes" },
  });
  await docker.createContainer({
    Image: busyboxImage,
    Cmd: ["true"],
    Labels: { ...labels, "sandpiper.sandbox": "half" },
    name: `sandpiper-${installation}-half`,
  });
  const next = new DockerDriver({ dir, host: { socketPath: engine.socketPath } });
  await next.open();
  expect((await next.list()).toSorted((a, b) => a.id.localeCompare(b.id))).toEqual([
    { id: "half", state: "stopped" },
    { id: "whole", state: "running" },
  ]);
  await next.reap({ sandboxes: new Set(["whole"]), snapshots: new Set() });
  expect(await docker.listContainers({ all: true })).toHaveLength(1);
  await next.close();
});

test("leaks no containers, mounts, descriptors or processes in many starts", async () => {
  const shims = () =>
    spawnSync("pgrep", [
      "-f",
      `-c`,
      `containerd-shim.*${engine.socketPath.replace("docker.sock", "")}`,
    ]).stdout.toString();
  const mounts = () => readFileSync(`/proc/${engine.daemon.pid}/mounts`, "utf8").split("\n").length;
  const count = () => ({ mounts: mounts(), shims: shims() });
  const before = count();
  await Promise.all(
    [0, 1, 2, 3].map(async (n) => {
      await driver.start({ id: `cycle-${n}`, spec: prepared });
      await run(driver, `cycle-${n}`, "true");
      await driver.remove(`cycle-${n}`);
    }),
  );
  await expect.poll(count).toEqual(before);
  expect(await engine.engine.docker.listContainers({ all: true })).toEqual([]);
});

test("works after a restart of the engine and reports its absence", async () => {
  await driver.start({ id: "one", spec: prepared });
  await run(driver, "one", "echo kept >file");
  const sleeper = await driver.exec("one", { argv: ["sleep", "300"] });
  const restarted = engine.restart();
  expect(await sleeper.exit).toMatchObject({ code: expect.toSatisfy((code) => code !== 0) });
  await restarted;
  expect(await driver.list()).toEqual([{ id: "one", state: "stopped" }]);
  await expect(driver.exec("one", { argv: ["true"] })).rejects.toMatchObject({ code: "SandboxNotRunning" });
  await driver.start({ id: "one", spec: prepared });
  expect(await run(driver, "one", "cat file")).toMatchObject({ out: "kept\n" });
});

describe("an unusable engine", () => {
  const at = (host: ConstructorParameters<typeof DockerDriver>[0]["host"]) =>
    new DockerDriver({ dir: join(dir, "none"), host, timeoutMs: 300 });

  test("is named with what to do when it cannot be reached", async () => {
    for (const host of [
      { socketPath: join(dir, "no.sock") },
      { protocol: "http" as const, host: "127.0.0.1", port: 1 },
    ]) {
      await expect(at(host).open()).rejects.toMatchObject({
        code: "SandboxFailed",
        message: expect.stringMatching(
          /^The container engine at \S+ cannot be reached \((ENOENT|ECONNREFUSED)\): start it, or set SANDPIPER_DOCKER_HOST/,
        ),
      });
    }
    expect(existsSync(join(dir, "none"))).toBe(false);
  });

  test("causes a timeout when it accepts requests and does not answer", async () => {
    const held = new Set<{ destroy(): void }>();
    const silent: Server = createServer((socket) => void held.add(socket)).listen(join(dir, "silent.sock"));
    await once(silent, "listening");
    const start = performance.now();
    await expect(at({ socketPath: join(dir, "silent.sock") }).open()).rejects.toMatchObject({
      code: "SandboxFailed",
      message: expect.stringMatching(/did not answer within 0\.3 s\.$/),
    });
    expect(performance.now() - start).toBeLessThan(30_000);
    for (const socket of held) socket.destroy();
    silent.close();
  });

  test("is detected by an invalid response", async () => {
    const liar = createServer(
      (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwhat"),
    ).listen(join(dir, "liar.sock"));
    await once(liar, "listening");
    await expect(at({ socketPath: join(dir, "liar.sock") }).open()).rejects.toMatchObject({
      code: "SandboxFailed",
    });
    liar.close();
  });

  test("reports a damaged installation file", async () => {
    const broken = mkdtempSync(join(dir, "broken-"));
    writeFileSync(join(broken, "installation"), "x");
    await expect(
      new DockerDriver({ dir: broken, host: { socketPath: engine.socketPath } }).open(),
    ).rejects.toMatchObject({
      message: expect.stringContaining("is damaged"),
    });
  });
});

test("counts what root writes into the engine's own files, and keeps the out-of-memory score", async () => {
  const root = { name: "root", uid: 0, gid: 0, home: "/root" };
  await driver.start({ id: "root", spec: { ...prepared, user: root } });
  const before = (await driver.usage("root")).diskBytes;
  expect((await run(driver, "root", "dd if=/dev/zero of=/etc/hosts bs=1M count=5")).code).toBe(0);
  // The kernel refuses it where the engine has CAP_SYS_RESOURCE.
  const { err } = await run(
    driver,
    "root",
    "echo 0 >/proc/1/oom_score_adj; echo 0 >/proc/self/oom_score_adj",
  );
  expect(/denied/.test(err)).toBe(hasResourceCapability());
  expect((await driver.usage("root")).diskBytes - before).toBeGreaterThan(5_000_000);
  expect((await run(driver, "root", "cat /proc/1/oom_score_adj")).out).toBe("500\n");
});

test("counts files, up to the bound", async () => {
  await driver.start({ id: "files", spec: prepared });
  const before = await driver.usage("files");
  const make = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); : >$i; done; ln 1 linked";
  expect((await run(driver, "files", make)).code).toBe(0);
  const after = await driver.usage("files");
  expect([after.files - before.files, after.isPartial]).toEqual([300, false]);
  const bounds = { diskBytes: 2 ** 30, files: 100 };
  expect((await driver.usage("files", bounds)).files).toBeLessThanOrEqual(102);
  await driver.stop("files");
  expect((await driver.usage("files")).files).toBe(after.files);
});

test("gives root capabilities only if the spec names them, or the engine has a user namespace", async () => {
  const root = { name: "root", uid: 0, gid: 0, home: "/root" };
  const status = async (id: string, spec: PreparedSpec) => {
    await driver.start({ id, spec });
    return (await run(driver, id, "grep -E 'CapEff|NoNewPrivs' /proc/self/status")).out;
  };
  const none = "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n";
  expect(await status("plain", { ...prepared, user: root })).toBe(none);
  const named = await status("named", { ...prepared, user: root, capabilities: ["CHOWN", "KILL"] });
  expect(named).toBe("CapEff:\t0000000000000021\nNoNewPrivs:\t0\n");
});

test("cannot be used by root inside to change the machine's null device", async () => {
  const root = { name: "root", uid: 0, gid: 0, home: "/root" };
  const before = statSync("/dev/null");
  await driver.start({ id: "root", spec: { ...prepared, user: root, capabilities: ["CHOWN", "FOWNER"] } });
  await run(driver, "root", "for f in /proc/[0-9]*/fd/*; do chmod 600 $f; chown 1:1 $f; done; true");
  expect(statSync("/dev/null")).toMatchObject({ uid: before.uid, mode: before.mode });
});
