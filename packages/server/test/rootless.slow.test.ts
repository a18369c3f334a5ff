import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

const checkout = fileURLToPath(new URL("../../../", import.meta.url));
const user = "sandpiper-test";
const uid = 54_321;
const subordinate = 0x2000_0000;
let base = "";
let asUser = "";
const children: ChildProcess[] = [];

/**
 * Runs `$@` as an ordinary user with subordinate ids. The user exists only in this command's mount
 * namespace, where the checkout is mounted at a path the user may read.
 */
const script = (base: string) => `
set -e
mount --bind ${base}/passwd /etc/passwd
mount --bind ${base}/subids /etc/subuid
mount --bind ${base}/subids /etc/subgid
mount --bind "${checkout}" ${base}/checkout
cd ${base}/checkout
exec setpriv --reuid ${uid} --regid ${uid} --clear-groups --reset-env env HOME=${base}/home PATH=/usr/local/bin:/usr/bin:/bin "$@"
`;

beforeAll(async () => {
  base = await mkdtemp("/tmp/sandpiper-rootless-");
  await command("sh", [
    "-c",
    `chmod 755 ${base}; mkdir -m 755 ${base}/checkout; install -d -m 700 -o ${uid} -g ${uid} ${base}/home`,
  ]);
  const passwd = await readFile("/etc/passwd", "utf8");
  await writeFile(join(base, "passwd"), `${passwd}${user}:x:${uid}:${uid}::${base}/home:/bin/sh\n`);
  await writeFile(join(base, "subids"), `${user}:${subordinate}:65536\n`);
  asUser = join(base, "as-user");
  await writeFile(asUser, script(base));
});

afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

afterAll(async () => {
  const folder = `/dev/shm/sandpiper-user-${uid}`;
  const holder = Number((await readFile(join(folder, "holder"), "utf8").catch(() => "")).split(" ")[0]);
  if (holder > 0) process.kill(holder, "SIGKILL");
  await rm(folder, { recursive: true, force: true });
  await rm(base, { recursive: true, force: true });
});

function start(argv: string[], env: Record<string, string> = {}): ChildProcess {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const child = spawn("unshare", ["--mount", "sh", asUser, ...variables, ...argv], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  return child;
}

async function outcome(child: ChildProcess): Promise<{ code: number; output: string }> {
  let output = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const [code] = await once(child, "close");
  return { code, output };
}

async function command(name: string, argv: string[]): Promise<void> {
  const { code, output } = await outcome(spawn(name, argv, { stdio: ["ignore", "pipe", "pipe"] }));
  if (code !== 0) throw new Error(output);
}

/** A process of the user with an open driver, always over the same folder. */
function driverScript(code: string): string[] {
  return [
    ...["scripts/rootless", "scripts/node", "--input-type=module", "-e"],
    `import { OciDriver } from "./packages/sandbox/src/drivers/oci/oci-driver.ts";
    import { run, testSpec } from "./packages/sandbox/test/support/oci.ts";
    const driver = new OciDriver({ dir: "${base}/home/sandboxes" });
    await driver.open();
    ${code}`,
  ];
}

/** Runs tests of this project as the user. */
function vitest(...words: string[]) {
  const program = ["node_modules/vitest/vitest.mjs", "run", "--configLoader=runner", "--cache=false"];
  return outcome(start(["scripts/rootless", "scripts/node", ...program, ...words], { NO_COLOR: "1" }));
}

test("an ordinary user's server passes the driver suite", async () => {
  const { code, output } = await vitest("oci-suite", "-t", "over crun");
  expect(code, output).toBe(0);
  expect(output).toMatch(/Tests +(3[5-9]|[4-9]\d) passed/);
});

test("attacks from its sandboxes do not succeed either", async () => {
  const files = ["kernel", "neighbours", "kernel-memory"].map((name) => `isolation/${name}.test`);
  // Without control groups, the buffers of sockets are bounded only when the server looks at them.
  const others = ["-t", "^(?!.*buffers of sockets)"];
  const { code, output } = await vitest("--project=own worker", ...files, ...others);
  expect(code, output).toBe(0);
  expect(output).toMatch(/Tests +10 passed/);
});

test("others keep working while one of its sandboxes starts all processes that it can", async () => {
  const { code, output } = await vitest(
    "--project=own worker",
    "isolation/resources.test",
    "-t",
    "fork bomb",
  );
  expect(code, output).toBe(0);
  expect(output).toMatch(/Tests +2 passed/);
});

test("memory of all processes together counts above the sandbox's limit while the machine has little", async () => {
  const { code, output } = await outcome(
    start(
      driverScript(`const limits = { ...testSpec.limits, memoryBytes: 96 * 2 ** 20 };
    await driver.start({ id: "hog", spec: { ...testSpec, limits } });
    const hold = async (program) => {
      const hog = await driver.exec("hog", { argv: ["python3", "-c", program + "; print(1, flush=True); time.sleep(300)"] });
      await new Promise((resolve) => hog.stdout.once("data", resolve));
      return hog;
    };
    const measure = async (isScarce) =>
      Math.round((await driver.uncountedBytes("hog", { bytes: 2 ** 40, isScarce })) / 2 ** 20);
    console.log(await measure(true));
    await hold("import os, time; os.write(os.memfd_create('x'), bytes(80 << 20))");
    await hold("import mmap, time; x = mmap.mmap(-1, 80 << 20); x.write(bytes(80 << 20))");
    await hold("import time; x = bytearray(60 << 20)");
    console.log(await measure(false), (await measure(true)) > 110);
    await driver.remove("hog");
    await driver.close();`),
    ),
  );
  expect({ code, output }).toEqual({ code: 0, output: "0\n0 true\n" });
});

test("its command line runs the demo in a sandbox, and the user owns the files of the data folder", async () => {
  const { code, output } = await outcome(start(["bin/sandpiper", "demo", "--exit"], { NO_COLOR: "1" }));
  expect(code, output).toBe(0);
  const { uid: owner } = await stat(join(base, "home/.local/share/sandpiper/demo/vault.key"));
  expect(owner).toBe(uid);
});

test("its sandboxes keep running without it, and a later server reaches them", async () => {
  const first = start(
    driverScript(`await driver.start({ id: "left", spec: testSpec });
    await driver.start({ id: "frozen", spec: testSpec });
    await run(driver, "left", "echo kept >file; sleep 300 >/dev/null 2>&1 &");
    await driver.pause("frozen");
    console.log("ready");
    await new Promise(() => setInterval(() => {}, 1000));`),
  );
  let firstOutput = "";
  first.stderr!.on("data", (text) => {
    firstOutput += text;
  });
  await Promise.race([
    once(first.stdout!, "data"),
    once(first, "exit").then(() => Promise.reject(new Error(firstOutput))),
  ]);
  first.kill("SIGKILL");
  await once(first, "close");
  const { code, output } = await outcome(
    start(
      driverScript(`console.log((await driver.list()).map(({ id, state }) => id + " " + state).sort().join());
    console.log((await run(driver, "left", "cat file; pgrep -c sleep")).out.trim());
    await driver.resume("frozen");
    console.log((await run(driver, "frozen", "hostname")).out.trim());
    await driver.listen("left", 3128, (connection) => connection.end("through"));
    console.log((await run(driver, "left", "busybox nc 127.0.0.1 3128 </dev/null")).out);
    for (const { id } of await driver.list()) await driver.remove(id);
    await driver.close();`),
    ),
  );
  expect({ code, output }).toEqual({
    code: 0,
    output: "frozen paused,left running\nkept\n1\nfrozen\nthrough\n",
  });
});

test("images are unpacked with their owners, also when the image's user does not exist on the machine", async () => {
  await command("sh", [
    "-ec",
    `cd ${base}; mkdir -p tree/bin tree/own; cp /usr/bin/busybox tree/bin/busybox; ln -s busybox tree/bin/sh
    echo joe >tree/own/file; chown -R 1234:1234 tree/own; tar -C tree -cf layer.tar .
    umoci init --layout image; umoci new --image image:one; umoci raw add-layer --image image:one layer.tar
    umoci config --image image:one --config.user 1234; chmod -R a+rX image`,
  ]);
  const { code, output } = await outcome(
    start(
      driverScript(`const image = { kind: "image", reference: "oci:${base}/image:one" };
    const spec = await driver.prepare({ ...testSpec, root: image, user: null, workingDir: "/work" });
    await driver.start({ id: "image", spec });
    const command = "id -u; stat -c %u:%g /own /own/file . /bin/busybox; cat /own/file; echo x >/own/file";
    console.log((await run(driver, "image", { argv: ["/bin/busybox", "sh", "-c", command] })).out);
    await driver.remove("image");
    await driver.reap({ sandboxes: new Set(), snapshots: new Set() });
    await driver.close();`),
    ),
  );
  expect({ code, output }).toEqual({ code: 0, output: "1234\n1234:1234\n1234:1234\n1234:0\n0:0\njoe\n\n" });
});

test("doctor lists the rootless requirements, and the missing ones of another user", async () => {
  const well = await outcome(start(["bin/sandpiper", "doctor"], { NO_COLOR: "1" }));
  expect(well.code, well.output).toBe(0);
  expect(well.output).toMatch(/^OK +root +not needed: this user has subordinate ids\n/m);
  expect(well.output).toMatch(/^missing +control groups +not for this user/m);
  expect(well.output).toMatch(/^OK +sandbox +started and ran a command/m);
  await writeFile(join(base, "subids"), "");
  const ill = await outcome(start(["bin/sandpiper", "doctor"], { NO_COLOR: "1" }));
  expect(ill.output).toMatch(
    /→ To run without root: sandpiper-test has no 65536 subordinate ids: run as root {2}usermod/,
  );
  expect(ill.output).not.toMatch(/MISSING +OCI runtime/);
});
