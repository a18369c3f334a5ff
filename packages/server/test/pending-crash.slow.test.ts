import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, removeSandboxes, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

let dataDir: string;
let models: ModelServer;
let server: ServerProcess;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-pending-"));
  models = await startModelServer(() => reply.text("Read."));
  server = await startServerProcess(dataDir);
  const settings = { llm_model: "openai/scripted", llm_api_key: "sk-test", llm_base_url: models.url };
  expect((await server.call("POST", "/api/settings", settings)).status).toBe(200);
});

afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  await models.close();
  await rm(dataDir, { recursive: true, force: true });
});

// Before the start has a sandbox, and while it is prepared or just ready.
test.each([0, 60])(
  "messages that wait for a start are answered once, even if the server is killed %d ms later",
  async (ms) => {
    const { body: task } = await server.call("POST", "/api/v1/app-conversations", {});
    const sent = ["one", "two", "three"];
    for (const text of sent) {
      const path = `/api/v1/conversations/task-${task.id}/pending-messages`;
      expect((await server.call("POST", path, { content: [{ type: "text", text }] })).status).toBe(201);
    }
    await new Promise((resolve) => setTimeout(resolve, ms));
    await server.end("SIGKILL");
    server = await startServerProcess(dataDir);

    const id = await until(async () => {
      const { body } = await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${task.id}`);
      expect(body[0].status).not.toBe("ERROR");
      return body[0].app_conversation_id ?? undefined;
    });
    const events = async (): Promise<Json[]> =>
      (await server.call("GET", `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent`)).body.items;
    const status = async () =>
      (await server.call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0].execution_status;
    const answered = (all: Json[]) =>
      all.filter(({ source }) => source === "user").length >= 3 && all.at(-1)?.source === "agent";
    const all = await until(async () => {
      const now = await events();
      return answered(now) && (await status()) === "finished" ? now : undefined;
    });
    const texts = all
      .filter(({ source }) => source === "user")
      .map(({ llm_message }) => llm_message.content[0].text);
    expect(texts).toEqual(sent);
  },
);
