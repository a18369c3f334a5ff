import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, strangerKey, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  server.sandboxes.add();
});
afterAll(() => server.close());

const post = (path: string, body?: unknown, key?: string) =>
  read(
    server.call("POST", `/api/conversations/${path}`, {
      ...(body !== undefined && { body }),
      ...(key && { key }),
    }),
  );

test("moves and forks are refused to other users, sandboxes and read-only keys, and for archived conversations", async () => {
  const id = await server.addConversation();
  const { key: readOnly } = await server.apiKeys.add("default", {
    name: "reader",
    readOnly: true,
    expiresAt: null,
  });
  const gone = await server.addConversation("default", "gone");
  const pursued = await server.addConversation();
  const goal = {
    objective: "o",
    maxIterations: 1,
    iteration: 1,
    status: "running",
    detail: null,
    messageId: "m",
    message: "m",
  } as const;
  await server.store.conversations.update(pursued, { config: { goal } });
  for (const [path, body] of [
    ["navigate", { event_id: null }],
    ["fork", {}],
  ] as const) {
    expect([path, (await post(`${id}/${path}`, body, strangerKey)).status]).toEqual([path, 404]);
    expect([path, (await post(`${id}/${path}`, body, server.sessionKey("sandbox-2"))).status]).toEqual([
      path,
      404,
    ]);
    expect([path, (await post(`${id}/${path}`, body, readOnly)).status]).toEqual([path, 403]);
    expect([path, (await post(`${newId()}/${path}`, body)).status]).toEqual([path, 404]);
    expect([path, (await post(`${gone}/${path}`, body)).status]).toEqual([path, 410]);
  }
  expect((await post(`${pursued}/navigate`, { event_id: null })).body.detail).toMatch(/goal/);
  const { body } = await post(`${pursued}/fork`, {}, server.sessionKey("sandbox-1"));
  expect(body).toMatchObject({ agent_state: {}, forked_from_conversation_id: pursued });
});

test("a fork before the first event is empty, and a fork needs no body", async () => {
  const id = await server.addConversation();
  const made = await post(`${id}/fork`);
  expect(made).toMatchObject({
    status: 201,
    body: { head_is_empty: true, leaf_event_id: null, forked_from_event_id: null },
  });
  const hostile = { id: [], title: 7, tags: { "Not A Key": "x" }, reset_metrics: "maybe", from_event_id: {} };
  for (const [name, value] of Object.entries(hostile))
    expect([name, (await post(`${id}/fork`, { [name]: value })).status]).toEqual([name, 422]);
  expect(
    (
      await post(`${id}/fork`, {
        id: null,
        title: null,
        tags: null,
        reset_metrics: null,
        from_event_id: null,
        more: 1,
      })
    ).status,
  ).toBe(201);
});
