import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, startModelServer } from "@sandpiper/models/test/support/model-server";
import { startServerProcess } from "@sandpiper/server/test/support/server-process";
import { answer } from "./model.ts";

/** A server in a process of its own, with real sandboxes and the scripted model. */
export interface ClientPlatform {
  /** Variables of the clients' scripts. */
  env: { URL: string; KEY: string; MODEL_URL: string };
  models: ModelServer;
  stop(): Promise<void>;
}

export async function startClientPlatform(): Promise<ClientPlatform> {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-clients-"));
  const models = await startModelServer(answer);
  const server = await startServerProcess(dataDir, {
    SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8",
    SANDPIPER_MAX_REQUESTS: "0",
  });
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-scripted", llm_base_url: models.url };
  const { status, body } = await server.call("POST", "/api/settings", settings);
  if (status !== 200) throw new Error(`The settings were refused: ${JSON.stringify(body)}`);
  return {
    env: { URL: server.url, KEY: server.key, MODEL_URL: models.url },
    models,
    async stop() {
      const { body } = await server.call("GET", "/api/v1/sandboxes/search");
      for (const { id } of body.items)
        await server.call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
      await server.end("SIGTERM");
      await models.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
