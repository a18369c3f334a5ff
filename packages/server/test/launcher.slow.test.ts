import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));
let base = "";
let clone = "";

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper launcher "));
  await chmod(base, 0o777);
  clone = join(base, "a clone");
  for (const path of ["bin", "scripts", "docs", "packages", "package.json", "package-lock.json"])
    await cp(join(root, path), join(clone, path), {
      recursive: true,
      filter: (source) => !source.includes("node_modules"),
    });
  for (const folder of ["node_modules", "packages/server/node_modules"])
    if (existsSync(join(root, folder))) await symlink(join(root, folder), join(clone, folder));
});
afterAll(() => rm(base, { recursive: true, force: true }));

interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

function call(
  command: string,
  args: string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<Outcome> {
  const { env, ...rest } = options;
  return new Promise((resolve) => {
    execFile(
      command,
      args,
      { timeout: 150_000, ...rest, env: { ...process.env, ...env } },
      (error, stdout, stderr) =>
        resolve({ code: error ? ((error as { code?: number }).code ?? 1) : 0, stdout, stderr }),
    );
  });
}

/** Runs the launcher as a user that may read everything: this checkout may be closed to others. */
function callAsNobody(args: string[], env: NodeJS.ProcessEnv): Promise<Outcome> {
  const user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
  const reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"];
  const launcher = join(clone, "bin/sandpiper");
  return call("/usr/bin/setpriv", [...user, ...reading, launcher, ...args], { env, cwd: "/" });
}

async function ok(command: string, args: string[]): Promise<void> {
  const { code, stderr } = await call(command, args);
  if (code !== 0) throw new Error(stderr);
}

/** A folder with a program that replaces another one. */
async function fake(name: string, script: string): Promise<string> {
  const folder = await mkdtemp(join(base, "path-"));
  await chmod(folder, 0o755);
  await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return folder;
}

test("the launcher works from any folder, through a link, and in a clone whose path contains a space", async () => {
  const link = join(base, "link");
  await symlink(join(clone, "bin/sandpiper"), link);
  for (const launcher of [join(clone, "bin/sandpiper"), link]) {
    const { code, stdout } = await call(launcher, ["--version"], { cwd: "/" });
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(code).toBe(0);
  }
});

test("a changed source is bundled again, and stacks name the sources", async () => {
  const source = join(clone, "packages/server/src/cli/load-config.ts");
  const bundled = async () => (await call(join(clone, "scripts/server-main"), [])).stdout.trim();
  const env = { SANDPIPER_PORT: "http", SANDPIPER_DEBUG: "1", SANDPIPER_DATA: join(base, "data") };
  const stack = async () => (await call(join(clone, "bin/sandpiper"), ["serve"], { env })).stderr;
  const first = await realpath(await bundled());
  expect(first).toContain(join(clone, ".cache/bundle/"));
  expect(await realpath(await bundled())).toBe(first);
  const text = await readFile(source, "utf8");
  const line = text.slice(0, text.indexOf("throw new CliError(")).split("\n").length;
  expect(await stack()).toContain(`(${source}:${line}:`);
  await writeFile(source, `\n\n${text}`);
  expect(await stack()).toContain(`(${source}:${line + 2}:`);
  expect(await realpath(await bundled())).not.toBe(first);
});

test("the sources are started when no bundle can be made", async () => {
  const bundler = join(clone, "scripts/bundle.ts");
  await writeFile(bundler, `throw new Error("no bundle");`);
  const { code, stdout, stderr } = await call(join(clone, "bin/sandpiper"), ["--version"]);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+\n$/)]);
  expect(stderr).toContain("no bundle");
  await cp(join(root, "scripts/bundle.ts"), bundler);
});

test("an installation does not delete dependencies behind a link", async () => {
  const [linked, modules] = [await mkdtemp(join(base, "linked-")), await mkdtemp(join(base, "modules-"))];
  await cp(join(root, "scripts"), join(linked, "scripts"), { recursive: true });
  await writeFile(join(linked, "package-lock.json"), "{}");
  await writeFile(join(modules, "kept"), "");
  await symlink(modules, join(linked, "node_modules"));
  const { code, stderr } = await call("sh", [join(linked, "scripts/setup.sh")]);
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^setup: node_modules is a link/)]);
  expect(existsSync(join(modules, "kept"))).toBe(true);
});

test("npx finds the launcher from a subfolder of the clone", async () => {
  const { stdout } = await call("npx", ["--no", "--", "sandpiper", "--version"], {
    cwd: join(clone, "docs"),
  });
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test("wrong use ends with code 2 and one hint, help with code 0", async () => {
  const launcher = join(clone, "bin/sandpiper");
  const env = { SANDPIPER_DATA: join(base, "data") };
  const wrong = [["serv"], ["serve", "--fast"], ["run"], ["keys", "revoke"]].map((args) =>
    call(launcher, args, { env }),
  );
  for (const { code, stderr } of await Promise.all(wrong)) {
    expect(stderr).toMatch(/^error: /);
    expect(code).toBe(2);
  }
  const helped = [["--help"], ["serve", "--help"], ["run", "--help"], ["help", "demo"]].map((args) =>
    call(launcher, args),
  );
  for (const { code, stdout } of await Promise.all(helped)) {
    expect(stdout).toMatch(/^Usage: sandpiper/);
    expect(code).toBe(0);
  }
});

test("a wrong configuration ends the start with one sentence and code 2, without a stack", async () => {
  const env = { SANDPIPER_PORT: "http", SANDPIPER_DATA: join(base, "data"), SANDPIPER_PROT: "1" };
  const { code, stderr } = await call(join(clone, "bin/sandpiper"), ["serve"], { env });
  expect(stderr.trim().split("\n")).toEqual([
    "sandpiper: The variable SANDPIPER_PROT is unknown and has no effect; did you mean SANDPIPER_PORT?",
    'sandpiper: SANDPIPER_PORT must be a whole number from 0 to 65535, not "http".',
  ]);
  expect(code).toBe(2);
});

test("another user than root gets root by sudo, with keys in the environment and not in the arguments", async () => {
  const path = await fake(
    "sudo",
    `printf '%s\\n' "$@" > "${base}/sudo-arguments"; env > "${base}/sudo-environment"`,
  );
  const secret = "sk-not-to-be-seen-in-arguments";
  const env = {
    PATH: `${path}:${process.env.PATH}`,
    OPENAI_API_KEY: secret,
    TEAM_GITHUB_TOKEN: secret,
    SANDPIPER_API_KEY: secret,
    HOME: base,
    SANDPIPER_DATA: "",
  };
  const { code, stderr } = await callAsNobody(["serve"], env);
  expect(stderr).toBe("");
  expect(code).toBe(0);
  const args = await readFile(join(base, "sudo-arguments"), "utf8");
  expect(args).not.toContain(secret);
  const preserved = /--preserve-env=(\S+)/.exec(args)![1]!.split(",");
  expect(preserved).toEqual(
    expect.arrayContaining(["OPENAI_API_KEY", "TEAM_GITHUB_TOKEN", "SANDPIPER_API_KEY", "SANDPIPER_DATA"]),
  );
  const seen = await readFile(join(base, "sudo-environment"), "utf8");
  expect(seen).toContain(`OPENAI_API_KEY=${secret}`);
  expect(seen).toContain(`SANDPIPER_DATA=${base}/.local/share/sandpiper`);
});

test("without sudo the launcher reports that root is needed; with a server elsewhere it needs no root", async () => {
  const path = join(base, "few");
  await mkdir(path, { mode: 0o755 });
  for (const name of ["sh", "id", "awk", "cmp", "dirname", "readlink", "uname", "mkdir"])
    await symlink(`/usr/bin/${name}`, join(path, name));
  const env = { PATH: path, HOME: base, SANDPIPER_DATA: join(base, "data") };
  const refused = await callAsNobody(["serve"], env);
  expect(refused.stderr).toMatch(/needs root: run the command as root, or install sudo/);
  expect(refused.code).toBe(1);
  const remote = { ...env, SANDPIPER_URL: "http://127.0.0.1:9", SANDPIPER_API_KEY: "" };
  const run = await callAsNobody(["run", "x", "--dir", "/usr/share/containers"], remote);
  expect(run.stderr).toMatch(/SANDPIPER_API_KEY is not set/);
  expect(run.code).toBe(2);
});

test("the set-up is silent when there is nothing to do", async () => {
  const begin = performance.now();
  const { code, stdout, stderr } = await call("sh", [join(clone, "scripts/setup.sh")]);
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(performance.now() - begin).toBeLessThan(30_000);
});

/** A clone in which the dependencies are not installed. */
async function bareClone(name: string): Promise<string> {
  const folder = join(base, name);
  await mkdir(join(folder, "scripts"), { recursive: true });
  for (const path of ["package-lock.json", "scripts/setup.sh", "scripts/node"])
    await ok("cp", [join(root, path), join(folder, path)]);
  return folder;
}

test("the set-up reports the cause when npm is missing, npm fails, or no new enough Node arrives", async () => {
  const folder = await bareClone("no npm");
  const few = join(base, "few");
  const setup = (path: string) =>
    call("sh", [join(folder, "scripts/setup.sh")], {
      env: { PATH: path, SANDPIPER_SKIP_SYSTEM_PACKAGES: "1" },
    });
  const missing = await setup(few);
  expect(missing.stderr).toMatch(/npm is missing: install Node\.js 20 or newer/);
  expect(missing.code).toBe(1);

  const failing = await setup(`${await fake("npm", "exit 7")}:${process.env.PATH}`);
  expect(failing.stderr).toMatch(/npm ci failed/);
  expect(failing.code).toBe(1);

  const npm = await fake("npm", "mkdir -p node_modules");
  const old = await fake("node", "echo 20.1.0");
  const tooOld = await setup(`${npm}:${old}:${process.env.PATH}`);
  expect(tooOld.stderr).toMatch(/no Node\.js 24 or newer.*the system's Node is 20\.1\.0/);
  expect(tooOld.code).toBe(1);

  const unlinked = await fake(
    "node",
    'echo "node: libatomic.so.1: cannot open shared object file" >&2; exit 127',
  );
  const noLibrary = await setup(`${npm}:${unlinked}:${process.env.PATH}`);
  expect(noLibrary.stderr).toMatch(/install libatomic1/);
  expect(noLibrary.code).toBe(1);

  const recent = await fake("node", "echo 26.1.0");
  expect(await setup(`${npm}:${recent}:${process.env.PATH}`)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Node.js 26.1.0 is ready"),
  });
  expect(await setup(few)).toEqual({ code: 0, stdout: "", stderr: "" });
});

test("a changed lock file causes an installation, and a failed installation is retried the next time", async () => {
  const folder = await bareClone("changed lock");
  const npm = await fake(
    "npm",
    `echo run >> "${base}/npm-runs"; mkdir -p node_modules; exit \${NPM_EXIT:-0}`,
  );
  const node = await fake("node", "echo 26.1.0");
  const env = { PATH: `${npm}:${node}:${process.env.PATH}`, SANDPIPER_SKIP_SYSTEM_PACKAGES: "1" };
  const setup = (more = {}) => call("sh", [join(folder, "scripts/setup.sh")], { env: { ...env, ...more } });
  const runs = async () => (await readFile(join(base, "npm-runs"), "utf8")).split("\n").length - 1;
  await setup();
  await setup();
  expect(await runs()).toBe(1);
  await writeFile(join(folder, "package-lock.json"), "{}");
  expect((await setup({ NPM_EXIT: "1" })).code).toBe(1);
  expect((await setup()).code).toBe(0);
  expect(await runs()).toBe(3);
});

test("the set-up installs missing packages with apt-get and refreshes the package lists first if needed", async () => {
  const folder = await bareClone("packages");
  const few = join(base, "few");
  await mkdir(join(folder, "node_modules"));
  await ok("cp", [join(folder, "package-lock.json"), join(folder, "node_modules/.sandpiper-lock")]);
  for (const name of ["env", "tr"]) await symlink(`/usr/bin/${name}`, join(few, name));
  const log = join(base, "apt-log");
  await writeFile(log, "", { mode: 0o666 });
  await chmod(log, 0o666);
  const apt = await fake(
    "apt-get",
    `echo "$DEBIAN_FRONTEND $*" >> "${log}"; case "$*" in *update*) touch "${base}/updated" ;; *) [ -e "${base}/updated" ] ;; esac`,
  );
  await writeFile(join(apt, "apt-cache"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
  await writeFile(join(apt, "touch"), '#!/bin/sh\n: > "$1"\n', { mode: 0o755 });
  const script = (await readFile(join(folder, "scripts/setup.sh"), "utf8"))
    .replaceAll("/usr/sbin/", "/nowhere/")
    .replaceAll("/sbin/", "/nowhere/");
  await writeFile(
    join(folder, "scripts/setup.sh"),
    script.replace("/usr/share/containers/seccomp.json ]", "/nowhere/seccomp.json ]"),
  );
  const { code, stderr } = await call("sh", [join(folder, "scripts/setup.sh")], {
    env: { PATH: `${apt}:${few}` },
  });
  const calls = (await readFile(log, "utf8")).trim().split("\n");
  expect(calls[0]).toMatch(
    /^noninteractive .*DPkg::Lock::Timeout=.*install --no-install-recommends crun catatonit golang-github-containers-common$/,
  );
  expect(calls[1]).toMatch(/update$/);
  expect(calls[2]).toBe(calls[0]);
  expect(stderr).toMatch(/installed: crun catatonit golang-github-containers-common/);
  expect(code).toBe(0);

  await call("sh", [join(folder, "scripts/setup.sh"), "tests"], { env: { PATH: `${apt}:${few}` } });
  expect((await readFile(log, "utf8")).trim()).toMatch(
    / golang-github-containers-common python3 procps curl jq git sudo iproute2 uidmap docker\.io docker-registry chromium$/m,
  );
});

test("the set-up installs the library that the bundled Node is linked with, where it is missing", async () => {
  const folder = await bareClone("library");
  const library = join(base, "library-is-there");
  const few = join(base, "few");
  const npm = await fake("npm", "/usr/bin/mkdir -p node_modules");
  const node = await fake(
    "node",
    `[ -e "${library}" ] && echo 26.1.0 || { echo "node: libatomic.so.1: not found" >&2; exit 127; }`,
  );
  const apt = await fake("apt-get", `case "$*" in *" libatomic1"*) : > "${library}" ;; *) exit 1 ;; esac`);
  const path = [npm, node, apt, few, process.env.PATH].join(":");
  const { code, stderr } = await call("sh", [join(folder, "scripts/setup.sh")], { env: { PATH: path } });
  expect(stderr).toMatch(/installed: libatomic1.*Node\.js 26\.1\.0 is ready/s);
  expect(code).toBe(0);
});
