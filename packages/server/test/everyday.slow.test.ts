import { execFileSync, spawnSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createProgram } from "../src/cli/program/program.ts";
import { Command } from "./support/command.ts";
import { LocalTerminal } from "./support/local-terminal.ts";
import { obey } from "./support/script.ts";

/** The commands of every day, with one server that they find by themselves. */

const root = fileURLToPath(new URL("../../../", import.meta.url));
const project = join(root, "packages/server/demo/project");
let base = "";
let dir = "";
let env: NodeJS.ProcessEnv = {};
let server: Command;
let models: ModelServer;

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-everyday-"));
  dir = join(base, "project");
  env = {
    SANDPIPER_DATA: join(base, "data"),
    SANDPIPER_PORT: "0",
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
  };
  await cp(project, dir, { recursive: true });
  models = await startModelServer(obey);
  server = new Command(["serve"], env);
  await server.says(/Data folder/);
});
afterAll(async () => {
  server.signal("SIGTERM");
  await server.exit;
  await models.close();
  // fish writes completions in the background.
  await rm(base, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
});

async function cli(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = new Command(args, env);
  return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
}

async function run(task: string, ...args: string[]) {
  return cli("run", task, "--dir", dir, ...args);
}

test("ls, show, logs, stop and rm work on a conversation that run started", async () => {
  const { code, stderr } = await run("Repair the failing test: sh test.sh", "--model", "demo/repair");
  expect(code, stderr).toBe(0);
  const id = /conversation ([0-9a-f]{32})/.exec(stderr)![1]!;
  const short = id.slice(0, 8);

  const ls = await cli("ls");
  expect(ls.stdout).toMatch(/^ID +STATUS +LAST CHANGE +COST +TITLE\n/);
  expect(ls.stdout).toMatch(new RegExp(`^${short} +\\w+ +\\d{4}-.* \\$0\\.0000 +Repair`, "m"));
  const [line] = (await cli("ls", "--json", "-n", "1")).stdout.split("\n");
  expect(JSON.parse(line!).id).toBe(id);

  const show = await cli("show", short);
  expect(show.stdout).toMatch(new RegExp(`^id +${id}\ntitle +Repair.*\nstatus `));
  expect(JSON.parse((await cli("show", id, "--json")).stdout)).toMatchObject({
    id,
    llm_model: "demo/repair",
  });

  const logs = await cli("logs", short);
  expect(logs.stdout).toMatch(/\$ sh test\.sh/);
  const kinds = (await cli("logs", "-f", "--json", short)).stdout
    .trim()
    .split("\n")
    .map((one) => JSON.parse(one).kind);
  expect(kinds).toEqual(expect.arrayContaining(["MessageEvent", "ActionEvent", "ObservationEvent"]));

  expect((await cli("stop", short)).stdout).toMatch(new RegExp(`^${short} is paused\\.\n$`));
  expect((await cli("rm", short)).stdout).toMatch(new RegExp(`^Deleted ${short} Repair`));
  expect((await cli("ls")).stdout).not.toContain(short);
  expect(await cli("show", short)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/There is no conversation [0-9a-f]{8}: "sandpiper ls" lists the ids\./),
  });
  expect((await cli("rm", "../../x")).stderr).toMatch(/is no id of a conversation/);
});

test("secrets are stored, listed without their values and deleted; --plain is kept until --no-plain", async () => {
  expect((await cli("secrets")).stdout).toBe("You have no secrets yet.\n");
  const set = (...args: string[]) => cli("secrets", "set", "DB_PASSWORD", ...args);
  expect(await set("a-long-password", "--plain")).toMatchObject({ code: 0, stdout: "", stderr: "" });
  const plain = async () => JSON.parse((await cli("secrets", "ls", "--json")).stdout);
  expect(await plain()).toMatchObject({ name: "DB_PASSWORD", plain: true, hosts: null });
  await set("another-password", "--host", "db.example.com", "*.example.org", "--description", "of tests");
  expect(await plain()).toMatchObject({ plain: true, hosts: ["db.example.com", "*.example.org"] });
  expect((await cli("secrets", "ls")).stdout).toMatch(
    /^NAME .*\nDB_PASSWORD +value +db\.example\.com, \*\.example\.org +of tests\n$/,
  );
  await set("another-password", "--no-plain");
  expect((await cli("secrets", "ls")).stdout).toMatch(/DB_PASSWORD +placeholder /);
  const refused = await cli("secrets", "set", "PATH", "a-long-password");
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('The secret "PATH" is refused') });
  expect(refused.stderr).not.toContain("a-long-password");
  expect((await cli("secrets", "rm", "DB_PASSWORD")).code).toBe(0);
  expect(await cli("secrets", "rm", "DB_PASSWORD")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('There is no secret "DB_PASSWORD"'),
  });
});

test("settings are read and changed by name; a secret is read from standard input and never shown", async () => {
  expect(await cli("settings", "set", "llm_model", "openai/scripted")).toMatchObject({ code: 0, stderr: "" });
  expect((await cli("settings", "get", "llm_model")).stdout).toBe("openai/scripted\n");
  expect((await cli("settings", "set", "max_iterations", "77")).code).toBe(0);
  expect((await cli("settings")).stdout).toMatch(/^llm_model=openai\/scripted$/m);
  expect(JSON.parse((await cli("settings", "get", "--json")).stdout)).toMatchObject({ max_iterations: 77 });

  const key = execFileSync(
    "sh",
    [
      "-c",
      'printf "sk-everyday-key\\n" | "$0" settings set llm_api_key',
      join(fileURLToPath(new URL("../../../", import.meta.url)), "bin/sandpiper"),
    ],
    { env: { ...process.env, ...env }, encoding: "utf8" },
  );
  expect(key).toBe("");
  expect((await cli("settings", "get", "llm_api_key_set")).stdout).toBe("true\n");
  expect((await cli("settings")).stdout).not.toContain("sk-everyday");

  expect(await cli("settings", "set", "max_iteration", "3")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/There is no setting "max_iteration"\. Did you mean max_iterations\?/),
  });
  expect((await cli("settings", "set", "lmm_modle", "x")).stderr).toMatch(/Did you mean llm_model\?/);
  expect(await cli("settings", "set", "max_iterations", "many")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/max_iterations takes a whole number, not "many"\./),
  });
  for (const [name, value, sentence] of [
    [
      "max_iterations",
      "3.5",
      /^sandpiper: The setting max_iterations is refused: Input should be a valid integer\.$/m,
    ],
    [
      "llm_base_url",
      "nowhere",
      /^sandpiper: The setting llm_base_url is refused: llm_base_url is not a valid address/m,
    ],
    ["confirmation_mode", "maybe", /^sandpiper: confirmation_mode takes true or false, not "maybe"\.$/m],
  ] as const)
    expect(await cli("settings", "set", name, value)).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(sentence),
    });
});

test("wrong ids, files and words get one sentence that says what is meant", async () => {
  const unknown = "f".repeat(32);
  for (const [args, code, sentence] of [
    [["show", unknown], 1, /^sandpiper: There is no conversation f{32}: "sandpiper ls" lists the ids\.\n$/],
    [["export", "ffff"], 1, /^sandpiper: There is no conversation ffff: "sandpiper ls" lists the ids\.\n$/],
    [["export", "ffff", "-o", base], 2, /^sandpiper: \S+ is a folder: name a file with --output\.\n$/],
    [["replay", base], 2, /^sandpiper: \S+ cannot be read: it is a folder\.\n$/],
    [["replay", `${base}/none`], 2, /cannot be read: it, or a folder of its path, does not exist\.\n$/],
    [["keys", "crate"], 2, /^error: unknown command 'crate': keys has list, create, revoke\n/],
  ] as const)
    expect(await cli(...args), args.join(" ")).toMatchObject({
      code,
      stderr: expect.stringMatching(sentence),
    });
});

test("bash, zsh and fish complete commands, options, settings, files and ids where they are installed", async () => {
  const { stderr } = await run("Repair the failing test: sh test.sh", "--model", "demo/repair");
  const id = /conversation ([0-9a-f]{8})/.exec(stderr)![1]!;
  const home = join(base, "home");
  const folders = { zsh: join(home, ".zfunc"), fish: join(home, ".config/fish/completions") };
  for (const folder of Object.values(folders)) await mkdir(folder, { recursive: true });
  await writeFile(join(folders.zsh, "_sandpiper"), (await cli("completion", "zsh")).stdout);
  await writeFile(join(folders.fish, "sandpiper.fish"), (await cli("completion", "fish")).stdout);
  await writeFile(join(home, "bash"), (await cli("completion", "bash")).stdout);
  await writeFile(join(home, "long file.txt"), "");
  const shells = {
    bash: "bash --norc -i",
    zsh: "zsh -f -i",
    fish: "fish --private",
  };
  const begin = {
    bash: ". ./bash",
    zsh: "fpath=(~/.zfunc $fpath); autoload -U compinit; compinit -u -D",
    fish: "function fish_prompt; end",
  };
  for (const shell of ["bash", "zsh", "fish"] as const) {
    const local = new LocalTerminal(`cd "${home}" && exec ${shells[shell]}`, {
      ...{
        PATH: `${join(root, "bin")}:${process.env.PATH}`,
        HOME: home,
        TERM: "xterm",
      },
      SANDPIPER_DATA: env.SANDPIPER_DATA!,
    });
    local.answersQueries();
    local.pty.write(`${begin[shell]}; echo rea''dy\r`);
    await local.shows(/ready/);
    for (const [typed, completed] of [
      ["sandpiper log", /sandpiper logs\b/],
      ["sandpiper settings g", /sandpiper settings get/],
      ["sandpiper settings set llm_mod", /set llm_model/],
      ["sandpiper logs --fol", /logs --follow/],
      [`sandpiper show ${id.slice(0, 4)}`, new RegExp(`show ${id}`)],
      ["sandpiper completion zs", /completion zsh/],
      ["sandpiper run x --dir long", /dir (?:'|")?long\\? file\.txt/],
    ] as const) {
      local.shown = "";
      local.pty.write(`${typed}\t`);
      await local.shows(completed);
      local.pty.write("\x15");
    }
    local.kill("SIGKILL");
  }
  expect((await cli("completion", "tcsh")).code).toBe(2);
  const none = new Command(["completion", "ids"], { ...env, SANDPIPER_DATA: join(base, "nothing") });
  expect([await none.exit, none.stdout]).toEqual([0, ""]);
  expect(await readdir(base)).not.toContain("nothing");
});

test("help loads no network code of Node, which takes longer than all of ours", () => {
  const main = execFileSync(join(root, "scripts/server-main"), { encoding: "utf8" }).trim();
  const report = `process.on("exit", () => console.error(process.moduleLoadList.join("\\n")))`;
  const { stderr } = spawnSync(
    process.execPath,
    ["--import", `data:text/javascript,${encodeURIComponent(report)}`, main, "--help"],
    { encoding: "utf8" },
  );
  expect(stderr).toMatch(/NativeModule fs$/m);
  expect(stderr).not.toMatch(/NativeModule (?:https?|tls|internal\/deps\/undici\/undici)$/m);
});

test("the help of every command has an example", () => {
  const helps: string[] = [];
  const visit = (command: ReturnType<typeof createProgram>) => {
    let text = "";
    command.configureOutput({ writeOut: (part) => (text += part) });
    command.outputHelp();
    helps.push(`${command.name()}: ${/^Examples?:\n {2}(?:\w+=\S+ )*sandpiper /m.test(text)}`);
    command.commands.forEach(visit);
  };
  visit(createProgram());
  expect(helps.filter((line) => line.endsWith("false"))).toEqual([]);
});
