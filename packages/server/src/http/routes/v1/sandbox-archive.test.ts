import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { promisify } from "node:util";
import { stub } from "@sandpiper/core/test/support/stub";
import type { ExecRequest, SandboxProcess } from "@sandpiper/sandbox/driver";
import { afterAll, beforeAll, expect, test } from "vitest";
import { key, read, startServer, type TestServer } from "../../../../test/support/test-server.ts";

const run = promisify(execFile);
let server: TestServer;
let folder: string;
let id: string;
let lastExit: Promise<unknown>;
/** Runs instead of every command. */
let instead: string[] | undefined;
beforeAll(async () => {
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), "sandpiper-archive-"));
  const row = server.sandboxes.add();
  id = row.id;
  const spec = server.sandboxes.specs()[0]!;
  server.sandboxes.running = async () => stub({ id, incarnation: "1", spec, exec: execHere });
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a sandbox's commands as local processes: this file tests the routes, not the isolation. */
async function execHere({ argv }: ExecRequest): Promise<SandboxProcess> {
  const [program, ...args] = instead ?? argv;
  const child = spawn(program!, args, { cwd: folder });
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.on("close", (code, signal) => resolve({ code, signal }));
  });
  const { stdout, stderr } = child;
  lastExit = exit;
  // tar exits before it has read all input, which is not a failed upload.
  const stdin = new PassThrough();
  stdin.pipe(child.stdin).on("error", () => {});
  return { stdin, stdout, stderr, exit, kill: () => child.kill("SIGKILL"), resize: () => {} };
}

const archive = (query: string) => `/api/v1/sandboxes/${id}/archive?${query}`;
const put = (query: string, body: string | ReadableStream, type = "application/x-tar") =>
  fetch(server.url + archive(query), {
    method: "PUT",
    headers: { "x-session-api-key": key, "content-type": type },
    body,
    duplex: "half",
    signal: AbortSignal.timeout(50_000),
  } as RequestInit);

test("a tar larger than the body limit can be uploaded and downloaded", async () => {
  const source = join(folder, "source");
  await mkdir(join(source, "node_modules"), { recursive: true });
  const content = randomBytes(5 * 1024 * 1024);
  await writeFile(join(source, "big.bin"), content);
  await writeFile(join(source, "node_modules", "x"), "x");
  const file = join(folder, "in.tar");
  await run("tar", ["-cf", file, "-C", source, "."]);
  expect((await stat(file)).size).toBeGreaterThan(server.config.bodyLimit);

  const body = Readable.toWeb(createReadStream(file)) as ReadableStream;
  expect(await read(put("path=target", body))).toEqual({ status: 200, body: { success: true } });
  expect((await readFile(join(folder, "target", "big.bin"))).equals(content)).toBe(true);

  const answer = await server.call("GET", archive("path=target&exclude=node_modules&exclude=*.log"));
  expect(answer.headers.get("content-type")).toBe("application/x-tar");
  const out = join(folder, "out.tar");
  await writeFile(out, Buffer.from(await answer.arrayBuffer()));
  const { stdout } = await run("tar", ["-tf", out]);
  expect(stdout.split("\n").filter(Boolean).sort()).toEqual(["./", "./big.bin"]);
});

test("a failure to pack or unpack gets 422 with a message", async () => {
  expect((await read(put("path=broken", "this is no tar"))).status).toBe(422);
  const missing = await read(server.call("GET", archive("path=not-there")));
  expect([missing.status, missing.body.detail]).toEqual([422, expect.stringContaining("not-there")]);
});

test("what a client asked to read ends when it leaves, also before the first byte", async () => {
  instead = ["sleep", "1000"];
  for (const path of [archive("path=."), archive("gzip=true"), `/api/v1/sandboxes/${id}/files?path=x`]) {
    const leaving = new AbortController();
    const before = lastExit;
    const headers = { "x-session-api-key": key };
    const answer = fetch(server.url + path, { headers, signal: leaving.signal });
    await expect.poll(() => lastExit !== before).toBe(true);
    leaving.abort();
    await expect(answer).rejects.toThrow();
    expect(await lastExit).toEqual({ code: null, signal: "SIGKILL" });
  }
  instead = undefined;
});

test("wrong types, unknown sandboxes and bad paths are refused", async () => {
  expect((await read(put("path=x", "{}", "application/json"))).status).toBe(415);
  expect((await read(put("path=x", "x", "text/plain"))).status).toBe(415);
  expect((await server.call("GET", archive("path=a%00b"))).status).toBe(422);
  expect((await server.call("GET", archive("path="))).status).toBe(422);
  expect((await server.call("GET", "/api/v1/sandboxes/none/archive")).status).toBe(404);
});

test("an aborted upload does not disturb the server", async () => {
  const broken = new ReadableStream({
    async start(controller) {
      controller.enqueue(Buffer.alloc(100_000));
      await expect.poll(() => existsSync(join(folder, "partial"))).toBe(true);
      controller.error(new Error("the client went away"));
    },
  });
  await expect(put("path=partial", broken)).rejects.toThrow();
  await lastExit;
  expect((await server.call("GET", "/api/settings")).status).toBe(200);
  expect(server.logs.filter((line) => line.includes("request failed"))).toEqual([]);
});
