import { type ModelServer, type Reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startConversation, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { finish } from "./support/script.ts";

/** The GUI's stop button pauses the sandbox: a silent model must not delay what follows. */

let server: TestPlatform;
let models: ModelServer;
const never = new Promise<Reply>(() => {});

beforeAll(async () => {
  models = await startModelServer(({ index }) => (index === 0 ? never : finish("Here.")));
  server = await startTestPlatform();
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_base_url: models.url,
    llm_api_key: "sk-test",
  });
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

test("pausing a sandbox ends the model call of its conversation, and a message after the resume is answered", async () => {
  const { call } = server;
  const { id, sandboxId } = await startConversation(call, "Think for ever.");
  const first = await until(() => models.requests[0]);
  const conversation = async () => (await call("GET", `/api/v1/app-conversations?ids=${id}`)).body[0];
  await until(
    async () =>
      (await call("GET", `/api/v1/sandboxes?id=${sandboxId}`)).body[0].status === "RUNNING" || undefined,
  );
  expect((await call("POST", `/api/v1/sandboxes/${sandboxId}/pause`)).status).toBe(200);
  expect(await first.finished).toBe(false);
  const kinds = async () => {
    const { items } = (await call("GET", `/api/v1/conversation/${id}/events/search?limit=100`)).body;
    return items.map(({ kind }: { kind: string }) => kind);
  };
  expect(await kinds()).toEqual(["SystemPromptEvent", "MessageEvent", "PauseEvent"]);
  expect((await call("POST", `/api/v1/sandboxes/${sandboxId}/resume`)).status).toBe(200);
  expect((await conversation()).execution_status).toBe("paused");
  const message = { role: "user", content: [{ type: "text", text: "Are you there?" }], run: true };
  expect((await call("POST", `/api/v1/app-conversations/${id}/send-message`, message)).status).toBe(200);
  await until(async () => (await conversation()).execution_status === "finished" || undefined);
  expect(await kinds()).not.toContain("ConversationErrorEvent");
  expect(models.requests).toHaveLength(2);
});
