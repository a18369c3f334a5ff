import { hexId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AgentServer, sdkRequest, startAgentServer } from "../support/agent-server.ts";
import { type Json, startTestPlatform, type TestPlatform } from "../support/platform.ts";

/**
 * Commands, files and git below a conversation, and its runtime (agent-server-1.49.md sections 2
 * and 3).
 */

let platform: TestPlatform;
let agent: AgentServer;
let base: string;
let other: string;

beforeAll(async () => {
  platform = await startTestPlatform();
  agent = await startAgentServer(platform);
  [base, other] = (await Promise.all(["one", "two"].map(create))) as [string, string];
});
afterAll(() => platform?.stop());

async function create(folder: string): Promise<string> {
  const workspace = { kind: "LocalWorkspace", working_dir: `/workspace/${folder}` };
  const { body } = await agent.call(
    "POST",
    "/api/conversations",
    sdkRequest("http://127.0.0.1:1", { workspace }),
  );
  return `/api/conversations/${body.id}`;
}
const run = async (command: string, extra: Json = {}, at = base) =>
  agent.call("POST", `${at}/bash/execute_bash_command`, { command, ...extra });
const raw = (path: string, init: RequestInit = {}) =>
  fetch(`${agent.url}${path}`, { ...init, headers: { "X-Session-API-Key": agent.key } });

test("a command below a conversation starts in its workspace and cannot start outside", async () => {
  await run("mkdir -p sub");
  for (const [cwd, folder] of [
    [undefined, "/workspace/one"],
    [null, "/workspace/one"],
    ["sub", "/workspace/one/sub"],
    ["/workspace/one/sub/..", "/workspace/one"],
  ] as const)
    expect((await run("pwd", cwd === undefined ? {} : { cwd })).body.stdout).toBe(`${folder}\n`);
  for (const cwd of ["/", "..", "sub/../..", "/workspace/one-more", "/workspace/two"])
    expect(await run("pwd", { cwd })).toEqual({
      status: 422,
      body: { detail: "path must be inside the conversation workspace" },
    });
});

test("the commands of a conversation have a history of their own", async () => {
  await agent.call("DELETE", "/api/bash/bash_events");
  const mine = (await run("echo mine")).body;
  const theirs = (await run("echo theirs", {}, other)).body;
  const shared = (await agent.call("POST", "/api/bash/execute_bash_command", { command: "echo all" })).body;
  const list = async (at: string) =>
    (await agent.call("GET", `${at}/bash/bash_events/search?kind__eq=BashOutput`)).body.items.map(
      ({ stdout }: Json) => stdout,
    );
  expect(await list(base)).toEqual(["mine\n"]);
  expect(await list(other)).toEqual(["theirs\n"]);
  expect(await list("/api")).toEqual(["mine\n", "theirs\n", "all\n"]);
  const events = `${base}/bash/bash_events`;
  expect((await agent.call("GET", `${events}/${mine.id}`)).body).toEqual(mine);
  for (const { id } of [theirs, shared])
    expect((await agent.call("GET", `${events}/${id}`)).status).toBe(404);
  expect((await agent.call("GET", `${events}/?ids=${mine.id}&ids=${theirs.id}`)).body).toEqual([mine, null]);
  const stop = (id: string) => agent.call("POST", `${base}/bash/bash_commands/${id}/stop`);
  expect((await stop(mine.command_id)).status).toBe(200);
  expect((await stop(theirs.command_id)).status).toBe(404);
  const started = await agent.call("POST", `${base}/bash/start_bash_command`, { command: "sleep 604" });
  expect(started.body).toMatchObject({ kind: "BashCommand", cwd: "/workspace/one" });
  expect((await stop(started.body.id)).status).toBe(200);
  expect((await agent.call("DELETE", events)).body).toEqual({ cleared_count: 4 });
  expect(await list("/api")).toEqual(["theirs\n", "all\n"]);
});

test("files below a conversation lie in its workspace", async () => {
  const form = () => {
    const data = new FormData();
    data.append("file", new Blob(["a,b\n"]), "data.csv");
    return data;
  };
  const files = `${base}/file`;
  const upload = (path: string) => raw(`${files}/upload?path=${path}`, { method: "POST", body: form() });
  expect((await upload("/workspace/one/in/data.csv")).status).toBe(200);
  expect((await upload("in/more.csv")).status).toBe(200);
  expect((await run("cat in/*")).body.stdout).toBe("a,b\na,b\n");
  const read = await raw(`${files}/download?path=/workspace/one/in/data.csv`);
  expect([read.status, await read.text()]).toEqual([200, "a,b\n"]);
  expect((await agent.call("POST", `${files}/create_directory?path=/workspace/one/made`)).status).toBe(200);
  expect((await run("test -d made")).body.exit_code).toBe(0);
  const archive = await raw(`${files}/archive?path=/workspace/one/in&format=tar.gz`);
  expect([archive.status, archive.headers.get("content-type")]).toEqual([200, "application/gzip"]);
  await archive.arrayBuffer();
  for (const [method, path] of [
    ["GET", "download?path=/etc/hostname"],
    ["GET", "download?path=../two/x"],
    ["POST", "create_directory?path=/workspace/one/../two/made"],
    ["GET", "archive?path=/workspace&format=tar.gz"],
  ] as const)
    expect([path, (await agent.call(method, `${files}/${path}`)).status]).toEqual([path, 422]);
  expect((await upload("/workspace/two/data.csv")).status).toBe(422);
  for (const name of ["download", "archive"])
    expect((await agent.call("GET", `${files}/${name}`)).status).toBe(422);
  const id = base.split("/").at(-1)!;
  const trajectory = (one: string) => raw(`${files}/download-trajectory/${one}`);
  for (const one of [id, hexId(id)]) {
    const zip = await trajectory(one);
    expect([zip.status, zip.headers.get("content-type")]).toEqual([200, "application/zip"]);
    await zip.arrayBuffer();
  }
  expect((await trajectory(other.split("/").at(-1)!)).status).toBe(422);
});

test("git below a conversation reads repositories of its workspace", async () => {
  const author = "-c user.name=A -c user.email=a@b.c";
  await run(
    `git init -q -b main . && echo 1 > f && git add f && git ${author} commit -qm first && echo 2 > f`,
  );
  const get = (path: string) => agent.call("GET", `${base}/git/${path}`);
  const changes = [{ status: "UPDATED", path: "f" }];
  expect((await get("changes?path=/workspace/one")).body).toEqual(expect.arrayContaining(changes));
  expect((await get("changes?path=.&ref=HEAD")).body).toEqual(expect.arrayContaining(changes));
  expect((await get("diff?path=f")).body).toEqual({ original: "1\n", modified: "2\n" });
  const { commits } = (await get("commits?path=.")).body;
  expect(commits).toMatchObject([{ subject: "first" }]);
  expect((await get(`commits/${commits[0].sha}/changes?path=.`)).body).toEqual([
    { status: "ADDED", path: "f" },
  ]);
  for (const path of ["changes?path=/workspace/two", "diff?path=/etc/passwd", "commits?path=..", "changes"])
    expect([path, (await get(path)).status]).toEqual([path, 422]);
});

test("the runtime of a conversation is its sandbox, and a reprovision resumes it", async () => {
  const available = { runtime_status: "available", can_resume: true, runtime_error: null };
  expect(await agent.call("GET", `${base}/runtime`)).toEqual({ status: 200, body: available });
  await platform.call("POST", `/api/v1/sandboxes/${agent.sandboxId}/pause`);
  expect(await agent.call("POST", `${base}/runtime/reprovision`, {})).toEqual({
    status: 200,
    body: available,
  });
  const [sandbox] = (await platform.call("GET", `/api/v1/sandboxes?id=${agent.sandboxId}`)).body;
  expect(sandbox.status).toBe("RUNNING");
  const info = (await agent.call("GET", base)).body;
  expect(info.runtime_info).toEqual(available);
  const { items } = (await agent.call("GET", "/api/conversations/search")).body;
  expect(items[0].runtime_info).toEqual(available);
  expect((await agent.call("GET", `${base}/vscode/url?workspace_dir=/workspace/one`)).body).toEqual({
    url: null,
  });
  expect((await agent.call("GET", `${base}/vscode/url?workspace_dir=/etc`)).status).toBe(422);
  expect((await agent.call("GET", `${base}/vscode/status`)).body).toMatchObject({
    running: false,
    enabled: false,
  });
});

test("a foreign or unknown conversation is 404, and after the removal of the sandbox 410", async () => {
  const second = await startAgentServer(platform);
  const paths = [
    ["GET", "/runtime"],
    ["POST", "/runtime/reprovision"],
    ["POST", "/bash/start_bash_command", { command: "true" }],
    ["GET", "/bash/bash_events/search"],
    ["DELETE", "/bash/bash_events"],
    ["GET", "/file/download?path=x"],
    ["GET", "/git/changes?path=."],
    ["GET", "/vscode/status"],
  ] as const;
  const unknown = "/api/conversations/00000000-0000-4000-8000-000000000000";
  for (const [method, path, body] of paths) {
    expect([path, (await second.call(method, `${base}${path}`, body)).status]).toEqual([path, 404]);
    expect([path, (await agent.call(method, `${unknown}${path}`, body)).status]).toEqual([path, 404]);
  }
  await platform.call("DELETE", `/api/v1/sandboxes/${agent.sandboxId}?sandbox_id=${agent.sandboxId}`);
  expect((await platform.call("GET", `${base}/runtime`)).body).toEqual({
    runtime_status: "missing",
    can_resume: false,
    runtime_error: null,
  });
  for (const [method, path, body] of paths.slice(1).filter(([, path]) => !path.startsWith("/git")))
    expect([path, (await platform.call(method, `${base}${path}`, body)).status]).toEqual([path, 410]);
});

test("creations of one id at once make one conversation", async () => {
  const second = await startAgentServer(platform);
  const request = sdkRequest("http://127.0.0.1:1", { conversation_id: crypto.randomUUID() });
  const made = await Promise.all([1, 2, 3].map(() => second.call("POST", "/api/conversations", request)));
  expect(made.map(({ status }) => status).sort()).toEqual([200, 200, 201]);
  expect(new Set(made.map(({ body }) => body.id))).toEqual(new Set([request.conversation_id]));
  const info = (await second.call("GET", "/server_info")).body;
  expect(info).toMatchObject({
    capabilities: expect.arrayContaining([
      "conversation_runtime_routes_v1",
      "idempotent_conversation_create_v1",
    ]),
    conversation_runtime: "local",
    available_conversation_runtimes: [],
  });
});
