import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, startConversation, until } from "./support/platform.ts";
import { finish } from "./support/script.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

/** Moves of HEAD and forks after kill -9. */

let dataDir: string;
let models: ModelServer;
let server: ServerProcess;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-branches-"));
  models = await startModelServer(() => finish("Done."));
  server = await startServerProcess(dataDir);
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterEach(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  await models.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function restart(): Promise<void> {
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir);
}

const info = async (id: string): Promise<Json> => (await server.call("GET", `/api/conversations/${id}`)).body;
const listed = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/conversations/${id}/events/search?limit=100`)).body.items;
const send = (id: string, text: string, run: boolean) =>
  server.call("POST", `/api/conversations/${id}/events`, {
    role: "user",
    content: [{ type: "text", text }],
    run,
  });
const waitForEnd = (id: string) =>
  until(async () => (await info(id)).execution_status === "finished" || undefined);

test("after a kill the model reads the branch on which HEAD was", async () => {
  const { id } = await startConversation(server.call, "one");
  await waitForEnd(id);
  const first = (await listed(id)).at(-1)!;
  await send(id, "two", true);
  await waitForEnd(id);
  expect(
    (await server.call("POST", `/api/conversations/${id}/navigate`, { event_id: first.id })).status,
  ).toBe(200);
  await restart();
  expect((await info(id)).leaf_event_id).toBe(first.id);
  await send(id, "three", true);
  await waitForEnd(id);
  const texts = models.requests
    .at(-1)!
    .messages.filter(({ role }) => role === "user")
    .map(({ text }) => text);
  expect(texts).toEqual(["one", "three"]);
});

test("a fork that a kill interrupts is complete or absent", async () => {
  const { id } = await startConversation(server.call, "x".repeat(1000));
  await waitForEnd(id);
  for (let i = 0; i < 8; i++)
    await Promise.all(Array.from({ length: 100 }, (_, at) => send(id, `message ${at}`, false)));
  const count = async (one: string) =>
    (await server.call("GET", `/api/conversations/${one}/events/count`)).body;
  const whole = await count(id);
  expect(whole).toBeGreaterThan(800);
  const known = (await server.call("GET", "/api/v1/app-conversations/count")).body;
  const forks: string[] = [];
  for (const afterMs of [3, 20]) {
    const forkId = crypto.randomUUID();
    const answer = server
      .call("POST", `/api/conversations/${id}/fork`, { id: forkId })
      .catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    await restart();
    const made = await answer;
    const there = (await server.call("GET", `/api/conversations/${forkId}`)).status === 200;
    if (made) expect([made.status, there]).toEqual([201, true]);
    if (there) expect(await count(forkId)).toBe(whole);
    if (there) forks.push(forkId);
  }
  expect((await server.call("GET", "/api/v1/app-conversations/count")).body).toBe(known + forks.length);
});
