import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, until } from "../support/platform.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { finish } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** Starts of a user with a grouping setting, over two servers on one PostgreSQL database. */

let postgres: PostgresServer;
let database: string;
let dataDir: string;
let models: ModelServer;
let nodes: ServerProcess[];

beforeEach(async () => {
  postgres = await startPostgres();
  models = await startModelServer(() => finish("done"));
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-grouping-"));
  database = await postgres.createDatabase();
  const env = { SANDPIPER_DATABASE_URL: database, SANDPIPER_MAX_REQUESTS: "0" };
  nodes = [await startServerProcess(dataDir, env)];
  nodes.push(await startServerProcess(dataDir, env));
  const settings = {
    ...{ llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url },
    sandbox_grouping_strategy: "FEWEST_CONVERSATIONS",
  };
  expect((await nodes[0]!.call("POST", "/api/settings", settings)).status).toBe(200);
}, 120_000);
afterEach(async () => {
  await removeSandboxes(nodes.at(-1)!.call).catch(() => {});
  await Promise.all(nodes.map((node) => node.end("SIGTERM")));
  await models.close();
  await postgres.remove();
  await rm(dataDir, { recursive: true, force: true });
}, 120_000);

const routes: [path: string, body: Json][] = [
  ["/api/v1/app-conversations", {}],
  ["/api/v1/app-conversations/stream-start", {}],
  ["/api/conversations", {}],
  ["/v1/chat/completions", { model: "default", messages: [{ role: "user", content: "hi" }] }],
  ["/v1/responses", { model: "default", input: "hi" }],
];

const asStart = ["/api/v1/app-conversations", {}] as const;

/** Returns the sandboxes of a number of conversations, each of which is ready. */
async function whenReady(node: ServerProcess, count: number): Promise<string[]> {
  return until(async () => {
    const { body } = await node.call("GET", "/api/v1/app-conversations/search?limit=100");
    const ready = body.items.filter(({ sandbox_status: status }: Json) => status === "RUNNING");
    return ready.length === count && ready.map(({ sandbox_id: id }: Json) => id);
  });
}

test("starts that two nodes get at once by all routes share one sandbox", async () => {
  const starts = nodes.flatMap((node) => routes.map(([path, body]) => node.call("POST", path, body)));
  const statuses = (await Promise.all(starts)).map(({ status }) => status);
  expect(statuses).toEqual(starts.map(() => 200));
  const sandboxes = await whenReady(nodes[1]!, starts.length);
  expect(new Set(sandboxes).size).toBe(1);
  // The next start goes to the sandbox too, whichever node is asked.
  for (const node of nodes) expect((await node.call("POST", ...asStart)).status).toBe(200);
  expect(new Set(await whenReady(nodes[0]!, starts.length + 2))).toEqual(new Set(sandboxes));
}, 180_000);

test("when the node with the shared sandbox is killed, the next owner takes the starts", async () => {
  expect((await nodes[0]!.call("POST", ...asStart)).status).toBe(200);
  const [shared] = await whenReady(nodes[0]!, 1);
  const [found] = await postgres.query<{ url: string }>(
    "SELECT n.url FROM nodes n JOIN sandboxes s ON s.owner = n.incarnation",
    [],
    new URL(database).pathname.slice(1),
  );
  const owner = nodes.findIndex((node) => node.url === found?.url);
  expect(owner).toBeGreaterThanOrEqual(0);
  const [ended] = nodes.splice(owner, 1);
  await ended!.end("SIGKILL");
  expect((await nodes[0]!.call("POST", ...asStart)).status).toBe(200);
  expect(await whenReady(nodes[0]!, 2)).toEqual([shared, shared]);
}, 180_000);
