import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

test("a test's server runs without root's rights and has empty databases of its own", async () => {
  const [first, second] = await Promise.all([server.createDatabase(), server.createDatabase()]);
  expect(first).not.toBe(second);
  const [{ version }] = (await server.query<{ version: number }>(
    "SELECT current_setting('server_version_num')::int AS version",
  )) as [{ version: number }];
  expect(version).toBeGreaterThanOrEqual(150_000);
  const [{ pid }] = (await server.query<{ pid: number }>("SELECT pg_backend_pid() AS pid")) as [
    { pid: number },
  ];
  expect(pid).toBeGreaterThan(0);
  const postmaster = readFileSync(`${server.folder}/postmaster.pid`, "utf8").split("\n", 1)[0];
  expect(/^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${postmaster}/status`, "utf8"))?.[1]).not.toBe("0");
});

test("a killed server keeps what was committed and starts again on its port", async () => {
  await server.query("CREATE TABLE kept (value int)");
  await server.query("INSERT INTO kept VALUES (1)");
  await server.kill();
  await expect(server.query("SELECT 1")).rejects.toThrow();
  await server.start();
  expect(await server.query("SELECT value FROM kept")).toEqual([{ value: 1 }]);
});
