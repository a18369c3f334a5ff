import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Command } from "./support/command.ts";
import { type Json, removeSandboxes, startConversation, until } from "./support/platform.ts";
import { type PostgresServer, startPostgres } from "./support/postgres.ts";
import { finish } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";
import { fillWithConversations } from "./support/store.ts";

/** `sandpiper migrate` as an administrator uses it. */

let postgres: PostgresServer;
let base: string;
let dataDir: string;
let url: string;
let env: Record<string, string>;
const cleanups: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.remove());
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-migrate-"));
  dataDir = join(base, "data");
  url = await postgres.createDatabase();
  const file = join(base, "database");
  await writeFile(file, `${url}\n`, { mode: 0o600 });
  env = { SANDPIPER_DATA: dataDir, SANDPIPER_DATABASE_URL_FILE: file };
});
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
  await rm(base, { recursive: true, force: true });
});

const query = <Row extends object>(sql: string) =>
  postgres.query<Row & Record<string, unknown>>(sql, [], new URL(url).pathname.slice(1));

async function migrate(...more: string[]): Promise<Command & { code: number }> {
  const command = new Command(["migrate", "--to", "postgres", ...more], env);
  return Object.assign(command, { code: await command.exit });
}

/** The answers of a server that its state decides. */
async function readAll({ call }: Pick<ServerProcess, "call">, ids: readonly string[]): Promise<Json> {
  const paths = [
    ...["/api/v1/app-conversations/search?limit=100", "/api/v1/app-conversations/count"],
    ...["/api/v1/app-conversations/start-tasks/search", "/api/conversations/search?limit=100"],
    ...["/api/v1/settings", "/api/settings", "/api/v1/settings/profiles"],
    ...["/api/keys", "/api/v1/secrets/search", "/api/v1/sandboxes/search"],
    ...["/api/v1/snapshots/search", "/api/v1/users/me", "/api/agent-profiles", "/api/workspaces"],
    ...ids.flatMap((id) => [
      `/api/conversations/${id}`,
      `/api/conversations/${id}/events/search?limit=100`,
      `/api/v1/conversation/${id}/events/search?limit=100`,
      `/api/v1/app-conversations/${id}/callbacks`,
      `/api/v1/app-conversations?ids=${id}`,
    ]),
  ];
  const answers: Json = {};
  for (const path of paths) {
    const { status, body } = await call("GET", path);
    answers[path] = { status, body };
  }
  return JSON.parse(JSON.stringify(answers, withoutMoving));
}

/** Leaves out what a server makes anew, and what goes on by itself. */
function withoutMoving(name: string, value: unknown): unknown {
  if (/(^|_)url$|^(exposed_urls|session_api_key)$/.test(name)) return undefined;
  if (/^(last_used_at|attempts|next_attempt_at)$/.test(name)) return undefined;
  const isMade = (one: unknown) => /^command line, process/.test((one as { name?: string })?.name ?? "");
  return Array.isArray(value) ? value.filter((one) => !isMade(one)) : value;
}

async function startModels(): Promise<ModelServer> {
  const models = await startModelServer(() => finish("Done."));
  cleanups.push(() => models.close());
  return models;
}

test("a server on the copy answers as the server on the data folder did, and goes on", async () => {
  const models = await startModels();
  let server = await startServerProcess(dataDir);
  cleanups.push(async () => {
    await removeSandboxes(server.call).catch(() => {});
    await server.end("SIGTERM");
  });
  const { call } = server;
  const post = async (path: string, body: unknown): Promise<Json> => {
    const answer = await call("POST", path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return answer.body;
  };
  await post("/api/settings", {
    ...{ llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url },
  });
  await post("/api/v1/secrets", { name: "DEPLOY", value: "the deploy token", description: "deploys" });
  await post("/api/keys", { name: "laptop" });
  const { id, sandboxId } = await startConversation(server.call, "one", {
    processors: [
      { kind: "WebhookCallbackProcessor", url: "https://receiver.invalid/", secret: "a secret of mine" },
    ],
  });
  const waitForEnd = (one: string) =>
    until(async () => {
      const { body } = await server.call("GET", `/api/conversations/${one}`);
      return body.execution_status === "finished" || undefined;
    });
  const say = async (one: string, text: string) => {
    const content = [{ type: "text", text }];
    await server.call("POST", `/api/conversations/${one}/events`, { role: "user", content, run: true });
    await waitForEnd(one);
  };
  await waitForEnd(id);
  const { items } = (await call("GET", `/api/conversations/${id}/events/search?limit=100`)).body;
  await say(id, "two");
  await post(`/api/conversations/${id}/navigate`, { event_id: items.at(-1).id });
  const fork = await post(`/api/conversations/${id}/fork`, { title: "A fork" });
  await post(`/api/v1/sandboxes/${sandboxId}/snapshots`, {});
  await post(`/api/v1/sandboxes/${sandboxId}/pause`, {});
  const ids = [id, fork.id];
  const before = await readAll(server, ids);
  const failed = Object.entries(before).filter(([, { status }]) => status !== 200);
  expect(failed).toEqual([]);

  const early = await migrate();
  expect(early.stderr).toMatch(/A Sandpiper process \(\d+\) works on the data folder .*end it/);
  expect(early.code).toBe(1);
  const dry = await migrate("--dry-run");
  expect(dry.stdout).toMatch(/conversations +2\n/);
  expect(dry.stdout).toContain("would be copied to the empty database");
  expect(dry.code).toBe(0);
  expect(await query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).toEqual([]);
  await server.end("SIGTERM");

  const done = await migrate();
  expect(done.stderr).toBe("");
  expect(done.stdout).toMatch(/2 logs of conversations. All digests agree.\n\nNext:\n {2}1. Start/);
  expect(done.code).toBe(0);
  expect(done.stdout).not.toContain(postgres.password);
  expect((await migrate()).stdout).toContain("has the data of this folder already");

  server = await startServerProcess(dataDir, env);
  expect(await readAll(server, ids)).toEqual(before);
  const running = await migrate();
  expect(running.stderr).toContain("works on the data folder");
  expect(running.code).toBe(1);
  await say(id, "three");
  const texts = models.requests.at(-1)!.messages.filter(({ role }) => role === "user");
  expect(texts.map(({ text }) => text)).toEqual(["one", "three"]);
});

test("kill -9 at any point leaves an empty database, and the next run copies everything", async () => {
  const [id] = await fillWithConversations(dataDir, 20);
  const database = new DatabaseSync(join(dataDir, "store", "sandpiper.db"));
  const count = 200_000;
  database.exec(`INSERT INTO events (key, conversation, listed_index, id, kind, timestamp, json)
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT 16777216 + i, 1, i, 'event-' || i, 'MessageEvent', printf('2026-01-01T00:00:00.%06d', i),
      '{"id":"event-' || i || '","text":"' || hex(randomblob(100)) || '"}' FROM n`);
  database.exec(`UPDATE conversations SET last_seq = ${count}, last_listed = ${count} WHERE number = 1`);
  database.close();
  // First while rows are sent, then while they are compared.
  for (const command of ["COPY FROM", "COPY TO"]) {
    const running = new Command(["migrate", "--to", "postgres"], env, {
      program: [process.execPath, "packages/server/src/main.ts"],
      cwd: fileURLToPath(new URL("../../../", import.meta.url)),
    });
    const sql = `SELECT 1 FROM pg_stat_progress_copy WHERE command = '${command}' AND tuples_processed > 10000`;
    await until(async () => (await query(sql)).length > 0 || undefined);
    running.signal("SIGKILL");
    await running.exit;
    expect(running.stdout).toBe("");
    expect(await query("SELECT count(*)::int AS count FROM events")).toEqual([{ count: 0 }]);
    expect(await query("SELECT count(*)::int AS count FROM installation")).toEqual([{ count: 0 }]);
  }
  const done = await migrate();
  expect(done.stdout).toContain("All digests agree.");
  expect(done.code).toBe(0);
  await query(`UPDATE events SET json = json || ' ' WHERE id = 'event-${count / 2}'`);
  const changed = await migrate();
  expect(changed.stderr).toContain(`the log of conversation ${id}: the digests differ`);
  expect(changed.code).toBe(1);
});

test("wrong uses say what to do", async () => {
  const none = new Command(["migrate", "--to", "postgres"], { SANDPIPER_DATA: dataDir });
  expect(await none.exit).toBe(2);
  expect(none.stderr).toContain("set SANDPIPER_DATABASE_URL_FILE");
  const engine = new Command(["migrate", "--to", "mysql"], env);
  expect(await engine.exit).toBe(2);
  expect(engine.stderr).toContain("Allowed choices are postgres");
  const empty = await migrate();
  expect(empty.code).toBe(1);
  expect(empty.stderr).toMatch(/vault.key|has no store to copy/);
});
