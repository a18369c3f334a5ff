import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type ModelRequestSeen,
  type ModelServer,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { LocalTerminal } from "./support/local-terminal.ts";
import { startTestPlatform, type TestPlatform } from "./support/platform.ts";
import { obey } from "./support/script.ts";

/** Changes of `sandpiper run` that cannot be applied, and runs that are stopped. */

const program = fileURLToPath(new URL("../../../bin/sandpiper", import.meta.url));
let server: TestPlatform;
let models: ModelServer;
let dir: string;
let project: string;
/** Runs on this machine when the agent asks the model. */
let meanwhile = async (_request: ModelRequestSeen): Promise<void> => {};
const open: LocalTerminal[] = [];

beforeAll(async () => {
  models = await startModelServer(async (request: ModelRequestSeen) => {
    await meanwhile(request);
    return obey(request);
  });
  server = await startTestPlatform();
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test-of-applying",
    llm_base_url: models.url,
  });
});
beforeEach(async () => {
  meanwhile = async () => {};
  dir = await mkdtemp(join(tmpdir(), "sandpiper-apply-"));
  project = join(dir, "it's a project");
  await mkdir(project);
  await writeFile(join(project, "a.txt"), "old\n");
  shell("git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm start");
});
afterEach(async () => {
  for (const one of open.splice(0)) one.kill("SIGKILL");
  await rm(dir, { recursive: true, force: true });
});
afterAll(async () => {
  await server.stop();
  await models.close();
});

function run(options: string): LocalTerminal {
  return start(
    `"${program}" run "run: echo agent > a.txt" --dir "${project}" ${options}; echo "it ended with $?"`,
  );
}

function start(line: string): LocalTerminal {
  const env = {
    PATH: process.env.PATH!,
    HOME: dir,
    TERM: "xterm",
    SANDPIPER_URL: server.url,
    SANDPIPER_API_KEY: server.key,
  };
  const local = new LocalTerminal(line, env);
  open.push(local);
  return local;
}

const shell = (script: string) =>
  execFileSync("sh", ["-ec", script], { cwd: project, encoding: "utf8", stdio: "pipe" });
/** Runs a command in another folder. */
const elsewhere = (script: string) =>
  execFileSync("bash", ["-ec", script], { cwd: "/", encoding: "utf8", stdio: "pipe" });
const printedCommand = (shown: string) => /^ {2}(git -C .+)\r$/m.exec(shown)![1]!;
const text = () => readFile(join(project, "a.txt"), "utf8");
/** Sandboxes besides those of runs that ended, which can be continued. */
const sandboxes = async () =>
  (await server.call("GET", "/api/v1/sandboxes/search")).body.items.filter(
    ({ status }: { status: string }) => status !== "PAUSED",
  );
const userEdits = () => writeFile(join(project, "a.txt"), "user\n");
const keptFile = (shown: string) =>
  /The changes are in (\S+\.patch)/.exec(shown.replaceAll("\r\n", " "))![1]!;

test("a model that cannot be called is refused before a sandbox starts", async () => {
  const bare = await startTestPlatform();
  for (const [model, sentence] of [
    ["anthropic/claude-x", /No key is configured for the model anthropic\/claude-x/],
    ["nonsense", /names no provider/],
  ] as const) {
    const local = start(
      `SANDPIPER_URL=${bare.url} SANDPIPER_API_KEY=${bare.key} "${program}" run Task --dir "${project}" --model ${model}; echo "it ended with $?"`,
    );
    await local.shows(/it ended with [12]/);
    expect(local.shown.replaceAll(/\s+/g, " ")).toMatch(sentence);
    expect(local.shown).not.toMatch(/sandbox started/);
  }
  expect((await bare.call("GET", "/api/v1/sandboxes/search")).body.items).toEqual([]);
  await bare.stop();
});

test("changes that conflict are kept in a file, and the sentence says how to apply them", async () => {
  meanwhile = userEdits;
  const local = run("--apply --yes");
  await local.shows(/it ended with 1/);
  expect(local.shown.replaceAll("\r\n", " ")).toMatch(/nothing was applied\..*commit your own, then/);
  expect(await text()).toBe("user\n");
  const file = keptFile(local.shown);
  expect(file.startsWith(join(dir, ".local/state/sandpiper/patches/it_s_a_project-"))).toBe(true);
  shell("git -c user.name=t -c user.email=t@example.com commit -qam user");
  expect(printedCommand(local.shown)).toContain("apply --3way '");
  expect(() => elsewhere(printedCommand(local.shown))).toThrow(/with conflicts/);
  expect(await text()).toMatch(/<{7}.*user.*={7}.*agent.*>{7}/s);
});

test("a person may merge them instead, and gets conflict markers", async () => {
  meanwhile = userEdits;
  const local = run("--apply");
  await local.shows(/Apply these changes/);
  local.pty.write("y\r");
  await local.shows(/m to merge/);
  local.pty.write("m\r");
  await local.shows(/Conflict markers: a\.txt.*it ended with 1/s);
  expect(await text()).toMatch(/<{7}.*user.*={7}.*agent.*>{7}/s);
});

test("changes that are not wanted now are kept in a file", async () => {
  const local = run("--apply");
  await local.shows(/Apply these changes/);
  local.pty.write("\r");
  await local.shows(/it ended with 0/);
  expect(await readFile(keptFile(local.shown), "utf8")).toMatch(/^\+agent$/m);
  expect(await text()).toBe("old\n");
  elsewhere(printedCommand(local.shown));
  expect(await text()).toBe("agent\n");
});

test("changes of a run that is interrupted are kept, and not applied without a question", async () => {
  meanwhile = async ({ messages }) => {
    // The command whose result the model gets has changed the file.
    if (messages.at(-1)!.role === "user") return;
    local.pty.write("\x03");
    await local.shows(/Interrupting/);
  };
  const local = run("--apply --yes");
  await local.shows(/The run was interrupted: the folder.*unchanged\..*apply '\S+'\r\n/s);
  expect(await readFile(keptFile(local.shown), "utf8")).toMatch(/^\+agent$/m);
  expect(await text()).toBe("old\n");
});

test("the command that applies kept changes fits a folder without git, and one that a repository ignores", async () => {
  await rm(join(project, ".git"), { recursive: true });
  meanwhile = async () => {
    await userEdits();
    await writeFile(join(project, "b.txt"), "changed\n");
  };
  await writeFile(join(project, "b.txt"), "b\n");
  const conflict = run("--apply --yes");
  await conflict.shows(/it ended with 1/);
  expect(() => elsewhere(printedCommand(conflict.shown))).toThrow();
  expect(await text()).toBe("user\n");
  expect(await readFile(join(project, "a.txt.rej"), "utf8")).toMatch(/^\+agent$/m);

  await rm(join(project, "a.txt.rej"));
  meanwhile = async () => {};
  execFileSync("git", ["init", "-q", dir]);
  await writeFile(join(dir, ".gitignore"), "*\n");
  const refused = run("--apply");
  await refused.shows(/Apply these changes/);
  refused.pty.write("\r");
  await refused.shows(/it ended with 0/);
  elsewhere(printedCommand(refused.shown));
  expect(await text()).toBe("agent\n");
});

test("Ctrl-C and the end of the terminal during the preparation end with 130 and 129, and leave no sandbox", async () => {
  for (const stop of ["\x03", "SIGHUP"]) {
    const local = start(`exec "${program}" run Task --dir "${project}"`);
    await local.shows(/reads the folder|starts a sandbox/);
    if (stop === "\x03") local.pty.write(stop);
    // The shell and the kernel both send it.
    else for (let times = 0; times < 2; times++) process.kill(local.pty.pid, stop);
    expect(await local.exit).toBe(stop === "SIGHUP" ? 129 : 130);
    expect(local.shown).not.toMatch(/asks the model/);
    await expect.poll(sandboxes).toEqual([]);
  }
});

test("the agent works at the same path, without the user's secret files, and nobody works in system folders", async () => {
  // The interpreter of a script has no spaces in its path.
  await rename(project, join(dir, "project"));
  project = join(dir, "project");
  await mkdir(join(project, ".venv"));
  await writeFile(join(project, ".gitignore"), ".venv\n.env\n");
  await writeFile(join(project, ".venv/tool"), `#!${project}/.venv/interpreter\n`, { mode: 0o755 });
  await writeFile(join(project, ".venv/interpreter"), "#!/bin/sh\necho it runs\n", { mode: 0o755 });
  await writeFile(join(project, ".env"), "SECRET=hidden\n");
  await mkdir(join(project, "sub"));
  const command = "run: (pwd; .venv/tool; cat .env; git log --oneline) > said.txt 2>&1";
  const local = start(
    `"${program}" run "${command}" --dir "${project}/sub" --apply --yes; echo "it ended with $?"`,
  );
  await local.shows(/it ended with 0/);
  expect(local.shown).toMatch(/Not copied, because they may hold secrets: \.env\./);
  const said = await readFile(join(project, "said.txt"), "utf8");
  expect(said.startsWith(`${project}\nit runs\n`), said).toBe(true);
  expect(said).toMatch(/\.env: No such file.*\n[0-9a-f]{7} start\n$/s);
  expect(await readFile(join(project, ".env"), "utf8")).toBe("SECRET=hidden\n");

  for (const working_dir of ["/etc/x", "/root", "/proc/1", "relative", "/a/../b", "/a\n"])
    expect((await server.call("POST", "/api/v1/sandboxes", { working_dir })).status, working_dir).toBe(422);
});
