import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Command } from "../support/command.ts";
import { caller, removeSandboxes, SocketClient, until } from "../support/platform.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";

/** A git service, a model, an MCP server and a webhook receiver that never answer. */

let dataDir: string;
let silent: Server;
let address: string;
const taken = new Set<Socket>();
let server: ServerProcess;
const env = { SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8" };

beforeAll(async () => {
  silent = createServer((socket) => void taken.add(socket.on("error", () => {}))).listen(0, "127.0.0.1");
  await once(silent, "listening");
  address = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-hanging-"));
  await writeFile(
    join(dataDir, "specs.json"),
    JSON.stringify({ specs: [{ id: "host", network: { private: ["127.0.0.0/8"] } }] }),
  );
  server = await startServerProcess(dataDir, env);
});

afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  for (const socket of taken) socket.destroy();
  silent.close();
  await rm(dataDir, { recursive: true, force: true });
});

test("silent services delay nothing else, and the server still ends within its time limit", async () => {
  const { call } = server;
  const command = new Command(["keys", "create", "--user", "ann"], { SANDPIPER_DATA: dataDir });
  expect(await command.exit).toBe(0);
  const ann = caller(server.url, command.stdout.trim());
  await ann("POST", "/api/settings", { llm_model: "openai/other" });

  await call("POST", "/api/settings", {
    ...{ llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: address },
    mcp_config: { sse_servers: [], stdio_servers: [], shttp_servers: [{ url: `${address}/mcp` }] },
  });
  // A silent service cannot check a token, so it is stored directly, for a self-hosted git service.
  const hung: Promise<unknown>[] = [];
  const asks = (method: string, path: string, body?: unknown) =>
    hung.push(call(method, path, body).catch(() => {}));
  const host = address;
  asks("POST", "/api/v1/secrets/git-providers", {
    provider_tokens: { forgejo: { token: "a-token-of-forgejo", host } },
  });
  const message = { initial_message: { content: [{ type: "text", text: "Work" }] } };
  const processors = [{ kind: "WebhookCallbackProcessor", url: `${address}/hook` }];
  const started = (await call("POST", "/api/v1/app-conversations", { ...message, processors })).body;
  const id = await until(
    async () =>
      (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${started.id}`)).body[0]
        .app_conversation_id ?? undefined,
  );
  const plugins = [{ source: `${address}/some/plugin.git` }];
  asks("POST", "/api/v1/app-conversations/stream-start", { ...message, plugins });
  const mcp = Object.keys((await call("GET", "/api/v1/settings")).body.agent_settings.mcp_config)[0];
  if (mcp) asks("POST", `/api/v1/settings/mcp/${encodeURIComponent(mcp)}/test`);
  const socket = SocketClient.forConversation(server, id);
  await until(() => taken.size >= 3 || undefined);

  const times: number[] = [];
  for (let count = 0; count < 150; count++) {
    const began = performance.now();
    const { status } = count % 2 ? await ann("GET", "/api/v1/settings") : await call("GET", "/health");
    times.push(performance.now() - began);
    expect(status).toBe(200);
  }
  const p99 = times.sort((a, b) => a - b)[148]!;
  const began = Date.now();
  expect(await server.end("SIGTERM")).toBe(0);
  const seconds = (Date.now() - began) / 1000;
  await Promise.all(hung);
  process.stdout.write(
    `hanging: ${taken.size} connections, p50 ${times[75]!.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, end ${seconds} s\n`,
  );
  expect(p99).toBeLessThan(5_000);
  expect(seconds).toBeLessThan(30);
  expect((await socket.closed).code).toBe(1001);
  server = await startServerProcess(dataDir, env);
  expect((await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status).toBe(
    "running",
  );
});
