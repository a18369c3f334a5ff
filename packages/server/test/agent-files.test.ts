import { randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { RemoteWorkspace } from "@openhands/typescript-client";
import { FileClient } from "@openhands/typescript-client/clients";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { hexId, newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Json, startConversation, startTestPlatform, type TestPlatform } from "./support/platform.ts";

let server: TestPlatform;
let models: ModelServer;
let conversation: { id: string; sandboxId: string };
let session: string;
/** The agent-server surface of the sandbox. */
let host: string;

beforeAll(async () => {
  models = await startModelServer(() => reply.text("Hello."));
  server = await startTestPlatform();
  await server.call("POST", "/api/settings", {
    llm_model: "openai/scripted",
    llm_api_key: "sk-x",
    llm_base_url: models.url,
  });
  conversation = await startConversation(server.call, "hello");
  const { body } = await server.call("GET", `/api/v1/sandboxes?id=${conversation.sandboxId}`);
  session = body[0].session_api_key;
  host = `${server.url}/agent/${conversation.sandboxId}`;
});
afterAll(async () => {
  await server?.stop();
  await models?.close();
});

const inside = async (command: string): Promise<string> => {
  const answer = await send("POST", "/api/bash/execute_bash_command", { json: { command } });
  return ((await answer.json()) as Json).stdout;
};

interface Init {
  json?: unknown;
  body?: RequestInit["body"];
  headers?: Record<string, string>;
  key?: string | null;
  at?: string;
  redirect?: "manual";
}
const send = (
  method: string,
  path: string,
  { json, body, headers, key = session, at = host, redirect }: Init = {},
) =>
  fetch(at + path, {
    method,
    headers: {
      ...(key === null ? {} : { "x-session-api-key": key }),
      ...(json === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(json === undefined ? (body === undefined ? {} : { body }) : { body: JSON.stringify(json) }),
    ...(redirect && { redirect }),
    signal: AbortSignal.timeout(150_000),
  });
const form = (content: string | Buffer<ArrayBuffer>) => {
  const data = new FormData();
  data.append("file", new Blob([content]), "x");
  return data;
};

test("the released client uploads, downloads and lists folders", async () => {
  const files = new FileClient({ host, apiKey: session });
  const uploaded = await files.uploadTextFile("hällo\n", "/workspace/up/one.txt");
  expect(uploaded).toEqual({ success: true, file_size: 7 });
  expect(await files.downloadTextFile("/workspace/up/one.txt")).toBe("hällo\n");
  const bytes = randomBytes(100_000);
  await files.uploadFile(new Blob([bytes]), "/workspace/up/blob");
  expect(Buffer.from(await files.downloadFile("/workspace/up/blob")).equals(bytes)).toBe(true);
  await inside(
    "mkdir -p /workspace/tree/{b,A,c,.hid,a} '/workspace/tree/new\nline'; touch /workspace/tree/f; ln -s A /workspace/tree/link",
  );
  const names: string[] = [];
  let pageId: string | undefined;
  do {
    const page = await files.searchSubdirectories("/workspace/tree/", {
      limit: 2,
      ...(pageId && { pageId }),
    });
    names.push(...page.items.map(({ name }) => name));
    for (const { name, path } of page.items) expect(path).toBe(`/workspace/tree/${name}`);
    pageId = page.next_page_id ?? undefined;
  } while (pageId);
  expect(names).toEqual(["A", "a", "b", "c", "new\nline"]);
  const hidden = await files.searchSubdirectories("/workspace/tree", { includeHidden: true });
  expect([hidden.items[0]!.name, hidden.next_page_id]).toEqual([".hid", null]);
  const home = await files.getHome();
  expect(home.locations).toEqual([{ label: "/", path: "/" }]);
  await inside(`mkdir -p ${home.home}/Shown ${home.home}/.not`);
  expect((await files.getHome()).favorites).toContainEqual({ label: "Shown", path: `${home.home}/Shown` });
  expect(JSON.stringify(await files.getHome())).not.toContain(".not");
  expect(JSON.stringify(await files.getHome({ includeHidden: true }))).toContain(".not");
  const zip = Buffer.from(await (await files.downloadTrajectory(conversation.id)).arrayBuffer());
  expect(zip.subarray(0, 2).toString()).toBe("PK");
  expect(zip.includes("meta.json")).toBe(true);
});

test("the released client reads git changes and differences", async () => {
  await inside(
    "mkdir -p /workspace/repo && cd /workspace/repo && git init -q && git config user.email a@b.c && git config user.name Ann && echo 1 >f && git add . && git commit -qm first && echo 2 >f && echo n >new",
  );
  const workspace = new RemoteWorkspace({ host, apiKey: session, workingDir: "/workspace" });
  expect(await workspace.gitChanges("/workspace/repo", { ref: "HEAD" })).toEqual([
    { status: "UPDATED", path: "f" },
    { status: "ADDED", path: "new" },
  ]);
  expect(await workspace.gitDiff("/workspace/repo/f", { ref: "HEAD" })).toEqual({
    original: "1\n",
    modified: "2\n",
  });
  expect(await workspace.gitChanges("/usr")).toEqual([]);
  await workspace.fileUpload("x", "/workspace/up/ws.txt");
  expect(await workspace.downloadAsText("/workspace/up/ws.txt")).toBe("x");
  const read = async (path: string) => {
    const answer = await send("GET", path);
    return { status: answer.status, body: (await answer.json()) as any };
  };
  const { body } = await read("/api/git/commits?path=/workspace/repo&limit=1");
  expect(body).toEqual({
    commits: [
      {
        sha: expect.any(String),
        short_sha: expect.any(String),
        subject: "first",
        author: "Ann",
        timestamp: expect.any(String),
      },
    ],
    has_more: false,
  });
  const { sha } = body.commits[0];
  expect((await read(`/api/git/commits/${sha}/changes?path=/workspace/repo`)).body).toEqual([
    { status: "ADDED", path: "f" },
  ]);
  expect((await read(`/api/git/diff?path=/workspace/repo/f&commit=${sha}`)).body).toEqual({
    original: null,
    modified: "1\n",
  });
  for (const form of ["//workspace/repo", "/%2Fworkspace%2Frepo"])
    expect((await read(`/api/git/changes${form}?ref=HEAD`)).body).toHaveLength(2);
  for (const form of ["//workspace/repo/f", "/%2Fworkspace%2Frepo%2Ff"])
    expect((await read(`/api/git/diff${form}?ref=HEAD`)).body.modified).toBe("2\n");
  for (const bad of [
    `/api/git/diff?path=/workspace/repo/f&commit=${sha}&ref=HEAD`,
    "/api/git/changes?path=/workspace/repo&ref=--output=/tmp/x",
    "/api/git/commits/HEAD/changes?path=/workspace/repo",
    `/api/git/commits/${"0".repeat(40)}/changes?path=/workspace/repo`,
  ])
    expect([bad, (await read(bad)).status]).toEqual([bad, 400]);
  for (const limit of [0, 201])
    expect((await read(`/api/git/commits?path=/workspace/repo&limit=${limit}`)).status).toBe(422);
});

test("both forms of a path lead to one file, with odd names too", async () => {
  const name = "100% ä?#&\n.txt";
  const whole = `/workspace/forms/${name}`;
  const slashed = whole.split("/").map(encodeURIComponent).join("/");
  const encoded = encodeURIComponent(whole);
  for (const [index, path] of [`?path=${encoded}`, `/${encoded}`, `/${slashed}`].entries()) {
    expect((await send("POST", `/api/file/upload${path}`, { body: form(`round ${index}`) })).status).toBe(
      200,
    );
    for (const other of [`?path=${encoded}`, `/${encoded}`, `/${slashed}`]) {
      const answer = await send("GET", `/api/file/download${other}`);
      expect([answer.status, await answer.text()]).toEqual([200, `round ${index}`]);
      expect(answer.headers.get("content-type")).toBe("application/octet-stream");
      expect(answer.headers.get("content-disposition")).toContain("attachment; filename=");
    }
  }
  const deep = `/workspace/${"d".repeat(200)}/${"e".repeat(200)}/${"f".repeat(200)}`;
  expect((await send("POST", `/api/file/upload/${deep}`, { body: form("deep") })).status).toBe(200);
  expect(await (await send("GET", `/api/file/download/${encodeURIComponent(deep)}`)).text()).toBe("deep");
  // A user's key names the sandbox at the root, and not below the prefix.
  const query = `path=${encoded}`;
  const statuses = [
    await send("GET", `/api/file/download?${query}`, { at: server.url }),
    await send("GET", `/api/file/download?${query}`, { key: server.key }),
    await send("GET", `/api/file/download?${query}&sandbox_id=${conversation.sandboxId}`, {
      at: server.url,
      key: server.key,
    }),
    await send("GET", `/api/file/download?${query}`, { at: server.url, key: server.key }),
    await send("GET", `/api/file/download?${query}`, { key: null }),
  ];
  expect(statuses.map(({ status }) => status)).toEqual([200, 200, 200, 400, 401]);
});

test("an invalid path gets the right status and a reason", async () => {
  await inside(
    "mkdir -p /workspace/bad; mkfifo /workspace/bad/fifo; echo x >/workspace/bad/file; mkdir -m 0 /workspace/bad/closed",
  );
  const cases: [method: string, path: string, status: number][] = [
    ["GET", "/api/file/download?path=workspace/x", 400],
    ["GET", "/api/file/download/workspace", 400],
    ["GET", "/api/file/download?path=/workspace", 400],
    ["GET", "/api/file/download?path=/workspace/bad/fifo", 400],
    ["GET", "/api/file/download?path=/workspace/none", 404],
    ["GET", "/api/file/download?path=/root/x", 403],
    ["GET", "/api/file/download?path=/a%00b", 422],
    ["GET", "/api/file/download", 422],
    ["POST", "/api/file/upload?path=relative", 400],
    ["POST", "/api/file/upload?path=/workspace", 400],
    ["POST", "/api/file/upload?path=/usr/x", 403],
    ["POST", "/api/file/create_directory?path=relative", 400],
    ["POST", "/api/file/create_directory?path=/workspace/bad/file", 400],
    ["POST", "/api/file/create_directory?path=/workspace/bad/file/below", 400],
    ["POST", "/api/file/create_directory?path=/usr/x", 403],
    ["POST", "/api/file/create_directory?path=/workspace/bad", 200],
    ["POST", "/api/file/create_directory?path=/workspace/bad/x/y", 200],
    ["GET", "/api/file/search_subdirs?path=/workspace/none", 404],
    ["GET", "/api/file/search_subdirs?path=/workspace/bad/file", 400],
    ["GET", "/api/file/search_subdirs?path=bad", 400],
    ["GET", "/api/file/search_subdirs?path=/root", 403],
    ["GET", "/api/file/search_subdirs?path=/workspace&limit=101", 422],
    ["GET", `/api/file/download-trajectory/${newId()}`, 404],
    ["GET", "/api/file/download-trajectory/zz", 404],
    ["GET", `/api/file/download-trajectory/${hexId(conversation.id)}`, 200],
    ["GET", "/api/file/archive?path=bad", 400],
    ["GET", "/api/file/archive?path=/workspace/none", 404],
    ["GET", "/api/file/archive?path=/workspace/bad/file", 400],
    ["GET", "/api/file/archive?path=/workspace/bad", 400],
    ["GET", "/api/file/archive?path=/workspace/bad&format=zip", 422],
    ["GET", "/api/file/archive?path=/workspace/repo&base_ref=nothing", 400],
    ["GET", "/api/file/archive?path=/workspace/repo&base_ref=--output%3D/tmp/x", 400],
  ];
  for (const [method, path, status] of cases) {
    const answer = await send(method, path, path.includes("/upload") ? { body: form("x") } : {});
    expect([method, path, answer.status, await answer.text()]).toEqual([
      method,
      path,
      status,
      expect.any(String),
    ]);
  }
});

test("a folder can be archived as tar or patch, and its repository is reported", async () => {
  await inside(
    "cd /workspace/repo && git remote add origin 'https://me:secret@host.example/a.git?token=secret#secret' && mkdir -p node_modules src deep/src .git/modules/m/logs .git/worktrees/w bare.git && for at in FETCH_HEAD credentials modules/m/config modules/m/logs/HEAD worktrees/w/config.worktree; do echo secret >.git/$at; done && echo secret | tee bare.git/config >.git-credentials && echo d >deep/src/d && echo b >build && echo x >node_modules/x && echo s >src/s && ln -s f link",
  );
  const tar = await send(
    "GET",
    "/api/file/archive?path=/workspace/repo&format=tar.gz&exclude=*/src&exclude=s*/s",
  );
  expect(tar.headers.get("content-type")).toBe("application/gzip");
  expect(tar.headers.get("content-disposition")).toContain('filename="repo.tar.gz"');
  const listed = gunzipSync(Buffer.from(await tar.arrayBuffer())).toString("latin1");
  for (const name of ["new", "build", "src/", "bare.git/"]) expect(listed).toContain(`repo/${name}\0`);
  for (const absent of ["repo/.git", "repo/node_modules", "repo/src/s", "repo/deep/src", "secret"])
    expect(listed).not.toContain(absent);
  const manifest = listed.slice(listed.indexOf("repo/archive_manifest.json"));
  expect(JSON.parse(manifest.slice(512, manifest.indexOf("\0", 512)))).toMatchObject({
    excludes: expect.arrayContaining(["node_modules/", "*/src"]),
    format: "tar.gz",
    file_count: 3,
  });
  const full = await send(
    "GET",
    "/api/file/archive?path=/workspace/repo&format=tar.gz&use_default_excludes=false",
  );
  const everything = gunzipSync(Buffer.from(await full.arrayBuffer())).toString("latin1");
  for (const present of ["repo/.git/HEAD", "repo/node_modules/x"]) expect(everything).toContain(present);
  for (const absent of ["repo/.git/config", "repo/.git/logs/HEAD", "secret"])
    expect(everything).not.toContain(absent);

  const head = (await inside("git -C /workspace/repo rev-parse HEAD")).trim();
  const patch = await send("GET", "/api/file/archive?path=/workspace/repo&base_ref=HEAD");
  const headers = Object.fromEntries([...patch.headers].filter(([name]) => name.startsWith("x-archive")));
  expect(headers).toEqual({
    "x-archive-base-commit": head,
    "x-archive-base-ref": "HEAD",
    "x-archive-branch": expect.stringMatching(/^ma/),
    "x-archive-head-commit": head,
    "x-archive-repo-remote": encodeURIComponent("https://host.example/a.git"),
    "x-archive-repo-root": "%2Fworkspace%2Frepo",
  });
  expect(patch.headers.get("content-disposition")).toContain('filename="repo.patch"');
  const text = await patch.text();
  expect(text.match(/^diff --git a\/\S+/gm)).toEqual(
    ["build", "deep/src/d", "f", "link", "new", "src/s"].map((name) => `diff --git a/${name}`),
  );
});

test("a browser shows workspace files with a cookie that grants nothing else, and their pages have no origin", async () => {
  const { body } = await server.call("GET", `/api/conversations/${conversation.id}`);
  const folder: string = body.workspace.working_dir;
  await inside(
    `cd ${folder} && mkdir -p site && echo '<script>1</script>' >site/index.html && echo 'body{}' >'site/a b.css' && echo '<svg/>' >x.svg && ln -s /etc/passwd passwd && echo secret >/workspace-outside 2>/dev/null`,
  );
  // Files that a hostile agent may leave: loops, pipes, and folders instead of files.
  await inside(
    `cd ${folder} && mkdir -p trap/index.html loop && ln -s index.html loop/index.html && mkfifo pipe && touch 'a%2fb#?.txt'`,
  );
  const client = new RemoteWorkspace({ host, apiKey: session, workingDir: folder });
  expect(await client.startWorkspaceSession(conversation.id)).toBe(
    `${host}/api/conversations/${conversation.id}/workspace/`,
  );
  const minted = await send("POST", "/api/auth/workspace-session", {
    headers: { origin: "https://canvas.example" },
  });
  expect([minted.status, minted.headers.get("access-control-allow-origin")]).toEqual([
    204,
    "https://canvas.example",
  ]);
  const preflight = async (path: string) => {
    const headers = { origin: "https://canvas.example", "access-control-request-method": "POST" };
    return (await send("OPTIONS", path, { key: null, headers })).headers.get("access-control-allow-origin");
  };
  expect(await preflight("/api/auth/workspace-session")).toBe("https://canvas.example");
  expect(await preflight("/api/file/home")).toBeNull();
  const set = minted.headers.get("set-cookie")!;
  expect(set).toContain(`; Path=/agent/${conversation.sandboxId}/api/conversations; HttpOnly; `);
  expect(set).toContain("Secure; SameSite=None; Partitioned");
  expect(set).not.toContain(session);
  const cookie = set.split(";")[0]!;
  const base = `/api/conversations/${conversation.id}/workspace`;
  const get = (path: string, init: Init = {}) =>
    send("GET", path, { key: null, headers: { cookie }, redirect: "manual", ...init });

  const page = await get(`${base}/site/index.html`);
  expect([page.status, await page.text()]).toEqual([200, "<script>1</script>\n"]);
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.headers.get("x-content-type-options")).toBe("nosniff");
  expect(page.headers.get("content-disposition")).toBeNull();
  const policy = page.headers.get("content-security-policy")!;
  expect(policy).toMatch(/^sandbox allow-scripts/);
  expect(policy).not.toContain("allow-same-origin");
  expect((await get(`${base}/x.svg`)).headers.get("content-security-policy")).toMatch(/^sandbox /);
  expect((await get(`${base}/site/a%20b.css`)).headers.get("content-type")).toBe("text/css; charset=utf-8");
  const folderAnswer = await get(`${base}/site`);
  expect([folderAnswer.status, folderAnswer.headers.get("location")]).toEqual([302, "./site/"]);
  expect(await (await get(`${base}/site/`)).text()).toContain("<script>");
  expect((await get(`${base}/`)).status).toBe(404);
  expect((await get(`${base}/${encodeURIComponent("a%2fb#?.txt")}`)).status).toBe(200);
  for (const [path, status] of [
    ["trap/", 400],
    ["loop/", 404],
    ["pipe/", 404],
  ] as const)
    expect([path, (await get(`${base}/${path}`)).status]).toEqual([path, status]);
  for (const path of [`${base}/none`, `${base}/..%2f..%2fetc%2fpasswd`, `${base}/%2Fetc%2Fpasswd`])
    expect([path, (await get(path)).status]).toEqual([path, 404]);
  expect((await get(`${base}/x.svg`, { headers: { cookie, "service-worker": "script" } })).status).toBe(403);
  expect((await send("GET", `${base}/x.svg`)).status).toBe(200);

  // The cookie opens nothing but these files, and to pages of other sites nothing at all.
  for (const path of [
    `/api/conversations/${conversation.id}`,
    `/api/conversations/${conversation.id}/events/search`,
    "/api/file/home",
  ])
    expect([path, (await get(path)).status]).toEqual([path, 401]);
  expect(
    (await send("POST", `/api/conversations/${conversation.id}/run`, { key: null, headers: { cookie } }))
      .status,
  ).toBe(401);
  const cross = await get(`${base}/x.svg`, { headers: { cookie, origin: "https://evil.example" } });
  expect(cross.headers.get("access-control-allow-origin")).toBeNull();
  const keyed = await send("GET", `${base}/x.svg`, { headers: { origin: "https://canvas.example" } });
  expect(keyed.headers.get("access-control-allow-origin")).toBe("https://canvas.example");
  expect((await get(`${base}/x.svg`, { headers: { cookie: `${cookie}x` } })).status).toBe(401);
  expect((await get(`${base}/x.svg`, { headers: {} })).status).toBe(401);
  // The same at the root, where the key identifies the sandbox.
  expect((await get(`${base}/x.svg`, { at: server.url })).status).toBe(200);
  const other = await startConversation(server.call, "another");
  expect(other.sandboxId).not.toBe(conversation.sandboxId);
  expect((await get(`/api/conversations/${other.id}/workspace/x.svg`, { at: server.url })).status).toBe(404);
  const forged = cookie.replace(conversation.sandboxId, other.sandboxId);
  const otherUrl = `/api/conversations/${other.id}/workspace/x.svg`;
  for (const value of [forged, `oh_workspace_session_key=${session}`, `${cookie};${forged}`]) {
    const answer = await get(otherUrl, {
      at: `${server.url}/agent/${other.sandboxId}`,
      headers: { cookie: value },
    });
    expect([value, answer.status]).toEqual([value, 401]);
  }
  // It is void with its sandbox.
  const own = (await (await server.call("GET", `/api/v1/sandboxes?id=${other.sandboxId}`)).body[0])
    .session_api_key;
  const second = await send("POST", "/api/auth/workspace-session", { at: server.url, key: own });
  const voided = second.headers.get("set-cookie")!.split(";")[0]!;
  expect((await get(otherUrl, { at: server.url, headers: { cookie: voided } })).status).toBe(404);
  await server.call("DELETE", `/api/v1/sandboxes/${other.sandboxId}`);
  expect((await get(otherUrl, { at: server.url, headers: { cookie: voided } })).status).toBe(401);
  const cleared = await send("DELETE", "/api/auth/workspace-session");
  expect([cleared.status, cleared.headers.get("set-cookie")]).toEqual([
    204,
    expect.stringMatching(/^oh_workspace_session_key=; .*Max-Age=0/),
  ]);
  await client.deleteWorkspaceSession();
});
