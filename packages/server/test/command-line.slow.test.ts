import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { initial } from "../src/store/sqlite/migrations/001-initial.ts";
import { sandboxLifecycle } from "../src/store/sqlite/migrations/002-sandbox-lifecycle.ts";
import { openVault } from "../src/store/vault.ts";
import { Command } from "./support/command.ts";

// Each test starts several servers and commands, a second of work each where the machine is busy.
const project = fileURLToPath(new URL("../demo/project/", import.meta.url));
const task = "Repair the failing test: sh test.sh";
const model = ["--model", "demo/repair"];
let base = "";
let dir = "";
let env: NodeJS.ProcessEnv = {};
const servers: Command[] = [];

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  dir = join(base, "project");
  env = { SANDPIPER_DATA: join(base, "data"), SANDPIPER_PORT: "0" };
  await cp(project, dir, { recursive: true });
});
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.signal("SIGTERM");
    await server.exit;
  }
  await rm(base, { recursive: true, force: true });
});

/** A server of the test's own, with its address and the key that it made. */
async function serve(): Promise<{ server: Command; url: string; key: string }> {
  const server = new Command(["serve"], env);
  servers.push(server);
  const url = (await server.says(/serves (\S+)\n/))[1]!;
  return { server, url, key: (await server.says(/once\): (\S+)\n/))[1]! };
}

const get = (url: string, key: string) =>
  fetch(`${url}/api/settings`, { headers: { "X-Session-API-Key": key } });
const testPasses = (folder: string) => {
  try {
    execFileSync("sh", ["test.sh"], { cwd: folder, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};
const sandboxes = () => readdir(join(base, "data/sandboxes/sandboxes"));

test("run works on a copy and prints a patch that git accepts; --rm deletes the sandbox", async () => {
  const run = new Command(["run", task, "--dir", dir, "--rm", ...model], env);
  expect(await run.exit, run.stderr).toBe(0);
  expect(testPasses(dir)).toBe(false);
  expect(run.stderr).toMatch(/The run is finished after .*: [\d,]+ tokens, \$0\.0000/);
  execFileSync("git", ["apply"], { cwd: dir, input: run.stdout });
  expect(testPasses(dir)).toBe(true);
  expect(await sandboxes()).toEqual([]);
});

test("run --apply brings the changes back into a git repository and touches nothing else", async () => {
  const commit =
    "git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start";
  execFileSync("sh", ["-c", commit], { cwd: dir });
  const run = new Command(["run", task, "--apply", ...model], env, { cwd: dir });
  expect(await run.exit, run.stderr).toBe(0);
  expect(testPasses(dir)).toBe(true);
  expect(execFileSync("git", ["status", "--porcelain"], { cwd: dir, encoding: "utf8" })).toBe(
    " M lib/duration.sh\n",
  );
});

test("under sudo, copied files belong to the calling user", async () => {
  execFileSync("chown", ["-R", "65534:65534", dir]);
  await chmod(base, 0o755);
  const run = new Command(["run", task, "--dir", dir, "--apply", ...model], {
    ...env,
    SUDO_UID: "65534",
    SUDO_GID: "65534",
  });
  expect(await run.exit, run.stderr).toBe(0);
  expect(testPasses(dir)).toBe(true);
  expect((await stat(join(dir, "lib/duration.sh"))).uid).toBe(65_534);
});

test("run --repo clones with the user's git", async () => {
  execFileSync(
    "sh",
    ["-c", "git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start"],
    {
      cwd: dir,
    },
  );
  const run = new Command(["run", task, "--repo", `file://${dir}`, ...model], env);
  expect(await run.exit, run.stderr).toBe(0);
  expect(run.stdout).toMatch(/^diff --git a\/lib\/duration\.sh/m);
  expect(testPasses(dir)).toBe(false);
});

test("Ctrl-C stops the agent, shows its changes so far and ends with 130", async () => {
  await writeFile(
    join(dir, "test.sh"),
    '[ -e partial.txt ] && sleep 600\necho half > partial.txt\n. lib/duration.sh\n[ "$(to_seconds 2m)" = 120 ]\n',
  );
  const run = new Command(["run", task, "--dir", dir, "--rm", ...model], env);
  await run.says(/\$ sh test\.sh.*exit 1.*\$ sh test\.sh/s);
  run.ctrlC();
  expect(await run.exit, run.stderr).toBe(130);
  expect(run.stdout).toMatch(/^\+half$/m);
  expect(run.stderr).toMatch(/stopped +by the user/);
  expect(run.stderr).toMatch(/Interrupting the agent/);
  expect(run.stderr).toMatch(/The run is paused/);
  expect(await sandboxes()).toEqual([]);
});

test("Ctrl-C twice ends at once; the sandbox that stays is found by the next server", async () => {
  await writeFile(join(dir, "test.sh"), "sleep 600\n");
  const run = new Command(["run", task, "--dir", dir, ...model], env);
  await run.says(/\$ sh test\.sh/);
  run.signal("SIGINT");
  run.signal("SIGTERM");
  // The kernel chooses the order in which a process gets two waiting signals.
  expect([130, 143]).toContain(await run.exit);
  expect(await sandboxes()).toHaveLength(1);
  const server = new Command(["serve"], { ...env, SANDPIPER_API_KEY: "a-key-for-this-test" });
  servers.push(server);
  const url = (await server.says(/serves (\S+)\n/))[1]!;
  const call = async (method: string, path: string) =>
    fetch(`${url}/api/v1/sandboxes${path}`, {
      method,
      headers: { "X-Session-API-Key": "a-key-for-this-test" },
    });
  const [{ id }] = ((await (await call("GET", "/search")).json()) as any).items;
  expect((await call("DELETE", `/${id}?sandbox_id=${id}`)).status).toBe(200);
});

test("run reports an error in one sentence: no model, no folder, no task, two sources", async () => {
  const cases: [string[], RegExp, number][] = [
    [
      ["run", task, "--dir", dir],
      /^sandpiper: No model is configured: set .* with sandpiper settings set, .*--model/m,
      2,
    ],
    [["run", task, "--dir", join(base, "nowhere")], /^sandpiper: .*nowhere is not a folder\.$/m, 2],
    [["run", " ", "--dir", dir], /^sandpiper: The task is empty/m, 2],
    [["run", task, "--dir", dir, "--repo", "x"], /^sandpiper: Give --dir or --repo, not both\.$/m, 2],
    [
      ["run", task, "--repo", join(base, "no-repository"), ...model],
      /^sandpiper: \S+no-repository was not cloned: git says why above\.$/m,
      1,
    ],
  ];
  const runs = cases.map(
    ([args], index) => new Command(args, { ...env, SANDPIPER_DATA: join(base, `data-${index}`) }),
  );
  for (const [index, [, sentence, code]] of cases.entries()) {
    const run = runs[index]!;
    expect(await run.exit, run.stderr).toBe(code);
    expect(run.stderr).toMatch(sentence);
    expect(run.stderr).not.toMatch(/\n {4}at /);
  }
});

test("serve prints its key only at the first start, run works with that server, and a second server is refused", async () => {
  const { server, url, key } = await serve();
  expect((await get(url, key)).status).toBe(200);

  const found = new Command(["run", task, "--dir", dir, ...model], env);
  const remote = new Command(["run", task, "--dir", dir, ...model], {
    SANDPIPER_URL: `${url}/`,
    SANDPIPER_API_KEY: key,
  });
  const wrongKey = new Command(["run", task, "--dir", dir], {
    SANDPIPER_URL: url,
    SANDPIPER_API_KEY: "wrong",
  });
  expect(await found.exit, found.stderr).toBe(0);
  expect(found.stdout).toMatch(/^diff --git/m);

  expect(await remote.exit, remote.stderr).toBe(0);
  expect(remote.stdout).toMatch(/^diff --git/m);

  expect(await wrongKey.exit).toBe(1);
  expect(wrongKey.stderr).toMatch(/does not accept the API key/);

  server.signal("SIGTERM");
  expect(await server.exit).toBe(0);
  const unreachable = new Command(["run", task, "--dir", dir], {
    SANDPIPER_URL: url,
    SANDPIPER_API_KEY: key,
  });
  expect(await unreachable.exit).toBe(1);
  expect(unreachable.stderr).toMatch(/could not be reached: nothing listens there/);

  const again = new Command(["serve"], env);
  servers.push(again);
  const address = (await again.says(/serves (\S+)\n/))[1]!;
  await again.says(/Data folder/);
  expect(again.stdout).not.toMatch(/API key/);
  expect((await get(address, key)).status).toBe(200);
});

test("a port in use and a data folder that is a file end the start with one sentence", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as { port: number };
  const busy = new Command(["serve"], { ...env, SANDPIPER_PORT: String(port) });
  expect(await busy.exit).toBe(2);
  expect(busy.stderr).toMatch(new RegExp(`^sandpiper: .*${port}.* in use.*SANDPIPER_PORT\\.$`, "m"));
  other.close();
  // The key of the first start that succeeds is shown.
  const free = new Command(["serve"], env);
  servers.push(free);
  await free.says(/API key \(shown only this once\): sp_/);

  await writeFile(join(base, "file"), "");
  const file = new Command(["serve"], { ...env, SANDPIPER_DATA: join(base, "file") });
  expect(await file.exit).not.toBe(0);
  expect(file.stderr).toMatch(/^sandpiper: .*file.*\n$/);
});

test("keys are made, listed and revoked while the server is down, and new ones work while it runs", async () => {
  const keys = async (...args: string[]) => {
    const command = new Command(["keys", ...args], env);
    return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
  };
  const early = await keys("create", "--name", "early bird");
  expect(early.code, early.stderr).toBe(0);
  expect(early.stdout).toMatch(/^sp_\S+\n$/);
  expect((await keys("create", "--name", "early bird")).stderr).toMatch(
    /There is a key with the name "early bird"/,
  );

  const server = new Command(["serve"], env);
  servers.push(server);
  const url = (await server.says(/serves (\S+)\n/))[1]!;
  expect((await get(url, early.stdout.trim())).status).toBe(200);

  const late = await keys("create", "-n", "late");
  expect((await get(url, late.stdout.trim())).status).toBe(200);
  expect((await keys()).stdout).toMatch(
    /^ID .*NAME\n.* default .* full +early bird\n.* command line, process \d+, place \w+\n.* late\n$/,
  );
  expect((await keys("revoke", "late")).stdout).toMatch(/^Revoked "late"\./);
  expect((await keys("revoke", "late")).code).toBe(1);
  expect((await keys("list")).stdout).not.toMatch(/late/);

  const stored = await readFile(join(base, "data/store/sandpiper.db"), "latin1");
  expect(stored).not.toContain(early.stdout.trim());
});

test("the key of the vault comes from a variable or a command, and a wrong one is named by its source", async () => {
  const key = randomBytes(32).toString("base64");
  const sandpiper = async (args: string[], variables: Record<string, string>) => {
    const command = new Command(args, { ...env, ...variables });
    return { code: await command.exit, output: command.stdout + command.stderr };
  };
  const create = (variables: Record<string, string>) => sandpiper(["keys", "create"], variables);
  expect((await create({ SANDPIPER_VAULT_KEY: key })).code).toBe(0);
  expect(existsSync(join(base, "data/vault.key"))).toBe(false);
  const file = join(base, "kms key");
  await writeFile(file, key);
  const argv = JSON.stringify(["cat", file]);
  const doctor = await sandpiper(["doctor"], { SANDPIPER_VAULT_KEY_COMMAND: argv });
  expect(doctor.output).toMatch(/^OK +vault key +the key that cat prints .* opens the data folder$/m);

  const wrong = randomBytes(32).toString("hex");
  const started = await sandpiper(["serve"], { SANDPIPER_VAULT_KEY: wrong });
  expect(started.code).toBe(2);
  expect(started.output).toContain("the key of SANDPIPER_VAULT_KEY belongs to other data");
  const missing = await sandpiper(["doctor"], {});
  expect(missing.output).toMatch(/^MISSING +vault key .*\n +→ .*vault\.key is missing/m);
  const both = await create({ SANDPIPER_VAULT_KEY: key, SANDPIPER_VAULT_KEY_FILE: file });
  expect([both.code, both.output]).toEqual([2, expect.stringMatching(/are both set: keep only the one/)]);
  for (const { output } of [doctor, started, missing, both])
    for (const secret of [key, wrong]) expect(output).not.toContain(secret);
});

test("keys of a data folder that an older version wrote can be listed and made before the server's first start", async () => {
  const keys = async (...args: string[]) => {
    const command = new Command(["keys", ...args], env);
    return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
  };
  await openVault(join(base, "data/vault.key"), { create: true });
  await mkdir(join(base, "data/store"));
  const old = new DatabaseSync(join(base, "data/store/sandpiper.db"));
  old.exec(`${initial} ${sandboxLifecycle} PRAGMA user_version = 2;
    INSERT INTO api_keys (id, name, hash, user_id, created_at) VALUES ('4b2a', 'first', x'00', 'default', 0)`);
  old.close();
  expect(await keys()).toMatchObject({ code: 0, stdout: expect.stringMatching(/default .* first\n$/) });
  expect((await keys("create", "--user", "ann")).code).toBe(0);
});

test("keys belong to users, expire and may be read-only; wrong options are explained", async () => {
  const keys = async (...args: string[]) => {
    const command = new Command(["keys", ...args], env);
    return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
  };
  const ann = await keys("create", "--user", "ann", "--name", "laptop", "--expires", "30d", "--read-only");
  expect(ann.code, ann.stderr).toBe(0);
  expect(ann.stderr).toMatch(/^The key "laptop" of ann, /);
  expect((await keys("create", "-u", "bob", "-n", "laptop")).code).toBe(0);
  expect((await keys("create", "-u", "bob")).stderr).toMatch(/"key 1" of bob/);
  expect((await keys("list", "--user", "ann")).stdout).toMatch(
    /\n\S+ +ann +\S+Z +\S+Z +never +read-only +laptop\n$/,
  );
  expect((await keys("list")).stdout.split("\n")).toHaveLength(5);

  const both = await keys("revoke", "laptop");
  expect([both.code, both.stderr]).toEqual([
    1,
    expect.stringMatching(/The users ann, bob have a key "laptop" each: .*--user/),
  ]);
  expect((await keys("revoke", "laptop", "--user", "bob")).code).toBe(0);

  const server = new Command(["serve"], env);
  servers.push(server);
  const url = (await server.says(/serves (\S+)\n/))[1]!;
  const call = (method: string) =>
    fetch(`${url}/api/keys`, { method, headers: { authorization: `Bearer ${ann.stdout.trim()}` } });
  expect((await call("GET")).status).toBe(200);
  expect((await call("POST")).status).toBe(403);
  expect((await keys("revoke", "laptop")).code).toBe(0);
  await expect.poll(async () => (await call("GET")).status).toBe(401);

  const refused = [
    [["--user", "Ann Smith"], /The name of a user must have 1 to 64 lower-case letters/],
    [["--expires", "2020-01-01"], /--expires takes a number of days such as 30d/],
    [["--expires", "soon"], /--expires takes a number of days such as 30d/],
    [["--name", " "], /The name of a key must have 1 to 100 characters/],
  ] as const;
  const wrongs = await Promise.all(refused.map(([args]) => keys("create", ...args)));
  for (const [index, wrong] of wrongs.entries()) {
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toMatch(refused[index]![1]);
  }
});

test("doctor lists the requirements that are met, and fails with advice when an essential one is missing", async () => {
  await mkdir(join(base, "data"));
  const well = new Command(["doctor", "--json"], env);
  const ill = new Command(["doctor"], { ...env, SANDPIPER_RUNTIME: "no-such-runtime" });
  expect(await well.exit, well.stdout).toBe(0);
  const report = JSON.parse(well.stdout);
  expect(report.ok).toBe(true);
  expect(report.findings.find(({ name }: any) => name === "sandbox").found).toMatch(
    /started and ran a command/,
  );

  expect(await ill.exit).toBe(1);
  expect(ill.stdout).toMatch(/^MISSING +OCI runtime .*\n +→ .*apt-get install crun/m);
  expect(ill.stdout).toMatch(/cannot run Sandpiper/);
});

test("doctor does not miss a port that the server of the data folder uses", async () => {
  const { url } = await serve();
  const doctor = new Command(["doctor"], { ...env, SANDPIPER_PORT: new URL(url).port });
  expect(await doctor.exit).toBe(0);
  expect(doctor.stdout).toMatch(/^OK +port +127\.0\.0\.1:\d+ is used by the server of the data folder$/m);
});
