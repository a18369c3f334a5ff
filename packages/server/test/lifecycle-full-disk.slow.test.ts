import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Command } from "./support/command.ts";
import { caller, startConversation, testKey, until } from "./support/platform.ts";
import { finish, terminal } from "./support/script.ts";
import { type ServerProcess, serverMain, startServerProcess } from "./support/server-process.ts";

/** A server in a process of its own whose data folder, or whose output, is on a full disk. */

let folder: string;
const cleanup: (() => unknown)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=48m,mode=711", "sandpiper-test", folder]);
});

afterEach(async () => {
  for (const work of cleanup.splice(0).reverse()) await work();
  execFileSync("umount", ["--lazy", folder]);
  rmSync(folder, { recursive: true, force: true });
});

/** Takes all room until the returned function is called. */
function fillDisk(): () => void {
  const path = join(folder, "ballast");
  expect(() => writeFileSync(path, Buffer.alloc(64 << 20))).toThrow(/ENOSPC/);
  return () => rmSync(path, { force: true });
}

const isAlive = ({ child }: ServerProcess) => [child.exitCode, child.signalCode];

test("on a full disk a server keeps serving, pausing, stopping and deleting, and a snapshot leaves the sandbox running", async () => {
  let call = 0;
  const models = await startModelServer(({ messages }) =>
    /^Work/.test(messages.find(({ role }) => role === "user")?.text ?? "")
      ? reply.toolCalls([terminal(`echo ${call++}; seq 4000`)])
      : finish("Done."),
  );
  cleanup.push(() => models.close());
  const server = await startServerProcess(folder, { SANDPIPER_LOG_LEVEL: "info" });
  cleanup.push(() => server.end("SIGKILL"));
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_api_key: "sk-test",
    llm_base_url: models.url,
  });
  const row = async (id: string) => (await server.call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];
  const { sandboxId: kept } = await startConversation(server.call, "", { initial_message: null });
  const idle = [];
  for (let count = 0; count < 6; count++)
    idle.push(await startConversation(server.call, "", { initial_message: null }));
  const release = fillDisk();
  const target = join(folder, "exported.jsonl");
  const exported = new Command(["export", idle[0]!.id, "--output", target], {
    SANDPIPER_URL: server.url,
    SANDPIPER_API_KEY: server.key,
  });
  expect(await exported.exit).toBe(1);
  expect(exported.stderr).toMatch(/^sandpiper: The recording could not be written: the disk is full\./);
  expect(readdirSync(folder).filter((name) => name.startsWith("exported"))).toEqual([]);
  // Runs that begin now, or continue, cannot store anything.
  const working = await Promise.all(
    idle.slice(0, 2).map(({ id }) =>
      server.call("POST", `/api/conversations/${id.replaceAll("-", "")}/events`, {
        role: "user",
        content: [{ type: "text", text: "Work" }],
        run: true,
      }),
    ),
  );
  expect(working.map(({ status }) => status)).toEqual([507, 507]);
  const before = (await row(kept)).status;
  const refused = await server.call("POST", `/api/v1/sandboxes/${kept}/snapshots`);
  expect([refused.status, refused.body.detail]).toEqual([507, expect.stringMatching(/disk .* is full/)]);
  expect([before, (await row(kept)).status]).toEqual(["RUNNING", "RUNNING"]);
  for (const { id, sandboxId } of idle.slice(0, 3)) {
    expect((await server.call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
    expect((await server.call("POST", `/api/conversations/${id.replaceAll("-", "")}/pause`)).status).toBe(
      200,
    );
  }
  for (const { id } of idle.slice(3))
    expect((await server.call("DELETE", `/api/v1/app-conversations/${id}`)).status).toBe(200);
  expect((await server.call("GET", "/health")).status).toBe(200);
  expect(isAlive(server)).toEqual([null, null]);
  expect(server.output()).not.toMatch(/not handled|restart failed/);

  release();
  expect((await server.call("POST", `/api/v1/sandboxes/${kept}/snapshots`)).status).toBe(201);
  const { id } = await startConversation(server.call, "Say");
  await until(async () => {
    const [found] = (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === "finished" || undefined;
  });
});

test.each(["a full disk", "a closed pipe"])(
  "a server whose output goes to %s keeps serving",
  async (where) => {
    const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-log-"));
    cleanup.push(() => rmSync(dataDir, { recursive: true, force: true }));
    const log = join(folder, "log");
    const file = openSync(log, "a");
    const output = where === "a full disk" ? file : "pipe";
    const child = spawn(process.execPath, [serverMain, "serve"], {
      env: {
        PATH: process.env.PATH ?? "",
        HOME: process.env.HOME ?? "/",
        SANDPIPER_DATA: dataDir,
        SANDPIPER_API_KEY: testKey,
        SANDPIPER_PORT: "0",
        SANDPIPER_LOG_LEVEL: "debug",
      },
      stdio: ["ignore", output, output],
    });
    const ended = new Promise((resolve) => child.once("exit", (...end) => resolve(end)));
    let text = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data) => (text += data));
    cleanup.push(() => child.kill("SIGKILL"));
    const read = () => (output === "pipe" ? text : readFileSync(log, "utf8"));
    const url = await until(() => /Sandpiper serves (http\S+)/.exec(read())?.[1]);
    const call = caller(url, testKey);
    let release = () => {};
    const lines = () => read().split("\n").length;
    await call("GET", "/api/v1/sandboxes/search");
    await until(() => lines() > 3 || undefined);
    if (output === "pipe") {
      child.stdout?.destroy();
      child.stderr?.destroy();
    } else {
      release = fillDisk();
    }
    for (let count = 0; count < 50; count++)
      expect((await call("GET", "/api/v1/sandboxes/search")).status).toBe(200);
    if (output !== "pipe") {
      release();
      await call("GET", "/api/v1/sandboxes/search");
      await until(() => /lines of the log could not be written/.test(read()) || undefined);
    }
    child.kill("SIGTERM");
    expect(await ended).toEqual([0, null]);
  },
);
