import type { BashClient } from "@openhands/typescript-client/clients";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import WebSocket from "ws";
import { sdkRequest } from "./support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";

/** Commands in real sandboxes over the agent-server surface, as the released clients send them. */

let server: TestPlatform;
let client: BashClient;
let sandbox: Json;
let base: string;
const api = (method: string, path: string, body?: unknown) =>
  server.call(method, path, body, { "X-Session-API-Key": sandbox.session_api_key });

beforeAll(async () => {
  vi.stubGlobal("window", { WebSocket });
  const { BashClient } = await import("@openhands/typescript-client/clients");
  server = await startTestPlatform();
  sandbox = await newSandbox();
  base = `${server.url}/agent/${sandbox.id}`;
  client = new BashClient({ host: base, apiKey: sandbox.session_api_key });
});

afterAll(async () => {
  vi.unstubAllGlobals();
  await server?.stop();
});

async function newSandbox(): Promise<Json> {
  const { body } = await server.call("POST", "/api/v1/sandboxes");
  return until(async () => {
    const [found] = (await server.call("GET", `/api/v1/sandboxes?id=${body.id}`)).body;
    return found.status === "RUNNING" ? found : undefined;
  });
}

/** Polls like the released Python client: until an output has an exit code, each output once. */
async function follow(
  commandId: string,
): Promise<{ outputs: Json[]; stdout: string; stderr: string; exitCode: number }> {
  const outputs: Json[] = [];
  await until(async () => {
    const after = outputs.length > 0 ? `&order__gt=${outputs.at(-1)!.order}` : "";
    const query = `command_id__eq=${commandId}&sort_order=TIMESTAMP&limit=100&kind__eq=BashOutput${after}`;
    const { status, body } = await api("GET", `/api/bash/bash_events/search?${query}`);
    expect(status).toBe(200);
    outputs.push(...body.items);
    return (outputs.at(-1)?.exit_code ?? null) !== null || undefined;
  }, 20);
  expect(outputs.map(({ order }) => order)).toEqual(outputs.map((_, index) => index));
  const text = (name: string) => outputs.map((output) => output[name] ?? "").join("");
  return { outputs, stdout: text("stdout"), stderr: text("stderr"), exitCode: outputs.at(-1)!.exit_code };
}

async function run(command: string, extra: Json = {}) {
  const { status, body } = await api("POST", "/api/bash/start_bash_command", { command, ...extra });
  expect([status, body.kind]).toEqual([200, "BashCommand"]);
  return follow(body.id);
}

test("the released client runs, starts, lists, reads and clears", async () => {
  expect(await client.executeCommand("echo out; echo err >&2; exit 3")).toMatchObject({
    kind: "BashOutput",
    order: 0,
    exit_code: 3,
    stdout: "out\n",
    stderr: "err\n",
  });
  const started = await client.startCommand("pwd", "/tmp", 20);
  expect(started).toMatchObject({ kind: "BashCommand", command: "pwd", cwd: "/tmp", timeout: 20 });
  const { outputs, ...ended } = await follow(started.id);
  expect(ended).toEqual({ stdout: "/tmp\n", stderr: "", exitCode: 0 });
  for (const output of outputs) expect(output).toMatchObject({ command_id: started.id, stderr: null });
  const all = await client.searchEvents({ command_id__eq: started.id });
  expect(all).toEqual({ items: [started, ...outputs], next_page_id: null });
  expect(await client.getEvent(outputs[0]!.id)).toEqual(outputs[0]);
  expect(await client.batchGetEvents([outputs[0]!.id, "0".repeat(32), started.id])).toEqual([
    outputs[0],
    null,
    started,
  ]);
  const { items } = await client.searchEvents();
  expect(await client.clearEvents()).toEqual({ cleared_count: items.length });
  expect(await client.searchEvents()).toEqual({ items: [], next_page_id: null });
});

test("a running command streams its output, and a waiting command does not delay others", async () => {
  await run("mkfifo /tmp/gate");
  const { body } = await api("POST", "/api/bash/start_bash_command", {
    command: "echo one; read -r line < /tmp/gate; echo $line",
  });
  const search = `/api/bash/bash_events/search?command_id__eq=${body.id}&kind__eq=BashOutput`;
  const first = await until(async () => (await api("GET", search)).body.items[0]);
  expect(first).toMatchObject({ stdout: "one\n", stderr: null, order: 0, exit_code: null });
  await api("POST", "/api/bash/execute_bash_command", { command: "echo two > /tmp/gate" });
  const { stdout, outputs } = await follow(body.id);
  expect([stdout, outputs[0]]).toEqual(["one\ntwo\n", first]);
});

test("characters are not split, any output is valid JSON, and state is kept between commands", async () => {
  expect((await run("printf '\\303'; sleep 0.3; printf '\\251|\\377|\\000|\\033[1m'")).stdout).toBe(
    "é|\ufffd|\0|\u001b[1m",
  );
  expect((await run("echo $BASH_VERSION | cut -c1; [[ a == a ]] && cat; kill -INT $$")).exitCode).toBe(130);
  for (const [command, stdout] of [
    ["", ""],
    ["-x", ""],
    ["# ä", ""],
    ["echo '\n'\"\u{1f600}\"", "\n\u{1f600}\n"],
  ] as const)
    expect((await run(command)).stdout).toBe(stdout);
  expect((await run("exit 7")).exitCode).toBe(7);
  expect(await run("no-such-program")).toMatchObject({
    exitCode: 127,
    stderr: expect.stringContaining("not found"),
  });
});

test("a command starts in the working folder or a folder relative to it, and a missing folder is an error", async () => {
  expect((await run("pwd")).stdout).toBe("/workspace/project\n");
  await run("mkdir -p 'sub dir'");
  expect((await run("pwd", { cwd: "sub dir", unknown: 1 })).stdout).toBe("/workspace/project/sub dir\n");
  for (const cwd of ["/nowhere", "-", "/etc/passwd"]) {
    const { exitCode, stderr } = await run("echo ran", { cwd });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^The folder .* does not exist or cannot be entered\.\n$/),
    ]);
  }
});

test("a command of a megabyte runs, a longer one is refused", async () => {
  const text = "ä😀x".repeat(120_000);
  const { stdout } = await run(`text='${text}'; echo \${#text}; echo "$text" | md5sum; echo "[$c$p$*]"`);
  expect(stdout.split("\n").slice(0, 1)).toEqual([String(360_000)]);
  expect((await api("POST", "/api/bash/start_bash_command", { command: "x".repeat(1_310_721) })).status).toBe(
    422,
  );
  expect((await api("POST", "/api/bash/start_bash_command", { command: "ä".repeat(1_000_000) })).status).toBe(
    413,
  );
});

test("a command's whole output is in the answer, and it says what is left out beyond 16 MiB", async () => {
  const execute = async (command: string) =>
    (await api("POST", "/api/bash/execute_bash_command", { command, timeout: 60 })).body;
  const whole = await execute("seq 1 400000; echo done >&2; exit 3");
  expect(whole).toMatchObject({ kind: "BashOutput", exit_code: 3, stderr: "done\n" });
  expect(whole.order).toBeGreaterThan(1);
  const lines = Array.from({ length: 400_000 }, (_, index) => `${index + 1}\n`).join("");
  expect(whole.stdout === lines).toBe(true);
  const cut = await execute("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end");
  expect(cut.stdout.length).toBeLessThan(18 * 2 ** 20);
  expect(cut.stdout).toMatch(
    /\[\d+ bytes of the output are left out here: an answer has at most 16777216 bytes/,
  );
  expect(cut.stdout).toContain(`command_id__eq=${cut.command_id}`);
  expect(cut.stdout).toMatch(/the end\n$/);
});

test("a stopped command ends with its children and code -15; stopping again changes nothing", async () => {
  const { body } = await api("POST", "/api/bash/start_bash_command", {
    command: "echo begun; sleep 601 & sleep 602",
  });
  const path = `/api/bash/bash_commands/${body.id}/stop`;
  await until(async () => {
    const { items } = (await api("GET", `/api/bash/bash_events/search?command_id__eq=${body.id}`)).body;
    return items.length > 1 || undefined;
  });
  expect(await api("POST", path)).toEqual({ status: 200, body: { success: true } });
  expect(await follow(body.id)).toMatchObject({ stdout: "begun\n", stderr: "", exitCode: -15 });
  expect((await run("ps ax | grep -c 'sleep 60[12]' || true")).stdout).toMatch(/^[01]\n$/);
  expect(await api("POST", path)).toEqual({ status: 200, body: { success: true } });
  expect((await follow(body.id)).exitCode).toBe(-15);
  const unknown = `${body.id.slice(0, -4)}0000`;
  expect((await api("POST", `/api/bash/bash_commands/${unknown}/stop`)).status).toBe(404);

  const conversation = await api("POST", "/api/conversations", sdkRequest("http://127.0.0.1:1"));
  const scoped = `/api/conversations/${conversation.body.id}/bash/bash_commands`;
  const start = scoped.replace("bash_commands", "start_bash_command");
  const second = await api("POST", start, { command: "sleep 603" });
  expect((await api("POST", `${scoped}/${second.body.id}/stop`)).status).toBe(200);
  expect((await follow(second.body.id)).exitCode).toBe(-15);
  expect((await api("POST", `${scoped}/${unknown}/stop`)).status).toBe(404);
});

test("a command that takes too long is ended with its child processes", async () => {
  const began = performance.now();
  const late = await run(
    "trap 'echo asked; exit 0' TERM; (trap '' TERM; sleep 616) & sleep 617 & echo began; wait",
    {
      timeout: 1,
    },
  );
  expect(late).toMatchObject({
    exitCode: -1,
    stdout: "began\nasked\n",
    stderr: "The command did not end within 1 s and was ended.\n",
  });
  // A process that ignores SIGTERM has two seconds.
  expect(performance.now() - began).toBeGreaterThan(2_500);
  expect((await run("pgrep -f '^sleep 61[67]'")).stdout).toBe("");
  expect(performance.now() - began).toBeLessThan(30_000);
  expect((await run("echo zero", { timeout: 0 })).exitCode).toBe(0);
});

test("background processes of a command keep running, and the command does not wait for them", async () => {
  expect(await run("sleep 30 & echo left")).toMatchObject({ stdout: "left\n", exitCode: 0 });
  expect((await run("pgrep -fc '^sleep 30'; pkill -f '^sleep 30'")).stdout).toBe("1\n");
});

test("pages are found by kind, command, time, order and direction, and hold a few megabytes", async () => {
  await client.clearEvents();
  const before = new Date().toISOString();
  const commands: string[] = [];
  for (const name of ["a", "b", "c"])
    commands.push((await client.executeCommand(`echo ${name}`)).command_id!);
  const search = async (query: string) => (await api("GET", `/api/bash/bash_events/search?${query}`)).body;
  const texts = ({ items }: Json) => items.map(({ stdout, command }: Json) => stdout ?? command);
  const all = ["echo a", "a\n", "echo b", "b\n", "echo c", "c\n"];
  expect(texts(await search(`timestamp__gte=${before}`))).toEqual(all);
  expect(texts(await search(`timestamp__lt=${before}`))).toEqual([]);
  for (const order of ["TIMESTAMP", "TIMESTAMP_DESC"]) {
    const found: string[] = [];
    let page = "";
    do {
      const { items, next_page_id } = await search(`limit=4&sort_order=${order}&page_id=${page}`);
      found.push(...texts({ items }));
      page = next_page_id ?? "";
    } while (page !== "");
    expect(found).toEqual(order === "TIMESTAMP" ? all : [...all].reverse());
  }
  expect(texts(await search("kind__eq=BashCommand"))).toEqual(["echo a", "echo b", "echo c"]);
  expect(texts(await search("order__gt=-1"))).toEqual(["a\n", "b\n", "c\n"]);
  expect(texts(await search("order__gt=0"))).toEqual([]);
  const dashed = commands[1]!.replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  expect(texts(await search(`command_id__eq=${dashed}`))).toEqual(["echo b", "b\n"]);
  for (const query of [
    "limit=0",
    "limit=101",
    "kind__eq=X",
    "command_id__eq=7",
    "order__gt=x",
    "timestamp__lt=x",
    "sort_order=UP",
  ])
    expect([query, (await api("GET", `/api/bash/bash_events/search?${query}`)).status]).toEqual([query, 422]);
  for (const id of ["zz", "0".repeat(32), "%00"])
    expect((await api("GET", `/api/bash/bash_events/${id}`)).status).not.toBe(200);

  const { body } = await api("POST", "/api/bash/start_bash_command", {
    command: "head -c 12000000 /dev/zero",
  });
  await follow(body.id);
  const page = await search(`command_id__eq=${body.id}&limit=100`);
  expect([page.items.length > 1, JSON.stringify(page).length < 5_000_000, typeof page.next_page_id]).toEqual([
    true,
    true,
    "string",
  ]);
  for (const item of page.items) expect(JSON.stringify(item).length).toBeLessThan(2 ** 20 - 16 * 1024);
});

test("100 MB arrive completely, in order, and cost the server little memory", async () => {
  global.gc?.();
  const before = process.memoryUsage().rss;
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss - before);
  }, 5);
  const { body } = await api("POST", "/api/bash/start_bash_command", {
    command: "yes 0123456789 | head -c 104857600; seq -w 1 1000 >&2",
  });
  let [length, order, exitCode, stderr] = [0, -1, null as number | null, ""];
  while (exitCode === null) {
    const query = `command_id__eq=${body.id}&limit=20&kind__eq=BashOutput&order__gt=${order}`;
    for (const item of (await api("GET", `/api/bash/bash_events/search?${query}`)).body.items) {
      expect(item.order).toBe(order + 1);
      order = item.order;
      exitCode = item.exit_code;
      stderr += item.stderr ?? "";
      length += (item.stdout ?? "").length;
    }
  }
  clearInterval(watch);
  expect([exitCode, length, stderr.length]).toEqual([0, 104_857_600, 5_000]);
  // This process is the client too.
  expect(peak / 2 ** 20).toBeLessThan(350);
});

test("an endlessly printing command times out, and the server keeps answering meanwhile", async () => {
  const running = api("POST", "/api/bash/start_bash_command", { command: "echo first; yes", timeout: 2 });
  const { id } = (await running).body;
  const search = `/api/bash/bash_events/search?command_id__eq=${id}&kind__eq=BashOutput`;
  const first = await until(async () => (await api("GET", `${search}&limit=1`)).body.items[0]);
  expect(first.stdout.slice(0, 10)).toBe("first\ny\ny\n");
  expect((await run("echo beside")).stdout).toBe("beside\n");
  const last = await until(async () => {
    const [item] = (await api("GET", `${search}&sort_order=TIMESTAMP_DESC&limit=1`)).body.items;
    return item.exit_code === null ? undefined : item;
  });
  expect(last).toMatchObject({ exit_code: -1, stderr: expect.stringContaining("did not end within 2 s") });
  await client.clearEvents();
});
