import { parseId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

test("a start whose shared sandbox is deleted as it is chosen gets another one", async () => {
  const call = (path: string, body: unknown) => read(server.call("POST", path, { body }));
  await call("/api/settings", { sandbox_grouping_strategy: "GROUP_BY_NEWEST" });
  const { sandboxes } = server;
  const kept = sandboxes.add({ createdAt: 1 });
  const deleted = sandboxes.add({ createdAt: 2 });
  const { search } = sandboxes;
  sandboxes.search = async (...query) => {
    const page = await search(...query);
    sandboxes.rows.delete(deleted.id);
    return page;
  };
  const { status, body } = await call("/api/v1/app-conversations", { title: "One" });
  const task = await server.store.startTasks.get(parseId(body.id)!);
  expect([status, task?.sandboxId]).toEqual([200, kept.id]);
});

test("starts that come at once share the sandbox that the first of them creates", async () => {
  await read(server.call("POST", "/api/settings", { body: { sandbox_grouping_strategy: "ADD_TO_ANY" } }));
  server.sandboxes.rows.clear();
  const start = () => read(server.call("POST", "/api/v1/app-conversations", { body: {} }));
  const answers = await Promise.all([start(), start(), start(), start()]);
  const tasks = await Promise.all(answers.map(({ body }) => server.store.startTasks.get(parseId(body.id)!)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(new Set(tasks.map((task) => task?.sandboxId)).size).toBe(1);
  expect(server.sandboxes.rows.size).toBe(1);
});
