import { PlatformError } from "@sandpiper/core/errors";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

test("a conversation or fork that cannot be stored leaves no secret in the sandbox", async () => {
  const sandbox = server.addSandbox();
  const call = (path: string, body: unknown) =>
    read(server.call("POST", path, { key: sandbox.sessionKey, body }));
  const request = {
    agent: { kind: "Agent", llm: { model: "openai/any" }, tools: [] },
    workspace: { kind: "LocalWorkspace", working_dir: "/workspace/project" },
    secrets: { TOKEN: "a-planted-secret" },
  };
  const kept = async () =>
    (await server.store.conversationSecrets.listBySandbox(sandbox.id)).map(
      ({ conversationId }) => conversationId,
    );
  const { conversations } = server.store;
  const create = conversations.create;
  const fill = () => {
    conversations.create = () => Promise.reject(new PlatformError("StorageFull", "The disk is full."));
  };

  fill();
  expect((await call("/api/conversations", request)).status).toBe(507);
  expect(await kept()).toEqual([]);
  conversations.create = create;
  const { id } = (await call("/api/conversations", request)).body;
  await server.addMessages(id, "one");
  expect(await kept()).toEqual([id]);
  fill();
  expect((await call(`/api/conversations/${id}/fork`, {})).status).toBe(507);
  expect(await kept()).toEqual([id]);
  conversations.create = create;
  const fork = await call(`/api/conversations/${id}/fork`, {});
  expect(fork.status).toBe(201);
  expect(await kept()).toEqual([id, fork.body.id]);
});
