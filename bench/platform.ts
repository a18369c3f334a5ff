import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { readConfig } from "@sandpiper/server/config/read-config";
import { type Platform, startPlatform } from "@sandpiper/server/platform";
import WebSocket from "ws";
import { figures, type Row, sample } from "./measure.ts";

const key = "sp_bench-key-0123456789abcdefghijklmnopqrstuvwx";

/**
 * Latencies: from a request to the conversation's first model call, and from an event to a socket.
 */
export async function benchPlatform(): Promise<Row[]> {
  const dataDir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const config = readConfig({
    ...process.env,
    SANDPIPER_DATA: dataDir,
    SANDPIPER_API_KEY: key,
    SANDPIPER_PORT: "0",
  });
  const platform = await startPlatform({ ...config, logLevel: "error" });
  try {
    return [await postToModel(platform), await appendToSocket(platform)];
  } finally {
    for (const { id, userId } of await platform.store.sandboxes.all())
      await platform.sandboxes.remove(userId, id);
    await platform.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function request(platform: Platform, method: string, path: string, body?: unknown) {
  const response = await fetch(`${platform.url}${path}`, {
    method,
    headers: { "X-Session-API-Key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { id: string };
}

/** Time from the request that creates a conversation to the model's first request. */
async function postToModel(platform: Platform): Promise<Row> {
  let arrived = (_: number) => {};
  const models = await startModelServer(() => {
    arrived(performance.now());
    return reply.text("Done.");
  });
  await request(platform, "POST", "/api/settings", {
    llm_model: "openai/bench",
    llm_api_key: "sk-bench",
    llm_base_url: models.url,
  });
  const message = { initial_message: { content: [{ type: "text", text: "Hello" }] } };
  const ours = await sample(40, async () => {
    const arrival = new Promise<number>((resolve) => {
      arrived = resolve;
    });
    const start = performance.now();
    const [, at] = await Promise.all([
      request(platform, "POST", "/api/v1/app-conversations", message),
      arrival,
    ]);
    await settled(platform);
    return at - start;
  });
  const floor = await sample(40, async () => {
    const arrival = new Promise<number>((resolve) => {
      arrived = resolve;
    });
    const start = performance.now();
    const body = JSON.stringify({
      model: "bench",
      stream: true,
      messages: [{ role: "user", content: "Hello" }],
    });
    const call = fetch(`${models.url}/v1/chat/completions`, { method: "POST", body }).then((response) =>
      response.text(),
    );
    const at = await arrival;
    await call;
    return at - start;
  });
  await models.close();
  const own = figures(ours);
  return {
    name: "POST of a conversation to the model's first request",
    unit: "ms",
    figures: own,
    floor: { name: "fetch straight to the model", figures: figures(floor) },
    target: "< 25 ms",
    met: own.p50 < 25,
  };
}

/** Waits until nothing starts any more, so that one measurement does not burden the next. */
async function settled(platform: Platform): Promise<void> {
  const busy = async () =>
    (await platform.store.startTasks.listOpen()).length > 0 ||
    (await platform.store.conversations.listRunning()).length > 0;
  while (await busy()) await delay(5);
  // A start looks for skills after it is ready, without announcing the end.
  await delay(100);
}

/** Time from the append of a durable event to its frame at a WebSocket client in this process. */
async function appendToSocket(platform: Platform): Promise<Row> {
  const { id } = await request(platform, "POST", "/api/v1/app-conversations", {});
  await settled(platform);
  const conversationId = (await platform.store.startTasks.get(
    `${id.slice(0, 8)}-${id.slice(8, 12)}-${id.slice(12, 16)}-${id.slice(16, 20)}-${id.slice(20)}`,
  ))!.conversationId;
  const socket = new WebSocket(
    `${platform.url.replace("http", "ws")}/sockets/events/${conversationId}?session_api_key=${key}`,
  );
  await once(socket, "message");
  const ours = await sample(500, async () => {
    const frame = once(socket, "message");
    await platform.store.events.append(conversationId, [
      { listed: true, event: { kind: "PauseEvent", source: "user" } },
    ]);
    await frame;
  });
  socket.terminate();
  const own = figures(ours);
  return {
    name: "append of an event to its arrival at a socket",
    unit: "ms",
    figures: own,
    floor: { name: "a bare socket pair", figures: figures(await bareSocketPair()) },
    target: "< 2 ms",
    met: own.p50 < 2,
  };
}

async function bareSocketPair(): Promise<number[]> {
  const server: Server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const connected = once(server, "connection") as Promise<[Socket]>;
  const client = connect((server.address() as { port: number }).port, "127.0.0.1");
  const [accepted] = await connected;
  const payload = Buffer.alloc(200, "x");
  const durations = await sample(500, async () => {
    const arrival = once(client, "data");
    accepted.write(payload);
    await arrival;
  });
  client.destroy();
  server.close();
  return durations;
}
