import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
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
import { runToEnd } from "../../shell/run.ts";
import { OciDriver } from "./oci-driver.ts";

describe.each(await workingRuntimes())("the oci driver over %s", (runtime) => {
  let driver: OciDriver;
  let dir: string;
  let end: () => Promise<void>;

  beforeAll(async () => {
    ({ driver, dir, end } = await openTestDriver(runtime));
    await driver.start({ id: "one", spec: testSpec });
  });
  afterAll(() => end());

  test("passes 10 MB of random bytes in and out unchanged", async () => {
    const input = randomBytes(10 * 2 ** 20);
    const exec = (argv: string[]) =>
      runToEnd({ exec: (one) => driver.exec("one", one) }, { argv }, { input });
    const [echoed, hashed] = [await exec(["cat"]), await exec(["sha256sum"])];
    expect(echoed.stdout.equals(input)).toBe(true);
    expect(hashed.stdout.toString().slice(0, 64)).toBe(createHash("sha256").update(input).digest("hex"));
  });

  test("separates stdout and stderr and returns the exit code", async () => {
    expect(await run(driver, "one", "echo out; echo err >&2; exit 7")).toEqual({
      code: 7,
      out: "out\n",
      err: "err\n",
    });
  });

  test("returns 127 for a missing program and 126 for one that cannot run", async () => {
    const codes = await Promise.all(
      [
        { argv: ["no-such-program"] },
        { argv: ["/no/such"] },
        { argv: ["/etc/passwd"] },
        { argv: ["/etc"] },
        { argv: ["true"], cwd: "/no/such" },
      ].map(async (command) => (await run(driver, "one", command)).code),
    );
    expect(codes).toEqual([127, 127, 126, 126, 126]);
  });

  test("does not mistake a program's own output and exit code for the runtime's", async () => {
    expect(await run(driver, "one", "echo 'executable file not found' >&2; exit 255")).toMatchObject({
      code: 255,
    });
  });

  test("passes arguments, folder and environment literally", async () => {
    const odd = ["", " ", "$HOME", "`id`", "a\nb", '"', "'", "\\", "-n", "ü\u{1f600}"];
    const print = 'for x; do printf "%s\\0" "$x"; done; printf %s "$ODD"; pwd';
    const { out } = await run(driver, "one", {
      argv: ["sh", "-c", print, "sh", ...odd],
      cwd: "/tmp",
      env: { ODD: odd.join("|") },
    });
    expect(out).toBe(`${odd.map((text) => `${text}\0`).join("")}${odd.join("|")}/tmp\n`);
  });

  test("refuses a NUL and an empty command", async () => {
    await expect(driver.exec("one", { argv: ["echo", "a\0b"] })).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await expect(driver.exec("one", { argv: ["echo"], env: { A: "\0" } })).rejects.toMatchObject({
      code: "InvalidParameter",
    });
    await expect(driver.exec("one", { argv: [] })).rejects.toMatchObject({ code: "InvalidParameter" });
  });

  test("hides the environment of a command from other processes", async () => {
    const secret = "a-secret-of-the-user";
    const command = await driver.exec("one", {
      argv: ["sh", "-c", "echo ready; cat"],
      env: { TOKEN: secret },
    });
    await once(command.stdout, "data");
    await expect.poll(() => readdirSync(join(getRuntimeDir(dir), "boxes", "one", "exec"))).toEqual([]);
    const lines = readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/cmdline`, "utf8");
        } catch {
          return "";
        }
      });
    expect(lines.join("\n")).not.toContain(secret);
    command.stdin.end();
    expect(await command.exit).toEqual({ code: 0, signal: null });
  });

  test("ends with its process although a child keeps the pipes open", async () => {
    const { code, out } = await run(driver, "one", "sleep 300 & echo $!");
    expect(code).toBe(0);
    expect((await run(driver, "one", `kill -9 ${Number(out)}`)).code).toBe(0);
  });

  test("delivers signals, also to a process that has just started", async () => {
    const ended = await driver.exec("one", { argv: ["sleep", "300"] });
    ended.kill("SIGTERM");
    expect(await ended.exit).toEqual({ code: null, signal: "SIGTERM" });

    const stubborn = await driver.exec("one", {
      argv: ["sh", "-c", "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"],
    });
    await once(stubborn.stdout, "data");
    stubborn.kill("SIGTERM");
    stubborn.kill();
    expect(await stubborn.exit).toEqual({ code: null, signal: "SIGKILL" });
    await expect.poll(async () => (await run(driver, "one", "pgrep -c sleep")).out).toBe("0\n");
    stubborn.kill();
  });

  test("runs a command on a terminal with a size, input and a changed size", async () => {
    const shell = await driver.exec("one", { argv: ["sh"], tty: { cols: 91, rows: 17 }, env: { PS1: "" } });
    let text = "";
    shell.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    shell.stdin.write("stty size; test -t 0 && tty; echo written >/dev/stderr\n");
    await expect.poll(() => text).toMatch(/17 91\r\n\/dev\/pts\/\d+\r\nwritten\r\n/);
    // The sandbox's terminal echoes the early line once.
    expect(text.match(/stty size/g)).toHaveLength(1);
    shell.resize(60, 20);
    // The size arrives asynchronously, so the shell polls it.
    shell.stdin.write('while [ "$(stty size)" != "20 60" ]; do sleep 0.01; done; exit 5\n');
    expect(await shell.exit).toEqual({ code: 5, signal: null });
  });

  test("does not block the event loop while a terminal's program reads nothing", async () => {
    const child = await driver.exec("one", {
      argv: ["sh", "-c", "stty raw -echo; echo ready; exec sleep 60"],
      tty: { cols: 80, rows: 24 },
    });
    await once(child.stdout, "data");
    child.stdin.write(Buffer.alloc(1_000_000, "x"));
    const start = performance.now();
    for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
    expect(performance.now() - start).toBeLessThan(30_000);
    child.kill();
    await child.exit;
  });

  test("kills a terminal's process", async () => {
    const shell = await driver.exec("one", {
      argv: ["sh", "-c", "trap '' TERM HUP; echo ready; cat"],
      tty: { cols: 80, rows: 24 },
    });
    await once(shell.stdout, "data");
    shell.kill();
    expect(await shell.exit).toEqual({ code: null, signal: "SIGKILL" });
  });

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
      message: expect.stringMatching(/paused/),
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

  test("removes a paused sandbox with its processes and files", async () => {
    await driver.start({ id: "paused", spec: testSpec });
    const sleeper = await driver.exec("paused", { argv: ["sleep", "300"] });
    await driver.pause("paused");
    await driver.remove("paused");
    expect(await sleeper.exit).toBeDefined();
    await driver.remove("paused");
    expect((await driver.list()).map(({ id }) => id)).toEqual(["one"]);
  });

  test("reports an unknown sandbox and one whose processes have ended", async () => {
    await expect(driver.exec("nothing", { argv: ["true"] })).rejects.toMatchObject({
      code: "SandboxNotFound",
    });
    await driver.start({ id: "brief", spec: { ...testSpec, command: ["sh", "-c", "read x"] } });
    await expect.poll(() => driver.list()).toContainEqual({ id: "brief", state: "stopped" });
    await expect(driver.exec("brief", { argv: ["true"] })).rejects.toMatchObject({
      code: "SandboxNotRunning",
    });
    await driver.remove("brief");
  });

  test("restarts a sandbox whose processes have ended with its files", async () => {
    await driver.start({ id: "again", spec: testSpec });
    await run(driver, "again", "echo kept >/workspace/project/file; kill -9 -1");
    const init = Number(
      readFileSync(
        `${groups(dir).find((path) => /freezer.*again$|cgroup\/sandpiper[^/]*\/again$/.test(path))}/cgroup.procs`,
        "utf8",
      ),
    );
    process.kill(init, "SIGKILL");
    await expect.poll(() => driver.list()).toContainEqual({ id: "again", state: "stopped" });
    await driver.start({ id: "again", spec: testSpec });
    expect(await run(driver, "again", "cat file")).toMatchObject({ out: "kept\n" });
    await driver.remove("again");
  });

  test("refuses to start a running sandbox and does not change it", async () => {
    await expect(driver.start({ id: "one", spec: testSpec })).rejects.toMatchObject({
      code: "SandboxFailed",
    });
    expect(await run(driver, "one", "echo alive")).toMatchObject({ out: "alive\n" });
  });

  test("a failed start leaves no traces and reports the reason", async () => {
    const before = { groups: groups(dir), state: readdirSync(join(getRuntimeDir(dir), "state")) };
    await expect(
      driver.start({ id: "broken", spec: { ...testSpec, command: ["/no/such/program"] } }),
    ).rejects.toMatchObject({
      code: "SandboxFailed",
      message: /could not start the sandbox: .*(no such|not found)/i,
    });
    await expect(driver.start({ id: "../x", spec: testSpec })).rejects.toMatchObject({
      code: "SandboxFailed",
    });
    expect({ groups: groups(dir), state: readdirSync(join(getRuntimeDir(dir), "state")) }).toEqual(before);
    expect((await driver.list()).map(({ id }) => id)).toEqual(["one"]);
  });

  test("does not follow a sandbox's links when it removes the sandbox", async () => {
    const victim = join(dir, "victim");
    mkdirSync(join(victim, "folder"), { recursive: true });
    await driver.start({ id: "links", spec: testSpec });
    await run(
      driver,
      "links",
      `ln -s ${victim} /workspace/project/out; ln -s / /tmp/root; mkdir -p "$(printf '/tmp/\\377\\376')/x"; touch /tmp/-rf`,
    );
    const layers = readdirSync(join(dir, "layers"));
    await driver.remove("links");
    expect(existsSync(join(victim, "folder"))).toBe(true);
    expect(readdirSync(join(dir, "layers"))).toHaveLength(layers.length - 1);
    expect(readdirSync(join(dir, "trash"))).toEqual([]);
  });

  test("leaks no mounts, control groups, folders or processes in many starts", async () => {
    const count = () => ({
      mounts: readFileSync("/proc/mounts", "utf8").split("\n").length,
      groups: groups(dir).filter((path) => path.includes("/cycle-")),
      folders: ["layers", "work", "trash", "sandboxes"].map((name) => readdirSync(join(dir, name))),
      running: ["state", "boxes"].map((name) => readdirSync(join(getRuntimeDir(dir), name))),
      descriptors: readdirSync("/proc/self/fd").length,
    });
    const before = count();
    for (let round = 0; round < 8; round++) {
      const id = `cycle-${round}`;
      await driver.start({ id, spec: testSpec });
      await run(driver, id, "true");
      await driver.remove(id);
    }
    await expect.poll(count).toEqual(before);
  });

  test("is found by another process with its state and spec", async () => {
    await driver.start({ id: "idle", spec: { ...testSpec, env: { FROM_SPEC: "yes" } } });
    await driver.pause("idle");
    const again = new OciDriver({ dir, runtime });
    await again.open();
    expect((await again.list()).toSorted((a, b) => a.id.localeCompare(b.id))).toEqual([
      { id: "idle", state: "paused" },
      { id: "one", state: "running" },
    ]);
    const other = startDriverProcess(
      `await driver.open();
      await driver.resume("idle");
      const run = await driver.exec("idle", { argv: ["sh", "-c", "echo $FROM_SPEC; id -u"] });
      run.stdout.pipe(process.stdout);
      await run.exit; process.exit();`,
      dir,
      runtime,
    );
    const lines: string[] = [];
    for await (const line of createInterface({ input: other.stdout })) lines.push(line);
    expect(lines).toEqual(["yes", "1000"]);
    expect(await again.list()).toContainEqual({ id: "idle", state: "running" });
    await again.remove("idle");
    await again.close();
  });

  test("removes what a process leaves that is killed during a start", async () => {
    for (let round = 0; round < 4; round++) {
      const victim = startDriverProcess(
        `await driver.open();
        for (let n = 0; ; n++) {
          console.log("starting");
          const started = driver.start({ id: "half-${round}-" + n, spec: ${JSON.stringify(testSpec)} });
          if (n === ${round}) process.stdout.write("now\\n");
          await started;
        }`,
        dir,
        runtime,
      );
      for await (const line of createInterface({ input: victim.stdout }))
        if (line === "now") victim.kill("SIGKILL");
      const next = new OciDriver({ dir, runtime });
      await next.open();
      const left = (await next.list()).filter(({ id }) => id.startsWith("half-"));
      expect(left.length).toBeGreaterThanOrEqual(round);
      for (const { id } of left) await next.remove(id);
      expect((await next.list()).map(({ id }) => id)).toEqual(["one"]);
      expect(groups(dir).filter((path) => path.includes("/half-"))).toEqual([]);
      expect(readdirSync(join(getRuntimeDir(dir), "state"))).toEqual(["one"]);
      await next.close();
    }
    expect(await run(driver, "one", "echo alive")).toMatchObject({ out: "alive\n" });
  });
});
