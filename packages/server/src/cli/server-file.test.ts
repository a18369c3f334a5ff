import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { findServer, keepPublished, publishServer, withdrawServer } from "./server-file.ts";

let dir = "";
let file = "";
const server = { url: "http://127.0.0.1:1", key: "sp_key", stays: true };

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sandpiper-server-file-"));
  file = join(dir, "server.json");
});
afterEach(() => rm(dir, { recursive: true, force: true }));

test("a published server is found until it is withdrawn, and only its owner can read the key", async () => {
  expect(findServer(dir)).toBeUndefined();
  publishServer(dir, server);
  expect(findServer(dir)).toMatchObject({ ...server, pid: process.pid });
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  withdrawServer(dir);
  expect(findServer(dir)).toBeUndefined();
});

test("the file of a process that has ended is stale, also when its id belongs to another process", async () => {
  publishServer(dir, server);
  const content = JSON.parse(await readFile(file, "utf8"));
  const replace = (change: object) => writeFile(file, JSON.stringify({ ...content, ...change }));
  await replace({ pid: 2 ** 22 + 1 });
  expect(findServer(dir)).toBeUndefined();
  await replace({ started: "1" });
  expect(findServer(dir)).toBeUndefined();
  // The next server replaces it.
  publishServer(dir, server);
  expect(findServer(dir)).toMatchObject(server);
});

test("the file shows the first of two servers once the second one has been killed", async () => {
  const withdraw = keepPublished(dir, server, 20);
  const module = fileURLToPath(new URL("./server-file.ts", import.meta.url));
  const later = { ...server, url: "http://127.0.0.1:2" };
  const code = `import { keepPublished } from ${JSON.stringify(module)};
    keepPublished(${JSON.stringify(dir)}, ${JSON.stringify(later)});
    console.log("published");
    process.stdin.resume();`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  expect(findServer(dir)).toMatchObject({ ...later, pid: child.pid });
  child.kill("SIGKILL");
  await once(child, "exit");
  await vi.waitFor(() => expect(findServer(dir)).toMatchObject({ ...server, pid: process.pid }), 5_000);
  withdraw();
  expect(findServer(dir)).toBeUndefined();
});

test("a file that others can read, or that is no JSON, is ignored", async () => {
  publishServer(dir, server);
  await chmod(file, 0o644);
  expect(findServer(dir)).toBeUndefined();
  await writeFile(file, "{");
  await chmod(file, 0o600);
  expect(findServer(dir)).toBeUndefined();
});
