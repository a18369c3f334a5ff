import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SandboxService } from "@sandpiper/sandbox/service/service";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { parseId, textContent } from "@sandpiper/wire";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  type Json,
  removeSandboxes,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { startServerProcess } from "./support/server-process.ts";

let server: TestPlatform;
let call: TestPlatform["call"];

beforeAll(async () => {
  server = await startTestPlatform({ idlePauseMs: 200, hibernateAfterMs: 1, deleteAfterMs: 0 });
  ({ call } = server);
});
afterEach(() =>
  call("POST", "/api/settings", { sandbox_base_container_image: null, sandbox_grouping_strategy: null }),
);
afterAll(() => server?.stop());

/** Starts a conversation without a message; returns its finished start task. */
async function start(body: Json = {}): Promise<Json> {
  const started = await call("POST", "/api/v1/app-conversations", body);
  expect(started).toMatchObject({ status: 200 });
  return whenStarted(started.body.id);
}

/** A start task that has ended. */
function whenStarted(id: string): Promise<Json> {
  return until(async () => {
    const [task] = (await call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body;
    return ["READY", "ERROR"].includes(task.status) ? task : undefined;
  });
}

const sandboxOf = async (id: string): Promise<Json> =>
  (await call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];

/** A sandbox that runs, made by the route. */
async function makeSandbox(query = "", body?: Json): Promise<string> {
  const made = await call("POST", `/api/v1/sandboxes${query}`, body);
  expect(made).toMatchObject({ status: 200, body: { status: "STARTING" } });
  await server.platform.sandboxes.running(made.body.id);
  return made.body.id;
}

async function sh(id: string, command: string): Promise<string> {
  const sandbox = await server.platform.sandboxes.running(id);
  return (await runToEnd(sandbox, { argv: ["sh", "-c", command] }, { timeoutMs: 150_000 })).stdout.toString();
}

test("an unavailable image in the settings fails the start task with the reason within seconds", async () => {
  await call("POST", "/api/settings", { sandbox_base_container_image: "127.0.0.1:9/nothing:1" });
  const began = performance.now();
  const task = await start();
  expect(performance.now() - began).toBeLessThan(30_000);
  expect(task).toMatchObject({ status: "ERROR", detail: expect.stringMatching(/127\.0\.0\.1:9.*\.$/) });
  expect(await sandboxOf(task.sandbox_id)).toMatchObject({
    status: "ERROR",
    status_detail: task.detail,
    sandbox_spec_id: "127.0.0.1:9/nothing:1",
  });
  const refused = await call("POST", "/api/settings", { sandbox_base_container_image: "No Image!" });
  expect(refused.status).toBe(422);
  expect((await start({ sandbox_spec_id: "host" })).status).toBe("READY");
});

test("conversations share a sandbox by the user's strategy, each in its own folder", async () => {
  await call("POST", "/api/settings", { sandbox_grouping_strategy: "GROUP_BY_NEWEST" });
  const alone = await makeSandbox();
  const [first, second] = [await start(), await start()];
  expect([first.sandbox_id, second.sandbox_id]).toEqual([alone, alone]);
  const folders = await sh(alone, "ls /workspace/project");
  expect(folders.trim().split("\n").sort()).toEqual(
    [first.app_conversation_id, second.app_conversation_id].sort(),
  );
  // Options that only a new sandbox supports prevent sharing.
  expect((await start({ network: { mode: "none" } })).sandbox_id).not.toBe(alone);
  // The sandbox goes with its last conversation.
  await call("DELETE", `/api/v1/app-conversations/${first.app_conversation_id}`);
  expect(await sandboxOf(alone)).not.toBeNull();
  await call("DELETE", `/api/v1/app-conversations/${second.app_conversation_id}`);
  expect(await sandboxOf(alone)).toBeNull();
  expect(await call("POST", "/api/settings", { sandbox_grouping_strategy: "SOMEHOW" })).toMatchObject({
    status: 422,
  });
});

test("a sandbox does not go with its last conversation while another one is about to join it", async () => {
  await call("POST", "/api/settings", { sandbox_grouping_strategy: "GROUP_BY_NEWEST" });
  const { conversations } = server.platform;
  const shared = await makeSandbox();
  let last = await start();
  for (const joins of [
    {},
    { initial_message: { content: [textContent("hi")] }, llm_model: "demo/repair" },
    { sandbox_id: shared },
  ]) {
    expect(last.sandbox_id).toBe(shared);
    const joining = await conversations.starts.start("default", joins);
    await conversations.remove("default", parseId(last.app_conversation_id)!, {});
    last = await whenStarted(joining.id);
    expect(last).toMatchObject({ status: "READY", sandbox_id: shared });
  }
  await call("DELETE", `/api/v1/app-conversations/${last.app_conversation_id}`);
  expect(await sandboxOf(shared)).toBeNull();
});

test("a sandbox has the egress of its network policy, also after a hibernation", async () => {
  const ask = 'printf "%s " "$http_proxy"; curl -s -o /dev/null -w "%{http_code}" http://refused.example/';
  const shut = await makeSandbox("", { network: { mode: "none" } });
  expect(await sh(shut, ask)).toBe(" 000");
  const open = await makeSandbox("", { network: { mode: "allowlist", allow: [{ host: "other.example" }] } });
  const answer = await sh(open, ask);
  expect(answer).toMatch(/^http:\/\/plain:[\w-]{20,}@127\.0\.0\.1:3128 403$/);
  const { reaper } = server.platform.sandboxes as SandboxService;
  await until(async () => {
    await reaper.tick();
    const { body } = await call("GET", `/api/v1/sandboxes?id=${open}`);
    return body[0].status === "PAUSED" ? body : undefined;
  });
  await reaper.tick();
  const incarnation = (await server.platform.store.sandboxes.get(open))?.incarnation;
  expect(await sh(open, ask)).toBe(answer);
  expect((await server.platform.store.sandboxes.get(open))?.incarnation).not.toBe(incarnation);
  const task = (await start({ network: { mode: "none" } })) as Json;
  expect(await sh(task.sandbox_id, ask)).toBe(" 000");
  for (const network of [
    { mode: "some" },
    { mode: "allowlist", allow: [{ host: "http://x" }] },
    { mode: "open", credentials: [] },
    {},
  ])
    expect([network, (await call("POST", "/api/v1/sandboxes", { network })).status]).toEqual([
      network,
      "credentials" in network ? 200 : 422,
    ]);
  expect(
    (await call("POST", "/api/v1/app-conversations", { sandbox_id: shut, network: { mode: "open" } })).status,
  ).toBe(422);
});

test("snapshots are made, listed, forked and deleted over HTTP", async () => {
  const id = await makeSandbox();
  await sh(id, "echo then >file");
  const made = await call("POST", `/api/v1/sandboxes/${id}/snapshots`);
  expect(made).toMatchObject({ status: 201, body: { sandbox_id: id, sandbox_spec_id: "host" } });
  const snapshot = made.body.id;
  await sh(id, "echo now >file");
  expect(await sh(await makeSandbox(`?snapshot_id=${snapshot}`), "cat file")).toBe("then\n");
  expect((await call("GET", "/api/v1/snapshots/search")).body).toEqual({
    items: [made.body],
    next_page_id: null,
  });
  expect((await call("GET", `/api/v1/snapshots/${snapshot}`)).body).toEqual(made.body);
  expect(await call("DELETE", `/api/v1/snapshots/${snapshot}`)).toMatchObject({
    status: 200,
    body: { success: true },
  });
  for (const [method, path] of [
    ["DELETE", `/api/v1/snapshots/${snapshot}`],
    ["GET", `/api/v1/snapshots/${snapshot}`],
    ["POST", `/api/v1/sandboxes?snapshot_id=${snapshot}`],
    ["POST", "/api/v1/sandboxes/none/snapshots"],
  ] as const)
    expect([path, (await call(method, path)).status]).toEqual([path, 404]);
  expect((await call("GET", "/openapi.json")).body.paths).toHaveProperty(
    "/api/v1/sandboxes/{sandbox_id}/snapshots",
  );
});

test("a start continues from the records after a crash, and creates no sandbox that its task does not reference", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-crash-"));
  let one = await startTestPlatform({ dataDir });
  try {
    const { startTasks, sandboxes } = one.platform.store;
    const written: unknown[] = [];
    const [createTask, create] = [startTasks.create.bind(startTasks), sandboxes.create.bind(sandboxes)];
    startTasks.create = async (row) => {
      await createTask(row);
      written.push(row.sandboxId);
    };
    sandboxes.create = async (row) => {
      written.push(row.id);
      await create(row);
    };
    const { body } = await one.call("POST", "/api/v1/app-conversations", {});
    const ended = (id: string) =>
      until(async () => {
        const [task] = (await one.call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body;
        return ["READY", "ERROR"].includes(task.status) ? task : undefined;
      });
    const { status, sandbox_id: id, app_conversation_id: conversation } = await ended(body.id);
    expect([status, ...written]).toEqual(["READY", id, id]);

    // Only the task was written.
    await one.platform.store.conversations.remove(parseId(conversation)!);
    await one.call("DELETE", `/api/v1/sandboxes/${id}`);
    const left = {
      ...(await startTasks.get(parseId(body.id)!))!,
      id: randomUUID(),
      status: "WAITING_FOR_SANDBOX",
    } as const;
    await createTask(left);
    await one.platform.close();
    one = await startTestPlatform({ dataDir });
    const task = await ended(left.id);
    expect(task).toMatchObject({ status: "READY", app_conversation_id: conversation, detail: null });
    const { items } = (await one.call("GET", "/api/v1/sandboxes/search")).body;
    expect(items.map((sandbox: Json) => sandbox.id)).toEqual([task.sandbox_id]);
  } finally {
    await one.stop();
  }
});

test("kill -9 during an image download: the next server continues it, and a deletion leaves nothing", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "sandpiper-crash-"));
  // A registry that accepts connections and never answers.
  const registry: Server = createServer(() => {});
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(registry.address() as { port: number }).port}`;
  const image = `${host}/slow:1`;
  const env = { SANDPIPER_REGISTRIES: host };
  let process = await startServerProcess(dataDir, env);
  try {
    await process.call("POST", "/api/settings", { sandbox_base_container_image: image });
    const { body: task } = await process.call("POST", "/api/v1/app-conversations", {});
    const asked = async () =>
      (await process.call("GET", `/api/v1/app-conversations/start-tasks?ids=${task.id}`)).body[0];
    await until(async () => ((await asked()).status === "WAITING_FOR_SANDBOX" ? true : undefined));
    await process.end("SIGKILL");
    process = await startServerProcess(dataDir, env);
    const { sandbox_id: id, status } = await asked();
    expect(["WAITING_FOR_SANDBOX", "ERROR"]).toContain(status);
    expect((await process.call("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`)).status).toBe(200);
    const ended = await until(async () => ((await asked()).status === "ERROR" ? asked() : undefined));
    expect(ended.detail).toMatch(/\.$/);
    expect((await process.call("GET", "/api/v1/sandboxes/search")).body.items).toEqual([]);
    expect(await process.end("SIGTERM")).toBe(0);
  } finally {
    await removeSandboxes(process.call).catch(() => {});
    await process.end("SIGTERM");
    registry.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
