import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ModelServer,
  reply,
  type Script,
  startModelServer,
} from "@sandpiper/models/test/support/model-server";
import { textContent } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defaultUser } from "../src/users/default-user.ts";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

const modelKey = "sk-planted-model-key-0123456789";
let server: TestPlatform;
let models: ModelServer;
let script: Script;

beforeAll(async () => {
  models = await startModelServer((request) => script(request));
  server = await startTestPlatform();
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_api_key: modelKey,
    llm_base_url: models.url,
  });
});

afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const events = async (id: string): Promise<Json[]> =>
  (await server.call("GET", `/api/v1/conversation/${id}/events/search`)).body.items;
const sandboxes = async (): Promise<Json[]> =>
  (await server.call("GET", "/api/v1/sandboxes/search")).body.items;
const status = async (id: string): Promise<string> =>
  (await server.call("GET", `/api/conversations/${id}`)).body.execution_status;
const waitForEnd = (id: string, wanted = "finished") =>
  until(async () => (await status(id)) === wanted || undefined);

test("twenty equal starts with one conversation id at once make one start and one sandbox", async () => {
  script = () => finish("Done.");
  const before = (await sandboxes()).length;
  const request = { conversation_id: randomUUID(), initial_message: { content: [textContent("Work")] } };
  // Straight at the service: over sockets they would not arrive in one turn of the event loop.
  const { conversations } = server.platform;
  const starts = await Promise.allSettled(
    Array.from({ length: 20 }, () => conversations.starts.start(defaultUser, request)),
  );
  const tasks = starts.map((start) => start.status === "fulfilled" && start.value.id);
  expect(new Set(tasks)).toEqual(new Set([expect.any(String)]));
  await waitForEnd(request.conversation_id);
  expect((await sandboxes()).length - before).toBe(1);
  expect((await events(request.conversation_id)).filter(({ source }) => source === "user")).toHaveLength(1);
});

test("a repeated start gets the task of the first, and another start with the same id is refused", async () => {
  script = () => finish("Done.");
  const request = {
    conversation_id: randomUUID(),
    initial_message: { content: [textContent("Work")] },
    secrets: { KEY: "a value" },
  };
  const start = (body: object) => server.call("POST", "/api/v1/app-conversations", body);
  const first = await start(request);
  expect(first.status).toBe(200);
  const { id } = first.body;
  const streamed = await server.call("POST", "/api/v1/app-conversations/stream-start", request);
  expect(streamed.body[0]).toMatchObject({ id });
  expect(streamed.body.at(-1)).toMatchObject({ id, status: "READY" });
  expect(await start(request)).toMatchObject({ status: 200, body: { id, status: "READY" } });
  expect((await start({ ...request, title: "Another" })).status).toBe(409);
  expect((await events(request.conversation_id)).filter(({ source }) => source === "user")).toHaveLength(1);
});

test("a run whose sandbox is deleted ends with an error instead of asking the model again and again", async () => {
  const first = models.requests.length;
  script = ({ index }) => reply.toolCalls([terminal(index === first ? "sleep 600" : `echo ${index}`)]);
  const { id, sandboxId } = await startConversation(server.call, "Work");
  await until(async () => (await events(id)).some(({ kind }) => kind === "ActionEvent") || undefined);
  await server.call("DELETE", `/api/v1/sandboxes/${sandboxId}`);
  await waitForEnd(id, "error");
  const stored = await events(id);
  expect(stored.at(-1)).toMatchObject({ kind: "ConversationErrorEvent", code: "SandboxNotFound" });
  for (const { tool_call_id } of stored.filter(({ kind }) => kind === "ActionEvent")) {
    expect(
      stored.filter((event) => event.kind !== "ActionEvent" && event.tool_call_id === tool_call_id),
    ).toHaveLength(1);
  }
  expect(models.requests.length - first).toBeLessThan(4);
});

test("a path outside the documents' folder gets a readable error", async () => {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    "GET /docs/static/%2e%2e/%2e%2e/package.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
  );
  let answer = "";
  for await (const chunk of socket) answer += chunk;
  expect(answer).toMatch(/^HTTP\/1\.1 403 /);
});

test("a range beyond a document's end gets 416, and two Host headers get 400", async () => {
  const { hostname, port } = new URL(server.url);
  const ask = async (...headers: string[]) => {
    const socket = connect(Number(port), hostname);
    const lines = ["GET /docs/static/swagger-ui.css HTTP/1.1", "Connection: close", "Host: x", ...headers];
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    let answer = "";
    for await (const chunk of socket) answer += chunk;
    return answer.slice(0, 12);
  };
  expect(await ask("Range: bytes=99999999-")).toBe("HTTP/1.1 416");
  expect(await ask("Host: y")).toBe("HTTP/1.1 400");
});

test("links in a sandbox and hostile archives give no access to files of the host", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-host-"));
  const marker = `host-${randomUUID()}`;
  writeFileSync(join(folder, "secret"), marker);
  try {
    const first = models.requests.length;
    const paths = ["link", "up", `root${folder}/secret`];
    script = ({ index }) => {
      const link = `ln -s ${folder}/secret link; ln -s ../../../../../..${folder}/secret up; ln -s / root`;
      if (index === first) return reply.toolCalls([terminal(link)]);
      const path = paths[index - first - 1];
      return path
        ? reply.toolCalls([editor({ command: "view", path: `/workspace/project/${path}` })])
        : finish("Done.");
    };
    const { id, sandboxId } = await startConversation(server.call, "Look around");
    await waitForEnd(id);
    expect(JSON.stringify(await events(id))).not.toContain(marker);

    const archive = `${server.url}/api/v1/sandboxes/${sandboxId}/archive`;
    const headers = { "X-Session-API-Key": server.key };
    for (const path of [".", "link", `root${folder}`, folder]) {
      const answer = await fetch(`${archive}?path=${encodeURIComponent(path)}`, { headers });
      expect(await answer.text()).not.toContain(marker);
    }

    // A link to the folder and then a file through it; a name that climbs; an absolute name.
    symlinkSync(folder, join(folder, "through"));
    const tar = (...args: string[]) => execFileSync("tar", ["-cPf", "-", "-C", folder, ...args]);
    const before = readdirSync(folder).sort();
    const through = `tar -cf - -C "$1" through > "$1/a.tar" && tar -rPf "$1/a.tar" -C "$1" --transform='s,^secret,through/new,' secret && cat "$1/a.tar" && rm "$1/a.tar"`;
    const hostile = [
      execFileSync("sh", ["-c", through, "sh", folder]),
      tar(`--transform=s,^secret,../../../../..${folder}/new,`, "secret"),
      tar(`--transform=s,^secret,${folder}/new,`, "secret"),
    ];
    for (const body of hostile) {
      const answer = await fetch(archive, {
        method: "PUT",
        headers: { ...headers, "content-type": "application/x-tar" },
        body: new Uint8Array(body),
      });
      expect([200, 422]).toContain(answer.status);
    }
    expect(readdirSync(folder).sort()).toEqual(before);
    expect(readFileSync(join(folder, "secret"), "utf8")).toBe(marker);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the model's key is sent only to the model: no sandbox, event, response or file contains it", async () => {
  const first = models.requests.length;
  script = ({ index }) => {
    if (index === first)
      return reply.toolCalls([
        terminal("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"),
      ]);
    return index === first + 1
      ? finish("Done.")
      : reply.error(401, { error: { message: `Wrong key ${modelKey}` } });
  };
  const { id } = await startConversation(server.call, "Look around");
  await waitForEnd(id);
  const message = { role: "user", content: [{ type: "text", text: "Again" }], run: true };
  await server.call("POST", `/api/conversations/${id}/events`, message);
  await waitForEnd(id, "error");

  expect(models.requests.at(-1)?.apiKey).toBe(modelKey);
  const paths = [
    "/api/settings",
    "/api/v1/app-conversations/search",
    "/api/v1/sandboxes/search",
    `/api/conversations/${id}`,
  ];
  const shown = await Promise.all(
    paths.map(async (path) => JSON.stringify((await server.call("GET", path)).body)),
  );
  for (const text of [...shown, JSON.stringify(await events(id))]) expect(text).not.toContain(modelKey);
  // grep ends with 1 when nothing matched.
  expect(() => execFileSync("grep", ["-rlaFs", "--", modelKey, server.dataDir])).toThrow(/Command failed/);
});
