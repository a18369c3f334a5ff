import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, expect, test } from "vitest";
import { type Json, removeSandboxes, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

const closing: (() => unknown)[] = [];
const servers: ServerProcess[] = [];
afterEach(async () => {
  // Only of a test that failed.
  for (const { child } of servers.splice(0)) if (child.exitCode === null) child.kill("SIGKILL");
  for (const close of closing.splice(0).reverse()) await close();
});

function makeFolder(): string {
  const folder = mkdtempSync("/tmp/sandpiper-kept-");
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function start(dataDir: string, env: Record<string, string>): Promise<ServerProcess> {
  const server = await startServerProcess(dataDir, env);
  servers.push(server);
  return server;
}

const names = (...path: string[]): string[] => {
  try {
    return readdirSync(join(...path));
  } catch {
    return [];
  }
};

/** Whether the store of a data folder names a kept copy of a sandbox's files. */
function isKept(dataDir: string, id: string): boolean {
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"), { readOnly: true });
  try {
    const found = database.prepare("SELECT 1 FROM blob_references WHERE holder = ?").get(id);
    return found !== undefined;
  } finally {
    database.close();
  }
}

async function row(server: ServerProcess, id: string): Promise<Json> {
  return (await server.call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];
}

async function sh(server: ServerProcess, id: string, command: string): Promise<string> {
  const headers = { "X-Session-API-Key": (await row(server, id)).session_api_key };
  const { body } = await server.call("POST", "/api/bash/execute_bash_command", { command }, headers);
  return body.stdout;
}

test("servers that are killed while they copy or restore the files of a sandbox lose nothing", async () => {
  const [here, there, shared] = [makeFolder(), makeFolder(), makeFolder()];
  const env = { SANDPIPER_BLOBS: shared, SANDPIPER_IDLE_PAUSE: "1", SANDPIPER_HIBERNATE_AFTER: "1" };
  const first = await start(here, env);
  const { id } = (await first.call("POST", "/api/v1/sandboxes")).body;
  await until(async () => (await row(first, id)).status === "RUNNING" || undefined);
  const look = "cd ~; md5sum large; stat -c '%n %a %U %h %Y' large link; rm -f .cache";
  await sh(first, id, "cd ~; head -c 100000000 /dev/urandom >large; chmod 640 large; ln large link");
  const before = await sh(first, id, look);
  expect(before).toContain("link 640");

  await until(() => names(shared, "unfinished")[0]);
  await first.end("SIGKILL");
  expect(names(shared, "sha256")).toEqual([]);
  const second = await start(here, env);
  // A server that ends between the blob and the record that names it has kept nothing.
  await until(() => isKept(here, id));
  expect((await row(second, id)).status).toBe("PAUSED");
  expect(await second.end("SIGTERM")).toBe(0);
  for (const name of ["store", "vault.key"]) cpSync(join(here, name), join(there, name), { recursive: true });
  rmSync(here, { recursive: true, force: true });

  const third = await start(there, env);
  const woken = third.call("POST", `/api/v1/sandboxes/${id}/resume`).catch(() => undefined);
  await until(() => names(there, "sandboxes", "imports")[0]);
  expect((await row(third, id)).status).toBe("STARTING");
  await third.end("SIGKILL");
  await woken;
  const fourth = await start(there, env);
  await until(async () => (await row(fourth, id)).status === "RUNNING" || undefined);
  expect(await sh(fourth, id, look)).toBe(before);
  expect(names(there, "sandboxes", "imports")).toEqual([]);
  expect(names(there, "restored")).toEqual([]);
  await removeSandboxes(fourth.call);
  await fourth.end("SIGTERM");
});
