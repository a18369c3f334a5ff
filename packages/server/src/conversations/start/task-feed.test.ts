import { newId } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import type { StartTaskRow } from "../../store/start-task-store.ts";
import type { Store } from "../../store/store.ts";
import { TaskFeed } from "./task-feed.ts";

/** The task of a start whose node stood still while another node took the start. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

let store: Store;
let close: () => Promise<void>;
let task: StartTaskRow;
const late = () => "the node that stood still";
const next = () => "the next node";
beforeEach(async () => {
  ({ store, close } = await postgresEngine(() => server).createTestStore());
  task = {
    ...{ id: newId(), userId: "default", conversationId: newId(), sandboxId: null, request: {} },
    ...{ status: "WORKING", detail: null, createdAt: 1, updatedAt: 1 },
  };
  await store.startTasks.create(task, { owner: late() });
  expect(await store.startTasks.claim(next())).toMatchObject([{ id: task.id }]);
});
afterEach(() => close());

test("progress of the earlier owner does not replace that of the next one", async () => {
  await new TaskFeed(store.startTasks, next).update(task.id, { status: "SETTING_UP_SKILLS" });
  const old = new TaskFeed(store.startTasks, late);
  for (const status of ["PREPARING_REPOSITORY", "READY", "ERROR"] as const)
    await expect(old.update(task.id, { status, detail: "late" })).rejects.toMatchObject({
      code: "OwnershipLost",
    });
  expect(await store.startTasks.get(task.id)).toMatchObject({ status: "SETTING_UP_SKILLS", detail: null });
});

test("the earlier owner sees the end of a task that the next one has ended", async () => {
  await new TaskFeed(store.startTasks, next).update(task.id, { status: "READY" });
  await new TaskFeed(store.startTasks, late).update(task.id, { status: "PREPARING_REPOSITORY" });
  expect((await store.startTasks.get(task.id))?.status).toBe("READY");
});

test("a failure at the earlier owner does not end the task", async () => {
  await new TaskFeed(store.startTasks, late).fail(task.id, "The sandbox could not be started.");
  expect(await store.startTasks.get(task.id)).toMatchObject({ status: "WORKING", detail: null });
});
