import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Command } from "./support/command.ts";
import { LocalTerminal } from "./support/local-terminal.ts";
import { obey } from "./support/script.ts";

/** The options of `run`, and `chat`, with one server that they find by themselves. */

const project = fileURLToPath(new URL("../demo/project/", import.meta.url));
const program = fileURLToPath(new URL("../../../bin/sandpiper", import.meta.url));
let base = "";
let dir = "";
let env: Record<string, string> = {};
let server: Command;
let models: ModelServer;
const open: LocalTerminal[] = [];

beforeAll(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-everyday-"));
  env = {
    SANDPIPER_DATA: join(base, "data"),
    SANDPIPER_PORT: "0",
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
  };
  models = await startModelServer((request) => {
    const last = request.messages.at(-1)!;
    return last.role === "user" && last.text.includes("in words")
      ? reply.text("# Title\n\nThe **answer** is `42`.")
      : obey(request);
  });
  server = new Command(["serve"], env);
  await server.says(/Data folder/);
  for (const [name, value] of [
    ["llm_model", "openai/scripted"],
    ["llm_base_url", models.url],
    ["llm_api_key", "sk-everyday"],
  ]) {
    const set = new Command(["settings", "set", name!, value!], env);
    expect(await set.exit, set.stderr).toBe(0);
  }
});
beforeEach(async () => {
  dir = await mkdtemp(join(base, "project-"));
  await cp(project, dir, { recursive: true });
});
afterAll(async () => {
  for (const one of open.splice(0)) one.kill("SIGKILL");
  server.signal("SIGTERM");
  await server.exit;
  await models.close();
  await rm(base, { recursive: true, force: true });
});

async function run(task: string, ...args: string[]) {
  const command = new Command(["run", task, "--dir", dir, ...args], { ...env, SECRET_WORD: "xyzzy" });
  return { code: await command.exit, stdout: command.stdout, stderr: command.stderr };
}

test("run --json prints start, events and result, one object a line, and nothing else", async () => {
  const priced = ["--model", "openai/gpt-4o", "--base-url", models.url];
  const { code, stdout, stderr } = await run("run: echo new > new.txt", "--json", "--rm", ...priced);
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/\$ echo new > new\.txt/);
  const lines = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines[0]).toMatchObject({
    type: "start",
    version: 1,
    conversation: expect.stringMatching(/^[0-9a-f]{32}$/),
  });
  expect(new Set(lines.slice(1, -1).map(({ type }) => type))).toEqual(new Set(["event"]));
  expect(lines.at(-1)).toMatchObject({
    type: "result",
    ...{ status: "finished", exit_code: 0, answer: "Done.", applied: false },
    patch: expect.stringContaining("+++ b/new.txt"),
  });
  expect(lines.at(-1).tokens).toBeGreaterThan(100);
  expect(lines.at(-1).cost).toBeGreaterThan(0);
  expect(Object.keys(lines.at(-1))).toEqual([
    "type",
    ...["status", "exit_code", "seconds", "tokens", "cost", "answer", "patch", "applied"],
  ]);
});

test("run --continue goes on in the last sandbox of the folder, and never undoes the user's own changes", async () => {
  const first = await run("run: echo one > one.txt");
  expect(first.code, first.stderr).toBe(0);
  await writeFile(join(dir, "own.txt"), "mine\n");
  const second = await run("run: cat one.txt > two.txt", "--continue", "--apply", "--yes");
  expect(second.code, second.stderr).toBe(0);
  // The folder changed meanwhile, so only what is new counts.
  expect(second.stdout).toMatch(/^\+\+\+ b\/two\.txt$/m);
  expect(second.stdout).not.toMatch(/own\.txt|one\.txt/);
  expect(await readFile(join(dir, "two.txt"), "utf8")).toBe("one\n");
  const ids = [first, second].map(({ stderr }) => /conversation ([0-9a-f]{32})/.exec(stderr)![1]);
  expect(ids[1]).toBe(ids[0]);

  expect(await run("run: true", "--continue", "ffffffff")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/There is no conversation ffffffff: "sandpiper ls" lists the ids\./),
  });
  const removed = await run("run: true", "--continue", ids[0]!, "--rm");
  expect(removed.code, removed.stderr).toBe(0);
  expect(await run("run: true", "--continue")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/cannot be continued: its sandbox is deleted/),
  });
});

test("run --env, --allow, --spec, --max-cost and --base-url change one run", async () => {
  const { code, stdout, stderr } = await run(
    "run: echo $GREETING $SECRET_WORD > env.txt",
    ...["--rm", "--spec", "host", "--env", "GREETING=hello", "--env", "SECRET_WORD"],
    ...["--allow", "example.com", "--allow", "*.example.org:8443", "--max-cost", "1.5"],
    ...["--model", "elsewhere", "--base-url", `${models.url}/v1`],
  );
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/^\+hello xyzzy$/m);
  expect(models.requests.at(-1)!.body.model).toBe("elsewhere");

  const broke = await run(
    "run: true",
    ...["--rm", "--model", "openai/gpt-4o", "--base-url", models.url, "--max-cost", "0.0000001"],
  );
  expect([broke.code, broke.stderr]).toEqual([1, expect.stringMatching(/budget/i)]);

  const refused: [string[], RegExp][] = [
    [["--image", "127.0.0.1:1/x"], /is a private or reserved address, so no image is fetched from there/],
    [["--model", "openai/x", "--base-url", "http://127.0.0.1:9"], /Cannot connect to API at 127\.0\.0\.1:9/],
  ];
  for (const [args, sentence] of refused) {
    const failed = await run("run: true", "--rm", ...args);
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringMatching(sentence)]);
    expect(failed.stderr).not.toMatch(/sandbox started/);
  }

  const wrong: [string[], RegExp][] = [
    [["--image", "bad image!"], /^sandpiper: --image: "bad image!" is not an image reference/m],
    [["--spec", "nowhere"], /^sandpiper: There is no sandbox spec nowhere: the server has host\.$/m],
    [["--spec", "hots"], /^sandpiper: There is no sandbox spec hots: did you mean host\?$/m],
    [["--spec", ""], /--spec takes the id of a sandbox spec, such as host\.$/m],
    [
      ["--model", "openai/x", "--base-url", "nowhere"],
      /--base-url takes an address such as https:.*not "nowhere"\.$/m,
    ],
    [["--merge"], /^sandpiper: --merge needs --apply\.$/m],
    [["--keep", "--rm"], /^sandpiper: Give --keep or --rm, not both\.$/m],
    [["--allow", "http://x"], /--allow takes a host such as/],
    [["--env", "NOT_SET_ANYWHERE"], /this variable is not set here/],
    [["--max-cost", "free"], /number of USD above 0/],
    [["--base-url", "http://x"], /--base-url needs --model/],
    [["--continue", "--image", "debian"], /omit --image, --spec, --allow and --env/],
    [["--image", "a", "--spec", "b"], /cannot be used with/],
  ];
  for (const [args, sentence] of wrong) {
    const failed = await run("run: true", ...args);
    expect([failed.code, failed.stderr]).toEqual([2, expect.stringMatching(sentence)]);
  }
});

test("a key that a model refuses is found before the sandbox; a refused list of models alone is no reason", async () => {
  const refusing = createServer(async (request, response) => {
    const key = request.headers.authorization;
    const body = await buffer(request);
    if (request.method === "GET" || key !== "Bearer sk-limited") {
      response.writeHead(401, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "Incorrect API key provided" } }));
      return;
    }
    const answer = await fetch(models.url + request.url, { method: "POST", body });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type")! });
    response.end(await answer.text());
  }).listen(0, "127.0.0.1");
  await once(refusing, "listening");
  const { port } = refusing.address() as AddressInfo;
  const address = ["--model", "elsewhere", "--base-url", `http://127.0.0.1:${port}/v1`];
  const tryKey = async (key: string) => {
    const args = ["run", "run: true", "--dir", dir, "--rm", ...address];
    const command = new Command(args, { ...env, LLM_API_KEY: key });
    return { code: await command.exit, stderr: command.stderr };
  };
  const refused = await tryKey("sk-refused-here");
  expect(refused).toEqual({
    code: 2,
    stderr: expect.stringMatching(
      /^sandpiper: The model elsewhere failed \(HTTP 401\): Incorrect API key provided/,
    ),
  });
  const limited = await tryKey("sk-limited");
  expect(limited.code, limited.stderr).toBe(0);
  refusing.close();
});

test("run names the option that allows a host which the network refused, for its own requests only", async () => {
  const ask = (url: string) => `run: curl -sS -m 20 ${url} >/dev/null; true`;
  const { code, stderr } = await run(
    `${ask("http://one.example.net/")}; curl -sS http://two.example.net:8123`,
  );
  expect(code, stderr).toBe(0);
  expect(stderr.replaceAll("\n", " ")).toContain(
    "The network refused one.example.net:80, two.example.net:8123: a new run reaches that with --allow one.example.net --allow two.example.net:8123 ",
  );
  const again = await run(ask("http://three.example.net/"), "--continue", "--rm");
  expect(again.stderr.replaceAll("\n", " ")).toContain(
    "The network refused three.example.net:80: a new run reaches that with --allow three.example.net ",
  );
});

test("on a terminal, run shows the answer as Markdown", async () => {
  const line = `"${program}" run "Answer in words" --dir "${dir}" --rm; echo "ended with $?"`;
  const local = terminal(line);
  await local.shows(/ended with 0/);
  expect(local.shown).toMatch(/says +Title\r\n/);
  expect(local.shown).toMatch(/The answer is 42\./);
  expect(local.shown).not.toContain("**");
});

test("run and chat show a long command's lines once while it runs; logs shows them to who comes late", async () => {
  const task = "run: for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.7; done; echo end";
  const local = terminal(`"${program}" run '${task}' --dir "${dir}" --rm; echo "ended with $?"`);
  await local.shows(/ line 3\r/);
  expect(local.shown).not.toMatch(/line 8\r|exit 0/);
  const id = /conversation ([0-9a-f]{8})/.exec(local.shown)![1]!;
  const late = new Command(["logs", "--follow", id], env);
  await local.shows(/ended with 0/);
  expect(await late.exit, late.stderr).toBe(0);
  const linesOf = (text: string) =>
    [...text.matchAll(/^ +(?:[\d.]+ s +exit 0 +)?(line \d|end)\r?$/gm)].map((match) => match[1]);
  const expected = [...[1, 2, 3, 4, 5, 6, 7, 8].map((number) => `line ${number}`), "end"];
  expect(linesOf(late.stdout)).toEqual(expected);
  // Without the status line, which shows the last line, too.
  const shown = local.shown.split("\n").map((line) => line.split("\r").findLast(Boolean) ?? "");
  expect(linesOf(shown.join("\n"))).toEqual(expected);

  const session = terminal(`"${program}" chat --dir "${dir}"; echo "ended with $?"`);
  await session.shows(/\/help lists commands/);
  session.pty.write(`${task}\r`);
  await session.shows(/ line 4\r/);
  expect(session.shown).not.toMatch(/line 8\r|exit 0/);
  session.pty.write("\x03");
  await session.shows(/stopped +by the user|paused/);
});

function terminal(line: string): LocalTerminal {
  const local = new LocalTerminal(line, {
    ...{ PATH: process.env.PATH!, HOME: base, TERM: "xterm" },
    ...env,
  });
  open.push(local);
  return local;
}

test("chat: messages, @file, multi-line, queue, interrupt, diff, undo, apply, continue", async () => {
  const local = terminal(`"${program}" chat --dir "${dir}"; echo "ended with $?"`);
  const type = (text: string) => local.pty.write(`${text}\r`);
  await local.shows(/\/help lists commands/);
  type("run: echo one > one.txt");
  await local.shows(/Done\.[\s\S]* tokens, \$0\.0000/);
  type("/status");
  await local.shows(/conversation [0-9a-f]{8}, waits for you/);
  await writeFile(join(dir, "note.txt"), "from outside\n");
  type("run: cat note.txt > copied.txt # @note.txt");
  await local.shows(/copied\.txt[\s\S]*tokens/);
  local.pty.write("\x1b[200~run: echo three > three.txt\rsecond line\x15\x03\x1b[A\x1b[201~");
  type("");
  await local.shows(/three\.txt[\s\S]*tokens/);
  expect(models.requests.at(-1)!.messages.some(({ text }) => text.includes("second line^U^C^[[A"))).toBe(
    true,
  );
  type("/diff");
  await local.shows(/\+from outside/);

  type("/undo");
  await local.shows(/The last message is taken back/);
  local.shown = "";
  type("/diff");
  await local.shows(/\+one/);
  expect(local.shown).not.toMatch(/three\.txt/);

  local.shown = "";
  type("run: sleep 300");
  await local.shows(/\$ sleep 300/);
  type("in words, please");
  await local.shows(/reads this before its next step/);
  local.pty.write("\x03");
  await local.shows(/Stopping the agent/);
  await local.shows(/stopped +by the user|paused|The answer is 42/);

  type("/apply");
  await local.shows(/Apply these changes to/);
  type("y");
  await local.shows(/Applied to/);
  expect(await readFile(join(dir, "one.txt"), "utf8")).toBe("one\n");
  type("/undo");
  await local.shows(/Your folder\s+keeps what was applied: \/diff shows what/);
  local.shown = "";
  type("/undo");
  await local.shows(/keeps what was applied/);
  type("/diff");
  await local.shows(/deleted file/);
  type("/exit");
  await local.shows(/Continue with: sandpiper chat --continue [0-9a-f]{8}\s+ended with 0/);

  const again = terminal(`"${program}" chat --dir "${dir}" --continue; echo "ended with $?"`);
  await again.shows(/\/help lists commands/);
  again.pty.write("run: ls > listed.txt\r");
  await again.shows(/tokens, \$/);
  again.pty.write("\x04");
  await again.shows(/ended with 0/);
});

test("on a terminal, run asks about secret files; without one, it leaves them out and says so", async () => {
  await writeFile(join(dir, ".env"), "WORD=xyzzy\n");
  const task = "run: cat .env > seen.txt; true";
  const quiet = await run(task, "--rm");
  expect(quiet.stderr).toMatch(/Not copied, because they may hold secrets: \.env\. --secrets copies them\./);
  expect(quiet.stdout).not.toMatch(/xyzzy/);
  const local = terminal(`"${program}" run "${task}" --dir "${dir}" --rm; echo "ended with $?"`);
  await local.shows(/These may hold secrets: \.env\.\r\nCopy them, .*\[y\/N, v to view the list\]/);
  local.pty.write("y\r");
  await local.shows(/\+WORD=xyzzy[\s\S]*ended with 0/);
  const told = terminal(`"${program}" run "${task}" --dir "${dir}" --rm --no-secrets; echo "ended with $?"`);
  await told.shows(/ended with 0/);
  expect(told.shown).not.toMatch(/Copy them|xyzzy/);
});

test("run names Python environments that the sandbox cannot run, and no pipe holds the copy", async () => {
  const pyenv = join(base, "pyenv/bin");
  await mkdir(pyenv, { recursive: true });
  await writeFile(join(pyenv, "python"), "#!/bin/sh\n", { mode: 0o755 });
  const make = async (name: string, home: string, interpreter: string, pip: string) => {
    await mkdir(join(dir, name, "bin"), { recursive: true });
    await writeFile(join(dir, name, "pyvenv.cfg"), `home = ${home}\nversion = 3.12.1\n`);
    await symlink(interpreter, join(dir, name, "bin/python"));
    await writeFile(join(dir, name, "bin/pip"), `#!${pip}\n`, { mode: 0o755 });
  };
  await make(".venv", pyenv, join(pyenv, "python"), join(dir, ".venv/bin/python"));
  await make("it's fine", "/usr/bin", "/bin/sh", join(dir, "it's fine/bin/python"));
  await make("moved", "/usr/bin", "/bin/sh", "/home/ann/old/bin/python");
  await mkdir(join(dir, "held"));
  execFileSync("mkfifo", [join(dir, "pipe")]);
  for (const name of ["held/pyvenv.cfg", "held/key.pem", ".gitmodules"])
    await symlink(join(dir, "pipe"), join(dir, name));
  const { code, stderr } = await run("run: true", "--rm");
  expect(code, stderr).toBe(0);
  const said = stderr.replaceAll("\n", " ");
  expect(said).toContain(
    `The Python environment .venv does not run in the sandbox, which has no ${pyenv}: make it with a Python that the sandbox has, such as /usr/bin/python3, or choose an image with --image. `,
  );
  expect(said).toMatch(
    /environment moved was made for another path \(\/home\/ann\/old\/bin\/python\): in the sandbox, its programs run as moved\/bin\/python -m NAME\. /,
  );
  expect(said).not.toMatch(/environment (?:it|held)/);
  expect(stderr.indexOf("The Python environment")).toBeLessThan(stderr.indexOf("conversation "));
});

test("what is ignored is not fetched back, unless the agent changes what is ignored", async () => {
  await mkdir(join(dir, "build/deep"), { recursive: true });
  await writeFile(join(dir, "build/deep/out.txt"), "old\n");
  await writeFile(join(dir, ".gitignore"), "build/\n");
  const ignored = await run("run: echo new > build/deep/out.txt; echo b > b.txt", "--rm");
  expect(ignored.code, ignored.stderr).toBe(0);
  expect(ignored.stdout).toMatch(/^\+\+\+ b\/b\.txt$/m);
  expect(ignored.stdout).not.toMatch(/out\.txt/);
  const ruled = await run("run: rm .gitignore; echo new > build/deep/out.txt", "--rm");
  expect(ruled.stdout).toMatch(/^\+\+\+ b\/build\/deep\/out\.txt$/m);
  expect(ruled.stdout).toMatch(/^deleted file mode/m);
});

test("chat needs a terminal", async () => {
  const command = new Command(["chat", "--dir", dir], env);
  expect(await command.exit).toBe(2);
  expect(command.stderr).toMatch(/chat needs a terminal/);
});
