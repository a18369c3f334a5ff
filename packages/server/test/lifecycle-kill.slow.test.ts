import { execFileSync, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { HostileRegistry } from "@sandpiper/sandbox/test/support/hostile-registry";
import { Header, type HeaderData } from "tar";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { waitUntilConsistent } from "./chaos/consistency.ts";
import { type Json, removeSandboxes, startConversation, testKey, until } from "./support/platform.ts";
import { type ServerProcess, serverMain, startServerProcess } from "./support/server-process.ts";

/** kill -9 in the midst of each operation on sandboxes, files and settings, and early signals. */

// Each operation starts a server again, a second of work each where the machine is quiet.
vi.setConfig({ testTimeout: 300_000 });

let dataDir: string;
let server: ServerProcess;
/** A sandbox that runs. */
let sandbox: string;
let registry: HostileRegistry;

beforeAll(async () => {
  registry = await new HostileRegistry().listen();
  dataDir = await mkdtemp(join(tmpdir(), "sandpiper-kill-"));
  server = await startServerProcess(dataDir, { SANDPIPER_REGISTRIES: registry.host });
  sandbox = await makeSandbox();
});

afterAll(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server?.end("SIGTERM");
  await registry.close();
  await rm(dataDir, { recursive: true, force: true });
});

const call: ServerProcess["call"] = (...given) => server.call(...given);
const row = async (id: string): Promise<Json | undefined> =>
  (await call("GET", `/api/v1/sandboxes?id=${id}`)).body[0];
const runs = (id: string) => until(async () => (await row(id))?.status === "RUNNING" || undefined);

async function makeSandbox(query = ""): Promise<string> {
  const { body } = await call("POST", `/api/v1/sandboxes${query}`);
  await runs(body.id);
  return body.id;
}

async function sh(id: string, command: string): Promise<string> {
  const key = (await row(id))?.session_api_key;
  const headers = { "X-Session-API-Key": key };
  const { body } = await call("POST", "/api/bash/execute_bash_command", { command }, headers);
  return body.stdout ?? "";
}

const names = (...path: string[]): string[] => {
  const folder = join(dataDir, ...path);
  return existsSync(folder) ? readdirSync(folder) : [];
};

/** Waits for a sign of the operation without leaving the processor to others for long. */
async function sign(isThere: () => boolean): Promise<void> {
  for (const end = performance.now() + 5_000; !isThere() && performance.now() < end; )
    await new Promise(setImmediate);
}

/** Network namespaces and mounts that name this installation. */
function traces(): string[] {
  const engine = realpathSync(join(dataDir, "sandboxes"));
  const group = `sandpiper-${createHash("sha256").update(engine).digest("hex").slice(0, 12)}`;
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return mounts.filter((line) => line.includes(group) || line.includes(engine));
}

/** A request whose answer may never come. */
function begin(method: string, path: string, body?: unknown): Promise<Json | undefined> {
  return call(method, path, body).catch(() => undefined);
}

function header(data: HeaderData): Buffer {
  const block = Buffer.alloc(512);
  new Header({ mode: 0o644, uid: 0, gid: 0, mtime: new Date(0), type: "File", ...data }).encode(block, 0);
  return block;
}

async function killAndRestart(): Promise<void> {
  await server.end("SIGKILL");
  server = await startServerProcess(dataDir, { SANDPIPER_REGISTRIES: registry.host });
  expect(await waitUntilConsistent(dataDir, { archived: true })).toEqual([]);
}

interface Operation {
  name: string;
  /** Begins the operation and resolves in its midst. */
  begin(): Promise<unknown>;
  /** After the restart: the state is the old or the new one, and the operation can be repeated. */
  check(): Promise<void>;
}

const pause = () => call("POST", `/api/v1/sandboxes/${sandbox}/pause`);
const resume = () => call("POST", `/api/v1/sandboxes/${sandbox}/resume`);
const url = (path: string) => new URL(path, server.url);
const headers = { "X-Session-API-Key": testKey };
const large = "x".repeat(200_000);
let made: string[] = [];
let snapshot = "";
/** What the registry does with the next layer that is asked for. */
let isDripping = true;

/** Sends a part of a body and resolves when the server has begun to write it into the sandbox. */
async function uploadPart(path: string, type: string, first: Buffer): Promise<void> {
  const upload = httpRequest(url(path), { method: "PUT", headers: { ...headers, "content-type": type } });
  upload.on("error", () => {});
  await new Promise<void>((resolve) => upload.write(first, () => resolve()));
  await new Promise((resolve) => setTimeout(resolve, 20));
}

const operations: Operation[] = [
  {
    name: "the start of a sandbox",
    async begin() {
      made = names("sandboxes", "sandboxes");
      void begin("POST", "/api/v1/sandboxes");
      await sign(() => names("sandboxes", "sandboxes").length > made.length);
    },
    async check() {
      for (const { id } of (await call("GET", "/api/v1/sandboxes/search")).body.items) await runs(id);
      await makeSandbox();
    },
  },
  {
    name: "the start of a conversation",
    begin: async () => begin("POST", "/api/v1/app-conversations", { initial_message: null }),
    async check() {
      await until(async () => {
        const { items } = (await call("GET", "/api/v1/app-conversations/search")).body;
        return items.every(({ sandbox_status }: Json) => sandbox_status === "RUNNING") || undefined;
      });
      await startConversation(server.call, "", { initial_message: null });
    },
  },
  {
    name: "a pause",
    async begin() {
      void begin("POST", `/api/v1/sandboxes/${sandbox}/pause`);
      await new Promise((resolve) => setTimeout(resolve, 3));
    },
    async check() {
      expect((await pause()).status).toBe(200);
      expect((await row(sandbox))?.status).toBe("PAUSED");
    },
  },
  {
    name: "a resume",
    async begin() {
      void begin("POST", `/api/v1/sandboxes/${sandbox}/resume`);
      await new Promise((resolve) => setTimeout(resolve, 3));
    },
    async check() {
      expect((await resume()).status).toBe(200);
      expect(await sh(sandbox, "echo alive")).toBe("alive\n");
    },
  },
  {
    name: "a snapshot",
    async begin() {
      await sh(sandbox, "echo kept > note");
      void begin("POST", `/api/v1/sandboxes/${sandbox}/snapshots`);
      await sign(() => names("sandboxes", "snapshots").length > 0);
    },
    async check() {
      const answer = await call("POST", `/api/v1/sandboxes/${sandbox}/snapshots`);
      expect(answer.status).toBe(201);
      snapshot = answer.body.id;
      expect(await sh(sandbox, "cat note")).toBe("kept\n");
    },
  },
  {
    name: "the start of a sandbox from a snapshot",
    async begin() {
      made = names("sandboxes", "sandboxes");
      void begin("POST", `/api/v1/sandboxes?snapshot_id=${snapshot}`);
      await sign(() => names("sandboxes", "sandboxes").length > made.length);
    },
    async check() {
      const id = await makeSandbox(`?snapshot_id=${snapshot}`);
      expect(await sh(id, "cat note")).toBe("kept\n");
    },
  },
  {
    name: "an upload of a file",
    begin: () =>
      uploadPart(
        `/api/v1/sandboxes/${sandbox}/files?path=note`,
        "application/octet-stream",
        Buffer.alloc(1 << 20),
      ),
    async check() {
      expect(await sh(sandbox, "ls -A | grep -c note; cat note")).toBe("1\nkept\n");
      const again = await fetch(url(`/api/v1/sandboxes/${sandbox}/files?path=note`), {
        method: "PUT",
        headers: { ...headers, "content-type": "application/octet-stream" },
        body: "new\n",
      });
      expect(again.status).toBe(200);
      expect(await sh(sandbox, "cat note")).toBe("new\n");
    },
  },
  {
    name: "a download of an archive",
    async begin() {
      await sh(sandbox, "dd if=/dev/zero of=large bs=1M count=64 2>/dev/null");
      const answer = await fetch(url(`/api/v1/sandboxes/${sandbox}/archive`), { headers });
      await answer.body?.getReader().read();
    },
    async check() {
      expect(await sh(sandbox, "cat /proc/[0-9]*/comm | grep -c '^tar$'")).toBe("0\n");
      const answer = await fetch(url(`/api/v1/sandboxes/${sandbox}/archive`), { headers });
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(64 << 20);
      await sh(sandbox, "rm large");
    },
  },
  {
    name: "an upload of an archive",
    async begin() {
      const archive = execFileSync("tar", ["-C", "/", "-c", "etc/hostname", serverMain], {
        stdio: ["ignore", "pipe", "ignore"],
        maxBuffer: 2 ** 26,
      });
      await uploadPart(
        `/api/v1/sandboxes/${sandbox}/archive?path=tree`,
        "application/x-tar",
        archive.subarray(0, archive.length / 2),
      );
    },
    async check() {
      expect(await sh(sandbox, "cat /proc/[0-9]*/comm | grep -c '^tar$'")).toBe("0\n");
      const again = await fetch(url(`/api/v1/sandboxes/${sandbox}/archive?path=tree`), {
        method: "PUT",
        headers: { ...headers, "content-type": "application/x-tar" },
        body: execFileSync("tar", ["-C", "/", "-c", "etc/hostname"]),
      });
      expect(again.status).toBe(200);
      expect(await sh(sandbox, "ls tree/etc")).toBe("hostname\n");
    },
  },
  {
    name: "the fetch of an image",
    async begin() {
      const file = gzipSync(
        Buffer.concat([header({ path: "file", size: 1 << 20 }), randomBytes(1 << 20), Buffer.alloc(1024)]),
      );
      const asked = Promise.withResolvers<void>();
      const layer = registry.blob(file, (response) => {
        response.writeHead(200, { "content-length": file.length });
        response.write(file.subarray(0, isDripping ? file.length / 2 : file.length));
        if (!isDripping) response.end();
        asked.resolve();
      });
      const reference = registry.image("slow", [{ ...layer, content: gunzipSync(file) }]);
      const { body } = await call(
        "POST",
        `/api/v1/sandboxes?sandbox_spec_id=${encodeURIComponent(`docker://${reference}`)}`,
      );
      made = [body.id];
      await asked.promise;
      isDripping = false;
    },
    async check() {
      await runs(made[0]!);
      expect(names("sandboxes", "images", "tmp")).toEqual([]);
      const [digest] = names("sandboxes", "images", "roots");
      expect(statSync(join(dataDir, "sandboxes/images/roots", digest!, "rootfs/file")).size).toBe(1 << 20);
    },
  },
  {
    name: "a write of settings",
    async begin() {
      await call("POST", "/api/settings", { llm_model: "demo/old" });
      void begin("POST", "/api/settings", { llm_model: "demo/new", llm_api_key: large.slice(0, 500) });
      await new Promise((resolve) => setTimeout(resolve, 2));
    },
    async check() {
      const { body } = await call("GET", "/api/settings");
      expect([
        ["demo/old", false],
        ["demo/new", true],
      ]).toContainEqual([body.llm_model, body.llm_api_key_set]);
      expect((await call("POST", "/api/settings", { llm_model: "demo/new" })).status).toBe(200);
    },
  },
  {
    name: "the removal of a snapshot",
    begin: async () => {
      void begin("DELETE", `/api/v1/snapshots/${snapshot}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    },
    async check() {
      for (const { id } of (await call("GET", "/api/v1/snapshots/search")).body.items)
        expect((await call("DELETE", `/api/v1/snapshots/${id}`)).status).toBe(200);
    },
  },
  {
    name: "the removal of sandboxes",
    async begin() {
      made = names("sandboxes", "sandboxes");
      const { items } = (await call("GET", "/api/v1/sandboxes/search")).body;
      for (const { id } of items) void begin("DELETE", `/api/v1/sandboxes/${id}?sandbox_id=${id}`);
      await sign(() => names("sandboxes", "sandboxes").length < made.length);
    },
    async check() {
      await removeSandboxes(server.call);
      expect(await waitUntilConsistent(dataDir, { archived: true })).toEqual([]);
      await until(() => names("sandboxes", "sandboxes").length === 0 || undefined);
    },
  },
];

test("kill -9 in the midst of an operation leaves a consistent state and nothing else, and the operation can be repeated", async () => {
  for (const operation of operations) {
    await operation.begin();
    await killAndRestart();
    await operation.check().catch((cause: unknown) => {
      throw new Error(`after a kill during ${operation.name}: ${(cause as Error).message}`, { cause });
    });
  }
  expect(await waitUntilConsistent(dataDir, { archived: true })).toEqual([]);
  expect(traces()).toEqual([]);
});

test("SIGTERM and SIGINT end a server that is starting with status 0, and the next one finds nothing wrong", async () => {
  const early = await mkdtemp(join(tmpdir(), "sandpiper-early-"));
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: process.env.HOME ?? "/",
    SANDPIPER_DATA: early,
    SANDPIPER_PORT: "0",
  };
  try {
    // The data folder grows step by step during the first start.
    for (const [step, signal] of [
      ["vault.key", "SIGTERM"],
      ["store/sandpiper.db", "SIGINT"],
      ["sandboxes/layers", "SIGTERM"],
    ] as const) {
      await rm(early, { recursive: true, force: true });
      const child = spawn(process.execPath, [serverMain, "serve"], { env });
      let output = "";
      child.stdout.on("data", (text) => (output += text));
      child.stderr.on("data", (text) => (output += text));
      const ended = new Promise((resolve) => child.once("close", (...end) => resolve(end)));
      await until(() => existsSync(join(early, step)) || undefined);
      child.kill(signal);
      expect([step, await ended]).toEqual([step, [0, null]]);
      expect(output).toContain(`${signal}: shutting down; a second signal ends the server at once\n`);
      expect(output).not.toMatch(/error/i);
    }
    const next = await startServerProcess(early);
    expect(await next.end("SIGTERM")).toBe(0);
  } finally {
    await rm(early, { recursive: true, force: true });
  }
});
