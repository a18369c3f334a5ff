import { execFileSync, spawnSync } from "node:child_process";
import { cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { createProgram } from "../src/cli/program/program.ts";
import { Command } from "./support/command.ts";
import { obey } from "./support/script.ts";

/** The commands of every day, with one server that they find by themselves. */

vi.setConfig({ testTimeout: 120_000 });

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
  await rm(base, { recursive: true, force: true });
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
  expect(await cli("settings", "set", "max_iterations", "many")).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/max_iterations takes a number/),
  });
});

test("bash completes commands, options and ids", async () => {
  const { code, stdout } = await cli("completion", "bash");
  expect(code).toBe(0);
  const complete = (...words: string[]) =>
    execFileSync(
      "bash",
      [
        "-c",
        `${stdout}\nCOMP_WORDS=(sandpiper "$@"); COMP_CWORD=$#; _sandpiper 2>/dev/null; printf '%s\\n' "\${COMPREPLY[@]}"`,
        "bash",
        ...words,
      ],
      { encoding: "utf8" },
    ).split("\n");
  expect(complete("l")).toEqual(expect.arrayContaining(["ls", "logs"]));
  expect(complete("settings", "")).toEqual(expect.arrayContaining(["get", "set"]));
  expect(complete("logs", "--f")).toContain("--follow");
  for (const shell of ["zsh", "fish"]) expect((await cli("completion", shell)).stdout).toContain("logs");
  expect((await cli("completion", "tcsh")).code).toBe(2);
  // What the scripts ask for.
  expect((await cli("completion", "ids")).code).toBe(0);
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
