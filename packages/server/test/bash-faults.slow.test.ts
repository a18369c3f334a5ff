import { execFileSync } from "node:child_process";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import {
  type Json,
  removeSandboxes,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { startServerProcess } from "./support/server-process.ts";

/** Faults that commands in sandboxes survive, and their remains. */

type Server = Pick<TestPlatform, "call">;
const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const work of cleanup.splice(0).reverse()) await work();
});

async function platform(): Promise<TestPlatform> {
  const server = await startTestPlatform();
  cleanup.push(() => server.stop());
  return server;
}

async function newSandbox({ call }: Server): Promise<string> {
  const { body } = await call("POST", "/api/v1/sandboxes");
  await until(async () => (await statusOf({ call }, body.id)) === "RUNNING" || undefined);
  return body.id;
}

const statusOf = async ({ call }: Server, id: string) =>
  (await call("GET", `/api/v1/sandboxes?id=${id}`)).body[0].status;

/** The calls of the bash routes to one sandbox, by the user's key. */
function bashOf({ call }: Server, id: string) {
  const post = (verb: string, body: Json) =>
    call("POST", `/api/bash/${verb}_bash_command?sandbox_id=${id}`, body);
  const search = async (query = ""): Promise<Json[]> =>
    (await call("GET", `/api/bash/bash_events/search?sandbox_id=${id}&${query}`)).body.items;
  return {
    post,
    search,
    start: async (command: string, timeout = 300): Promise<string> =>
      (await post("start", { command, timeout })).body.id,
    execute: async (command: string): Promise<Json> => (await post("execute", { command })).body,
    outputs: (commandId: string) => search(`command_id__eq=${commandId}&kind__eq=BashOutput`),
    ended: (commandId: string) =>
      until(async () => {
        const [last] = await search(
          `command_id__eq=${commandId}&kind__eq=BashOutput&sort_order=TIMESTAMP_DESC&limit=1`,
        );
        return (last?.exit_code ?? null) === null ? undefined : last;
      }),
    clear: () => call("DELETE", `/api/bash/bash_events?sandbox_id=${id}`),
  };
}

test("kill -9 of the server: printed output is kept, and a running command gets an end that names the kill", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-bash-"));
  let server = await startServerProcess(dataDir);
  cleanup.push(async () => {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
    await rm(dataDir, { recursive: true, force: true });
  });
  const id = await newSandbox(server);
  const before = bashOf(server, id);
  await before.execute("echo done");
  const running = await before.start("echo begun; sleep 600");
  await until(async () => (await before.outputs(running))[0]);
  const stored = await before.search();
  expect(stored).toHaveLength(4);
  await server.end("SIGKILL");
  // A crash may come in the middle of a write.
  const [log] = readdirSync(join(dataDir, "bash", id)).filter((name) => name.includes(running));
  writeFileSync(join(dataDir, "bash", id, log!), '900 {"id":"', { flag: "a" });
  writeFileSync(join(dataDir, "bash", id, `${"0".repeat(32)}.log`), "");
  server = await startServerProcess(dataDir);

  const after = bashOf(server, id);
  const events = await after.search();
  expect(events.slice(0, 4)).toEqual(stored);
  expect(events.slice(4)).toMatchObject([{ command_id: running, order: 1, exit_code: -1 }]);
  expect(events[4]!.stderr).toMatch(/^The server ended while this command ran/);
  expect(await after.search()).toEqual(events);
  expect(await after.execute("echo again")).toMatchObject({ stdout: "again\n", exit_code: 0 });

  // A clean shutdown ends commands and notifies waiting clients.
  const waiting = after.post("execute", { command: "echo begun; sleep 600" });
  await until(async () => (await after.execute("pgrep -fc '^sleep 600'")).stdout === "2\n" || undefined);
  const began = performance.now();
  expect(await server.end("SIGTERM")).toBe(0);
  expect(performance.now() - began).toBeLessThan(30_000);
  expect((await waiting).body).toMatchObject({
    stdout: "begun\n",
    stderr: "The server was ended, and the command with it.\n",
  });
  server = await startServerProcess(dataDir);
});

test("a full disk: a command is refused or ended, the server keeps running, and clearing makes room", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=711", "sandpiper-test", dataDir]);
  cleanup.push(() => {
    execFileSync("umount", ["--lazy", dataDir]);
    rmSync(dataDir, { recursive: true, force: true });
  });
  const server = await startTestPlatform({ dataDir });
  // The mount itself cannot be removed.
  cleanup.push(() => server.stop().catch(() => {}));
  const bash = bashOf(server, await newSandbox(server));
  const last = await bash.ended(await bash.start("yes"));
  expect(last).toMatchObject({ exit_code: -1, stderr: expect.stringContaining("disk is full") });
  expect(() => writeFileSync(join(dataDir, "ballast"), Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
  for (const verb of ["start", "execute"]) {
    const { status, body } = await bash.post(verb, { command: `: ${"x".repeat(5_000)}` });
    expect([status, body.detail]).toEqual([507, expect.stringContaining("disk of the data folder is full")]);
  }
  expect((await server.call("GET", "/health")).status).toBe(200);
  rmSync(join(dataDir, "ballast"));
  expect((await bash.clear()).body.cleared_count).toBeGreaterThan(10);
  expect(await bash.execute("echo room")).toMatchObject({ stdout: "room\n", exit_code: 0 });
});

test("a pause freezes a command, its time limit continues, and the sandbox is not woken", async () => {
  const server = await platform();
  const id = await newSandbox(server);
  const bash = bashOf(server, id);
  const act = (verb: string) => server.call("POST", `/api/v1/sandboxes/${id}/${verb}`);
  const held = await bash.start("mkfifo /tmp/gate; echo begun; read -r line < /tmp/gate; echo $line");
  const late = await bash.start("sleep 600", 1);
  await until(async () => (await bash.outputs(held))[0]);
  await act("pause");
  expect(await bash.ended(late)).toMatchObject({
    exit_code: -1,
    stderr: "The command did not end within 1 s and was ended.\n",
  });
  expect(await statusOf(server, id)).toBe("PAUSED");
  expect((await bash.search()).length).toBe(4);
  // A new command wakes it.
  expect(await bash.execute("[ -p /tmp/gate ] && pgrep -fc '^sleep 600'")).toMatchObject({
    stdout: "0\n",
  });
  expect(await statusOf(server, id)).toBe("RUNNING");
});

test("deleting a sandbox deletes its command events and ends its commands", async () => {
  const server = await platform();
  const id = await newSandbox(server);
  const bash = bashOf(server, id);
  await bash.start("sleep 600");
  const waiting = bash.post("execute", { command: "sleep 600" });
  await until(async () => (await bash.search()).length === 2 || undefined);
  await server.call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
  expect((await waiting).body).toMatchObject({
    exit_code: -1,
    stderr: expect.stringContaining("The sandbox was deleted.\n"),
  });
  await until(() => readdirSync(join(server.dataDir, "bash")).length === 0 || undefined);
  expect((await server.call("GET", `/api/bash/bash_events/search?sandbox_id=${id}`)).status).toBe(404);
});
