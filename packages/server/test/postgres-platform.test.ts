import { copyFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { emptyConfig } from "../src/store/empty-config.ts";
import { startTestPlatform } from "./support/platform.ts";
import { type PostgresServer, startPostgres } from "./support/postgres.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

test("a server keeps its state in PostgreSQL over a restart, answers 503 without it, and never shows its password", async () => {
  const lines: string[] = [];
  const logs = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-postgres-platform-"));
  const database = { from: "variable", url: await server.createDatabase() } as const;
  const first = await startTestPlatform({ dataDir, database }, logs);
  const title = "Kept in PostgreSQL";
  await first.platform.store.conversations.create({
    ...{ id: "0b5f5a0e-6f0c-4b5e-9d6c-0a4e6a1d2c3b", userId: "default", sandboxId: "none", title },
    ...{ parentId: null, createdAt: Date.now(), config: emptyConfig("/workspace") },
  });
  await first.platform.close();
  const second = await startTestPlatform({ dataDir, database }, logs);
  const search = () => second.call("GET", "/api/v1/app-conversations/search");
  expect((await search()).body.items).toMatchObject([{ title }]);
  // Another server with a folder of its own has the same state.
  const other = await mkdtemp(join(tmpdir(), "sandpiper-postgres-platform-"));
  await copyFile(join(dataDir, "vault.key"), join(other, "vault.key"));
  const beside = await startTestPlatform({ dataDir: other, database }, logs);
  expect((await beside.call("GET", "/api/v1/app-conversations/search")).body.items).toMatchObject([
    { title },
  ]);
  await beside.platform.close();
  await server.kill();
  const response = await fetch(`${second.url}/api/v1/app-conversations/search`, {
    headers: { "X-Session-API-Key": second.key },
  });
  if (response.status !== 503) throw new Error(`${await response.text()} ${lines.join("")}`);
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(await response.text()).not.toContain(server.password);
  await server.start();
  await expect.poll(async () => (await search()).status).toBe(200);
  await second.stop();
  const third = await startTestPlatform({ dataDir: other, database }, logs);
  await third.stop();
  expect(lines.join("")).not.toContain(server.password);
});
