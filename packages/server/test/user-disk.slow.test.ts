import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Command } from "./support/command.ts";
import { type Json, removeSandboxes, until } from "./support/platform.ts";
import { startServerProcess } from "./support/server-process.ts";

test("SANDPIPER_USER_DISK counts a user's sandboxes and snapshots, those of deleted sandboxes too", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-user-disk-"));
  const server = await startServerProcess(dataDir, { SANDPIPER_USER_DISK: "40M" });
  const { call } = server;
  const row = async (id: string): Promise<Json> => (await call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];
  const make = () => call("POST", "/api/v1/sandboxes");
  const makeRunning = async () => {
    const { body } = await make();
    await until(async () => (await row(body.id)).status === "RUNNING" || undefined);
    return body.id as string;
  };
  const write = async (id: string, megabytes: number, name = "data") => {
    const command = `head -c ${megabytes}M /dev/urandom > ${name}`;
    const headers = { "X-Session-API-Key": (await row(id)).session_api_key };
    return call("POST", "/api/bash/execute_bash_command", { command }, headers);
  };
  try {
    const doctor = new Command(["doctor", "--json"], {
      SANDPIPER_DATA: dataDir,
      SANDPIPER_USER_DISK: "40M",
    });
    await doctor.exit;
    expect(JSON.parse(doctor.stdout).findings).toContainEqual(
      expect.objectContaining({
        name: "user disk",
        ok: true,
        found: "40.0 MB for the sandboxes and snapshots of a user",
      }),
    );
    const [first, second] = [await makeRunning(), await makeRunning()];
    await write(first, 25);
    const { id: snapshot } = (await call("POST", `/api/v1/sandboxes/${first}/snapshots`)).body;
    // What a snapshot and its sandbox share counts once.
    expect((await write(second, 5)).status).toBe(200);
    await call("DELETE", `/api/v1/sandboxes/${first}?sandbox_id=${first}`);
    await write(second, 20, "more");
    const refused = await until(async () => {
      const answer = await make();
      if (answer.status !== 200) return answer;
      await call("DELETE", `/api/v1/sandboxes/${answer.body.id}?sandbox_id=${answer.body.id}`);
      return undefined;
    });
    expect([refused.status, refused.body.detail]).toEqual([
      409,
      expect.stringMatching(/^Your sandboxes and snapshots take [45]\d\.\d MB of the 40\.0 MB/),
    ]);
    await write(second, 1, "last");
    const stopped = await until(async () => {
      const found = await row(second);
      return found.status === "PAUSED" ? found : undefined;
    });
    expect(stopped.status_detail).toMatch(
      /^The sandbox was stopped because it grows, and the files of all your sandboxes and snapshots take [45]\d\.\d MB of the 40\.0 MB/,
    );
    await call("DELETE", `/api/v1/snapshots/${snapshot}`);
    await until(async () => (await make()).status === 200 || undefined);
  } finally {
    await removeSandboxes(call).catch(() => {});
    await server.end("SIGTERM");
    await rm(dataDir, { recursive: true, force: true });
  }
});
