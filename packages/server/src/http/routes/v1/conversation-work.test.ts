import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import yauzl from "yauzl";
import {
  message,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
});
afterAll(() => server.close());
const get = (path: string) => read(server.call("GET", path));
const post = (path: string, body: unknown, key?: string) =>
  read(server.call("POST", path, { body, ...(key && { key }) }));
const text = (words: string) => ({ content: [{ type: "text", text: words }] });
const texts = async (id: string) =>
  (await server.events.search(id, { kind: "MessageEvent", limit: 100 })).items
    .map((json) => JSON.parse(json))
    .filter(({ source }) => source === "user")
    .map(({ llm_message }) => llm_message.content[0].text);

test("a message needs a running sandbox, and every other state has its own error", async () => {
  const sandbox = server.sandboxes.add({ id: "sendable" });
  const id = await server.addConversation(defaultUser, sandbox.id);
  const path = `/api/v1/app-conversations/${hexId(id)}/send-message`;
  expect(await post(path, { ...text("hello"), run: false })).toEqual({
    status: 200,
    body: { success: true, sandbox_status: "RUNNING", message: null },
  });
  expect(await texts(id)).toEqual(["hello"]);
  expect((await server.store.conversations.get(id))?.summary.executionStatus).toBe("idle");
  expect((await post(path, text("go"))).status).toBe(200);
  await expect
    .poll(async () => (await server.store.conversations.get(id))?.summary.executionStatus)
    .toBe("finished");

  sandbox.status = "PAUSED";
  expect(await post(path, text("x"))).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining("POST /api/v1/sandboxes/sendable/resume") },
  });
  sandbox.status = "ERROR";
  expect((await post(path, text("x"))).status).toBe(503);
  server.sandboxes.rows.delete(sandbox.id);
  expect(await post(path, text("x"))).toMatchObject({
    status: 410,
    body: { detail: expect.stringContaining("archived") },
  });
  for (const other of [
    `conversations/${id}/events`,
    `conversations/${id}/run`,
    `v1/conversations/${id}/pending-messages`,
  ]) {
    expect([
      other,
      (await post(`/api/${other}`, other.endsWith("run") ? {} : { ...text("x"), run: true })).status,
    ]).toEqual([other, 410]);
  }
  expect((await post(`/api/v1/app-conversations/${newId()}/send-message`, text("x"))).status).toBe(404);
  expect((await post(path, text("x"), strangerKey)).status).toBe(404);
  for (const body of [{}, { content: [] }, { content: "x" }, { role: "agent", ...text("x") }]) {
    expect([body, (await post(path, body)).status]).toEqual([body, 422]);
  }
  expect(await texts(id)).toEqual(["hello", "go"]);
});

test("a message with an id is sent once, however often and at once it is repeated", async () => {
  const sandbox = server.sandboxes.add({ id: "repeated" });
  const id = await server.addConversation(defaultUser, sandbox.id);
  const path = `/api/v1/app-conversations/${hexId(id)}/send-message`;
  const message_id = newId();
  const repeat = () => post(path, { ...text("once"), run: false, message_id });
  const others = (name: string) =>
    Array.from({ length: 5 }, (_, index) => post(path, { ...text(`${name} ${index}`), run: false }));
  const answers = await Promise.all([...others("a"), repeat(), ...others("b"), repeat(), repeat()]);
  answers.push(await repeat(), await post(path, { ...text("x"), run: false, message_id: hexId(message_id) }));
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  const sent = await texts(id);
  expect(sent.filter((words) => words === "once")).toEqual(["once"]);
  expect(sent).toHaveLength(11);
  expect((await server.events.batch(id, [message_id]))[0]).toContain("once");
  expect((await post(path, { ...text("x"), message_id: "nonsense" })).status).toBe(422);
});

test("messages to a starting conversation are queued in order and delivered once", async () => {
  const conversationId = newId();
  const task = {
    id: newId(),
    userId: defaultUser,
    status: "WAITING_FOR_SANDBOX" as const,
    detail: null,
    conversationId,
    sandboxId: null,
    request: {},
    createdAt: 1,
    updatedAt: 1,
  };
  await server.store.startTasks.create(task);
  const byTask = `/api/v1/conversations/task-${hexId(task.id)}/pending-messages`;
  const byId = `/api/v1/conversations/${conversationId}/pending-messages`;
  for (let position = 1; position <= 10; position++) {
    const added = await post(position % 2 ? byTask : byId, text(`m${position}`));
    expect(added).toEqual({
      status: 201,
      body: { id: expect.stringMatching(/^[0-9a-f]{32}$/), queued: true, position },
    });
  }
  expect(await post(byTask, text("one too many"))).toMatchObject({ status: 429 });
  expect((await post(byTask, text("x"), strangerKey)).status).toBe(404);
  expect((await post(byId, text("x"), strangerKey)).status).toBe(404);

  const { id } = { id: conversationId };
  const config = (await server.store.conversations.get(await server.addConversation()))!.config;
  await server.store.conversations.create({
    id,
    userId: defaultUser,
    sandboxId: "sandbox-1",
    config,
    title: null,
    parentId: null,
    createdAt: 1,
  });
  await server.store.startTasks.update(task.id, { status: "READY" });
  await Promise.all([server.conversations.pending.deliver(id), server.conversations.pending.deliver(id)]);
  expect(await texts(id)).toEqual(Array.from({ length: 10 }, (_, index) => `m${index + 1}`));
  expect(await server.store.pendingMessages.listByConversation(id)).toEqual([]);
  expect((await server.store.conversations.get(id))?.summary.executionStatus).not.toBe("idle");

  expect((await post(byTask, text("late"))).body.position).toBe(1);
  await expect.poll(async () => (await texts(id)).at(-1)).toBe("late");
});

test("messages to failed starts and unknown conversations are rejected", async () => {
  const task = {
    id: newId(),
    userId: defaultUser,
    detail: "no",
    conversationId: newId(),
    sandboxId: null,
    request: {},
  };
  await server.store.startTasks.create({ ...task, status: "ERROR", createdAt: 1, updatedAt: 1 });
  const path = (target: string) => `/api/v1/conversations/${target}/pending-messages`;
  expect((await post(path(`task-${task.id}`), text("x"))).status).toBe(409);
  expect((await post(path(task.conversationId), text("x"))).status).toBe(409);
  for (const target of [newId(), `task-${newId()}`, "task-", "task-x", "nothing"]) {
    expect([target, (await post(path(target), text("x"))).status]).toEqual([target, 404]);
  }
  expect((await post(path(newId()), { content: [] })).status).toBe(400);
});

test("messages queued before a restart are delivered after it", async () => {
  const id = await server.addConversation();
  const row = { userId: defaultUser, conversationId: id, createdAt: 1 };
  for (const words of ["a", "b"])
    await server.store.pendingMessages.create({
      ...row,
      id: newId(),
      content: [{ type: "text", text: words, cache_prompt: false }],
    });
  await server.conversations.adopt("all");
  await expect.poll(() => texts(id)).toEqual(["a", "b"]);
});

test("a conversation is downloaded as a zip with its events in order, without a sandbox and without keys", async () => {
  const id = await server.addConversation(defaultUser, "gone");
  const count = 1_234;
  const records = Array.from({ length: count }, (_, index) => ({
    listed: true,
    event: message(`words ${index}`),
  }));
  await server.events.append(id, records);
  const answer = await server.call("GET", `/api/v1/app-conversations/${hexId(id)}/download`);
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("application/zip");
  expect(answer.headers.get("content-disposition")).toContain(`conversation_${hexId(id)}.zip`);
  const files = await unzip(Buffer.from(await answer.arrayBuffer()));
  expect(JSON.parse(files[0]![1])).toMatchObject({
    id: hexId(id),
    session_api_key: null,
    sandbox_status: "MISSING",
  });
  expect(files[0]![0]).toBe("meta.json");
  const stored = (await server.events.search(id, { limit: count })).items;
  expect(files.slice(1)).toEqual(
    stored.map((json, index) => [
      `event_${String(index).padStart(6, "0")}_${JSON.parse(json).id}.json`,
      json,
    ]),
  );
  expect(
    (await server.call("GET", `/api/v1/app-conversations/${id}/download`, { key: strangerKey })).status,
  ).toBe(404);

  const empty = await server.addConversation();
  const small = await server.call("GET", `/api/v1/app-conversations/${empty}/download`);
  expect((await unzip(Buffer.from(await small.arrayBuffer()))).map(([name]) => name)).toEqual(["meta.json"]);
});

test("reads of a stopped sandbox get an error, or are empty where that is documented", async () => {
  const paused = server.sandboxes.add({ id: "paused", status: "PAUSED" });
  const id = await server.addConversation(defaultUser, paused.id);
  const base = `/api/v1/app-conversations/${id}`;
  expect(await get(`${base}/file`)).toEqual({ status: 200, body: "" });
  expect(await get(`/api/v1/app-conversations/${newId()}/file?file_path=/etc/passwd`)).toEqual({
    status: 200,
    body: "",
  });
  expect(await get(`${base}/skills`)).toEqual({ status: 200, body: { skills: [] } });
  expect(await get(`${base}/hooks`)).toMatchObject({ status: 409, body: { error: expect.any(String) } });
  expect((await get(`${base}/git/changes?path=.`)).status).toBe(409);
  expect((await get(`${base}/files`)).status).toBe(409);
  expect((await get(`${base}/git/diff?path=a`)).status).toBe(409);
  expect((await get(`${base}/git/diff`)).status).toBe(422);
  const archived = await server.addConversation(defaultUser, "gone");
  expect((await get(`/api/v1/app-conversations/${archived}/git/changes?path=.`)).status).toBe(404);
  for (const what of ["files", "skills", "hooks", "git/changes?path=.", "git/diff?path=a"]) {
    expect([what, (await get(`/api/v1/app-conversations/${newId()}/${what}`)).status]).toEqual([what, 404]);
  }
});

test("profiles that the settings do not have, and ACP models, are refused", async () => {
  const id = await server.addConversation();
  const base = `/api/v1/app-conversations/${id}`;
  expect(await post(`${base}/switch_profile`, { profile_name: "none" })).toMatchObject({ status: 404 });
  expect((await post(`${base}/switch_profile`, {})).status).toBe(422);
  expect(await post(`${base}/switch_acp_model`, { model: "x" })).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining("switch_profile") },
  });
  expect((await post(`/api/v1/app-conversations/${newId()}/switch_acp_model`, { model: "x" })).status).toBe(
    404,
  );
});

/** Names and contents of a zip's files. */
function unzip(zip: Buffer): Promise<[string, string][]> {
  return new Promise((resolve, reject) => {
    yauzl.fromBuffer(zip, { lazyEntries: true }, (error, file) => {
      if (error) return reject(error);
      const files: [string, string][] = [];
      file.on("end", () => resolve(files));
      file.on("error", reject);
      file.on("entry", (entry) => {
        file.openReadStream(entry, async (failure, stream) => {
          if (failure) return reject(failure);
          const chunks: Buffer[] = [];
          for await (const chunk of stream) chunks.push(chunk as Buffer);
          files.push([entry.fileName, Buffer.concat(chunks).toString()]);
          file.readEntry();
        });
      });
      file.readEntry();
    });
  });
}
