import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, type Followed } from "@sandpiper/client";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { removeSandboxes } from "../support/platform.ts";
import { finish, terminal } from "../support/script.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let server: ServerProcess;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-client-restart-"));
  models = await startModelServer(({ index }) => {
    // The answers arrive in pieces, so that the kills come between them, too.
    if (index < 6) return reply.toolCalls([terminal(`echo step ${index}; sleep 0.3`)]);
    return index === 6 ? reply.text("word ".repeat(60), { paceMs: 20, deltaSize: 5 }) : finish("Done.");
  });
  server = await startServerProcess(dataDir);
});
afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server?.end("SIGTERM");
  await models?.close();
  await rm(dataDir, { recursive: true, force: true });
});

test("a follower sees each event once and in order while the server is killed and started again", async () => {
  const port = new URL(server.url).port;
  const client = new Client({ url: server.url, key: server.key });
  const llm = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", { ...llm, confirmation_mode: false })).status).toBe(200);
  const { app_conversation_id: id } = await client.conversations.start({
    initial_message: { content: [{ type: "text", text: "Work" }] },
  });
  const all: Followed[] = [];
  let kills = 0;
  let restarted = Promise.resolve();
  const restart = async () => {
    await server.end("SIGKILL");
    server = await startServerProcess(dataDir, { SANDPIPER_PORT: port });
  };
  const isAnswer = (each: Followed) =>
    each.type === "event" && each.event.kind === "MessageEvent" && each.event.source === "agent";
  for await (const each of client.follow(id, { maxWaitMs: 500 })) {
    all.push(each);
    const events = all.filter(({ type }) => type === "event").length;
    if (each.type === "event" && kills < 3 && events === 4 + kills * 3) {
      kills++;
      restarted = restarted.then(restart);
    }
    if (isAnswer(each)) break;
  }
  await restarted;
  expect(kills).toBe(3);
  const followed = all.filter((each) => each.type === "event");
  const seqs = followed.map(({ seq }) => seq);
  expect(seqs).toEqual([...new Set(seqs)].sort((left, right) => left - right));
  const stored: string[] = [];
  for await (const event of client.events.all(id)) stored.push(event.id);
  expect(followed.map(({ event }) => event.id)).toEqual(stored.slice(0, followed.length));
  const states = all.flatMap((each) => (each.type === "connection" ? [each.state] : []));
  expect(states.filter((state) => state === "away").length).toBeGreaterThanOrEqual(3);
  expect(states.at(-1)).toBe("live");
});
