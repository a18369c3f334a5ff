import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { makeNextVersion } from "../support/nodes/next-version.ts";
import { type Json, removeSandboxes, startConversation, until } from "../support/platform.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { finish, terminal } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** Servers of two versions, the newer one with another schema, replace each other one by one. */

let postgres: PostgresServer;
let dir: string;
let database: string;
let models: ModelServer;
let nodes: ServerProcess[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.remove());

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sandpiper-upgrade-"));
  database = await postgres.createDatabase();
  nodes = [];
});
afterEach(async () => {
  await removeSandboxes(nodes.at(-1)!.call).catch(() => {});
  await Promise.all(nodes.map((node) => node.end("SIGTERM")));
  await models?.close();
  await rm(dir, { recursive: true, force: true });
});

async function startNode(main?: string): Promise<ServerProcess> {
  const node = await startServerProcess(join(dir, "data"), { SANDPIPER_DATABASE_URL: database }, main);
  nodes.push(node);
  return node;
}

async function queryRows(sql: string): Promise<Json[]> {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Asks the servers in turn, as a load balancer does. Returns the answers to failed requests. */
function askInTurn(serving: readonly ServerProcess[], id: string) {
  const failures: unknown[] = [];
  const ends = new AbortController();
  const ask = async (node: ServerProcess, round: number): Promise<void> => {
    const call = [
      () => node.call("GET", `/api/v1/app-conversations?ids=${id}`),
      () => node.call("GET", `/api/v1/conversation/${id}/events/search?limit=1`),
      () => node.call("POST", "/api/settings", { llm_model: "openai/scripted" }),
      () => node.call("PATCH", `/api/v1/app-conversations/${id}`, { title: `Title ${round}` }),
    ][round % 4]!;
    const answer = await call();
    if (answer.status === 200) return;
    // A sandbox that moves during a request answers so: the client may repeat the request.
    const mayRepeat = answer.status === 503 && /has just moved/.test(answer.body.detail);
    await sleep(1_000);
    if (!mayRepeat || (await call()).status !== 200) failures.push(answer);
  };
  const asking = (async () => {
    const asked: Promise<void>[] = [];
    for (let round = 0; !ends.signal.aborted; round++) {
      asked.push(ask(serving[round % serving.length]!, round));
      await sleep(100);
    }
    await Promise.all(asked);
  })();
  return {
    failures,
    async end() {
      ends.abort();
      await asking;
    },
  };
}

test("servers are replaced one by one by a newer version with another schema: no request fails, and a conversation goes on through all of them", async () => {
  let isOver = false;
  models = await startModelServer(({ index }) =>
    isOver
      ? finish("Done.")
      : reply.toolCalls([terminal(`sleep 0.5; echo ${index} >> /tmp/done; cat /tmp/done`)]),
  );
  const old = [await startNode(), await startNode()];
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await old[0]!.call("POST", "/api/settings", settings)).status).toBe(200);
  const { id } = await startConversation(old[0]!.call, "Work");
  const outputs = async () => {
    const sql = `SELECT json::json AS event FROM events WHERE conversation = (SELECT number FROM conversations WHERE replace(id, '-', '') = '${id}') ORDER BY seq`;
    return (await queryRows(sql)).map(({ event }) => event).filter(({ kind }) => kind === "ObservationEvent");
  };
  const steps = async (more: number) => {
    const before = (await outputs()).length;
    await until(async () => (await outputs()).length >= before + more);
  };
  const serving = [...old];
  const asking = askInTurn(serving, id);
  await steps(2);
  const main = await makeNextVersion(join(dir, "next"));
  for (const node of old) {
    serving.push(await startNode(main));
    // The old servers go on with the changed schema.
    await steps(2);
    serving.splice(serving.indexOf(node), 1);
    expect(await node.end("SIGTERM")).toBe(0);
    await steps(2);
  }
  isOver = true;
  const last = nodes.at(-1)!;
  await until(async () => {
    const [found] = (await last.call("GET", `/api/v1/app-conversations?ids=${id}`)).body;
    return found.execution_status === "finished";
  });
  await asking.end();
  expect(asking.failures).toEqual([]);
  const versions = await queryRows("SELECT DISTINCT version FROM nodes ORDER BY version");
  expect(versions.at(-1)).toEqual({ version: "99.0.0" });
  expect(versions).toHaveLength(2);
  // Each command ran once, and none was interrupted.
  const done = (await outputs()).map(({ observation }) => observation.content?.[0]?.text ?? "");
  const numbers = done
    .findLast((text: string) => text.includes("0\n"))!
    .split("\n")
    .map(Number);
  expect(numbers.slice(0, -1)).toEqual(numbers.slice(0, -1).map((_value: number, at: number) => at));
});
