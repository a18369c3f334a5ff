import { once } from "node:events";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { create, Header } from "tar";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

let server: TestServer;
let folder: string;
let host: Server;
/** Responses of the repositories' host, by path. */
let repositories: Record<string, Buffer | number>;
let asked: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-skills-"));
  await writeTree(folder, {
    "review.md": "---\ntriggers: [review]\n---\nReview well.",
    "README.md": "About this folder",
    "pdf/SKILL.md": "---\nname: pdf\ndescription: Reads PDFs\n---\nSteps",
    "pdf/notes.md": "part of pdf",
  });
  await symlink("/etc/hostname", join(folder, "secret.md"));
  host = createServer((request, response) => {
    asked.push(request.url!);
    const answer = repositories[request.url!] ?? 404;
    if (typeof answer === "number") response.writeHead(answer).end();
    else response.writeHead(200, { "content-type": "application/gzip" }).end(answer);
  }).listen(0, "127.0.0.1");
  await once(host, "listening");
  server = await startServer({ skillsDir: folder, outboundPrivate: ["127.0.0.0/8"] });
});

beforeEach(() => {
  repositories = {};
  asked = [];
});

afterAll(async () => {
  await server.close();
  host.close();
  await rm(folder, { recursive: true });
});

const search = async (query = "") => (await read(server.call("GET", `/api/v1/skills/search${query}`))).body;
const preview = (body: unknown) => read(server.call("POST", "/api/v1/skills/marketplace-skills", { body }));
const source = (path: string) => `http://127.0.0.1:${(host.address() as AddressInfo).port}${path}`;

async function writeTree(root: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

/** A repository's archive as hosts build it: one top folder. */
async function archive(files: Record<string, string>): Promise<Buffer> {
  const root = await mkdtemp(join(tmpdir(), "sandpiper-skills-"));
  try {
    await writeTree(join(root, "repo-main"), files);
    const pieces: Buffer[] = [];
    for await (const piece of create({ cwd: root, gzip: true }, ["repo-main"])) pieces.push(piece as Buffer);
    return Buffer.concat(pieces);
  } finally {
    await rm(root, { recursive: true });
  }
}

test("the operator's skills are listed by name, page by page", async () => {
  expect(await search()).toEqual({
    items: [
      { name: "pdf", type: "agentskills", source: "global", triggers: null },
      { name: "review", type: "knowledge", source: "global", triggers: ["review"] },
    ],
    next_page_id: null,
  });
  const first = await search("?limit=1");
  expect(first).toMatchObject({ items: [{ name: "pdf" }], next_page_id: "pdf" });
  expect((await search("?limit=1&page_id=pdf")).items).toMatchObject([{ name: "review" }]);
});

test("a marketplace shows its skills and plugins, of the requested ref and folder", async () => {
  repositories["/acme/market/archive/v1.tar.gz"] = await archive({
    "pack/.plugin/marketplace.json": JSON.stringify({
      plugins: [{ name: "fmt", description: "Formats", source: "./plugins/fmt" }, { name: 7 }, null],
    }),
    "pack/plugins/fmt/skills/format/SKILL.md": "---\nname: format\n---\nFormat it.",
    "pack/skills/docker.md": "---\ntriggers: [docker]\n---\nUse docker.",
    "pack/docs/guide.md": "no skill",
    "other/skills/else.md": "outside of the folder",
  });
  const { status, body } = await preview([
    { name: "acme", source: source("/acme/market.git"), ref: "v1", repo_path: "/pack/" },
  ]);
  expect(status).toBe(200);
  expect(body.errors).toEqual([]);
  expect(
    body.skills.map(({ name, type }: { name: string; type: string }) => `${name} ${type}`).sort(),
  ).toEqual(["docker knowledge", "format agentskills"]);
  expect(body.plugins).toEqual([
    { name: "fmt", description: "Formats", source: "./plugins/fmt", marketplace: "acme" },
  ]);
  expect(Object.keys(body.marketplace_skills)).toEqual(["acme"]);
  expect(asked).toEqual(["/acme/market/-/archive/v1/market.tar.gz", "/acme/market/archive/v1.tar.gz"]);
});

test("each unreadable marketplace has an error message, and the others are shown", async () => {
  repositories["/a/good/archive/HEAD.tar.gz"] = await archive({ "skills/one.md": "One" });
  repositories["/a/broken/archive/HEAD.tar.gz"] = Buffer.from("no archive");
  repositories["/a/twice/archive/HEAD.tar.gz"] = gzipSync(gzipSync(Buffer.alloc(1000)));
  repositories["/a/bomb/archive/HEAD.tar.gz"] = bomb();
  repositories["/a/heads/archive/HEAD.tar.gz"] = heads();
  repositories["/a/down/-/archive/HEAD/down.tar.gz"] = 503;
  const sources = {
    good: source("/a/good"),
    broken: source("/a/broken"),
    twice: source("/a/twice"),
    bomb: source("/a/bomb"),
    heads: source("/a/heads"),
    down: source("/a/down"),
    absent: source("/a/absent"),
    folder: "/etc",
    file: "file:///etc/passwd",
    parent: "../../etc",
    login: "https://me:secret-word@example.com/a/b",
    internal: "http://169.254.169.254/a/b",
  };
  const { status, body } = await preview(
    Object.entries(sources).map(([name, from]) => ({ name, source: from })),
  );
  expect(status).toBe(200);
  expect(body.skills.map(({ name }: { name: string }) => name)).toEqual(["one"]);
  expect(body.errors.map((text: string) => text.split(":")[0])).toEqual(Object.keys(sources).slice(1));
  expect(body.errors.join("\n")).toMatch(/^heads: .*too many entries/m);
  expect(JSON.stringify(body)).not.toContain("secret-word");
});

test("a marketplace registered with auto_load is listed for its user, and its skills reach conversations", async () => {
  repositories["/a/mine/archive/HEAD.tar.gz"] = await archive({
    "skills/review.md": "---\ntriggers: [review]\n---\nMy own way.",
    "deploy/SKILL.md": "---\nname: deploy\n---\nDeploy like this.",
  });
  const registered_marketplaces = [
    { name: "mine", source: source("/a/mine"), auto_load: true },
    { name: "asleep", source: source("/a/asleep"), auto_load: false },
  ];
  expect((await server.call("POST", "/api/v1/settings", { body: { registered_marketplaces } })).status).toBe(
    200,
  );
  const { items } = await search();
  expect(items.map(({ name, source: from }: { name: string; source: string }) => `${name} ${from}`)).toEqual([
    "deploy user",
    "pdf global",
    "review user",
  ]);
  expect(asked).not.toContain("/a/asleep/archive/HEAD.tar.gz");
  const id = await server.addConversation("default", server.addSandbox().id);
  const say = (text: string) =>
    server.call("POST", `/api/conversations/${id}/events`, {
      body: { content: [{ type: "text", text }], run: false },
    });
  await say("Please review and deploy it");
  const said = (
    await read(server.call("GET", `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent`))
  ).body.items[0];
  expect(said.activated_skills.sort()).toEqual(["deploy", "review"]);
  expect(JSON.stringify(said.extended_content)).toContain("My own way.");
});

test("clients of a sandbox's agent server load skills with their texts, and list the marketplaces' content", async () => {
  repositories["/a/theirs/archive/HEAD.tar.gz"] = await archive({
    ".plugin/marketplace.json": JSON.stringify({
      plugins: [{ name: "fmt", description: "Formats", source: "./plugins/fmt" }],
    }),
    "skills/ship.md": "---\ntriggers: [ship]\n---\nShip it.",
  });
  const registered = { name: "theirs", source: source("/a/theirs"), auto_load: true };
  await server.call("POST", "/api/v1/settings", { body: { registered_marketplaces: [registered] } });
  const { sessionKey } = server.addSandbox();
  const call = async (method: string, path: string, body?: object) =>
    (await read(server.call(method, path, { body, key: sessionKey }))).body;
  const { skills, sources } = await call("POST", "/api/skills", { load_project: false, load_user: false });
  expect(skills.map(({ name }: { name: string }) => name).sort()).toEqual(["pdf", "review", "ship"]);
  expect(skills.find(({ name }: { name: string }) => name === "ship")).toEqual({
    name: "ship",
    type: "knowledge",
    content: "Ship it.",
    triggers: ["ship"],
    source: "user",
    description: null,
    is_agentskills_format: false,
    disable_model_invocation: false,
  });
  expect(sources).toEqual({ project: 0, user: 0, public: 3 });
  expect(await call("GET", "/api/skills/marketplace")).toEqual({
    skills: [{ name: "ship", description: null, source: registered.source, installed: true }],
  });
  expect(await call("GET", "/api/plugins/marketplace")).toEqual({
    plugins: [
      {
        name: "fmt",
        description: "Formats",
        source: "./plugins/fmt",
        installed: false,
        ref: null,
        repo_path: null,
      },
    ],
  });
  expect((await call("POST", "/api/skills/sync", {})).status).toBe("success");
});

test.each([
  ["no list", {}],
  ["a registration without a source", [{ name: "a" }]],
  ["a registration without a name", [{ source: "a/b" }]],
  ["too many", Array.from({ length: 21 }, () => ({ name: "a", source: "a/b" }))],
])("%s is refused", async (_name, body) => {
  const answer = await preview(body);
  expect(answer.status).toBe(422);
  expect(answer.body.error).toEqual(expect.any(String));
});

/** An archive of a few kilobytes that unpacks to 320 MB, from concatenated compressed parts. */
function bomb(): Buffer {
  const head = Buffer.alloc(512);
  new Header({ path: "repo/x", size: 320 * 2 ** 20, type: "File", mode: 0o644 }).encode(head);
  const zeros = gzipSync(Buffer.alloc(32 * 2 ** 20));
  return Buffer.concat([gzipSync(head), ...Array.from({ length: 10 }, () => zeros)]);
}

/** An archive with heads of entries, and no entry. */
function heads(): Buffer {
  const head = Buffer.alloc(1024);
  new Header({ path: "PaxHeader/a", size: 12, type: "ExtendedHeader", mode: 0o644 }).encode(head);
  head.write("12 path=abc\n", 512);
  const packed = gzipSync(Buffer.concat(Array.from({ length: 1000 }, () => head)));
  return Buffer.concat(Array.from({ length: 60 }, () => packed));
}
