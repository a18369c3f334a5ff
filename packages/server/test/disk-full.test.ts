import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runToEnd } from "../src/sandboxes/run.ts";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";

test("with a full disk every write is a 507, reads go on, and a refused pause leaves the sandbox running", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-full-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=711", "sandpiper-test", dataDir]);
  let server: TestPlatform | undefined;
  try {
    server = await startTestPlatform({ dataDir });
    const { call, platform } = server;
    const { id } = (await call("POST", "/api/v1/sandboxes")).body;
    const status = async () => (await call("GET", `/api/v1/sandboxes?id=${id}`)).body[0].status;
    await until(async () => (await status()) === "RUNNING" || undefined);

    const ballast = join(dataDir, "ballast");
    expect(() => writeFileSync(ballast, Buffer.alloc(32 << 20))).toThrow(/ENOSPC/);
    const writes: [string, unknown][] = [
      ["/api/settings", { llm_model: "x".repeat(5000) }],
      ["/api/v1/sandboxes", undefined],
      ["/api/v1/app-conversations", { title: "Work", system_message_suffix: "x".repeat(5000) }],
      [`/api/v1/sandboxes/${id}/pause`, undefined],
    ];
    for (const [path, body] of writes) expect([path, (await call("POST", path, body)).status]).toEqual([path, 507]);
    expect((await call("GET", "/health")).status).toBe(200);
    expect(await status()).toBe("RUNNING");

    rmSync(ballast);
    const sandbox = await platform.sandboxes.running(id);
    expect((await runToEnd(sandbox, { argv: ["echo", "alive"] })).stdout.toString()).toBe("alive\n");
    expect((await call("POST", `/api/v1/sandboxes/${id}/pause`)).status).toBe(200);
  } finally {
    await server?.stop().catch(() => {});
    execFileSync("umount", ["--lazy", dataDir]);
    rmSync(dataDir, { recursive: true, force: true });
  }
});
