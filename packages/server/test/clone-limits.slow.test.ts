import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type EndlessGit, startEndlessGit } from "./support/endless-git.ts";
import { type Json, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

/** Repositories without an end are cloned into sandboxes whose disk has one. */

const mebibyte = 2 ** 20;
let git: EndlessGit;
let folder: string;
let server: ServerProcess;
const cleanup: (() => unknown)[] = [];

beforeAll(async () => {
  git = await startEndlessGit();
});
afterAll(() => git.close());
afterEach(async () => {
  await server?.end("SIGTERM");
  for (const work of cleanup.splice(0).reverse()) await work();
  rmSync(folder, { recursive: true, force: true });
});

async function start(env: Record<string, string>, tmpfs?: string): Promise<void> {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-clone-"));
  if (tmpfs) {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${tmpfs},mode=711`, "sandpiper-test", folder]);
    cleanup.push(() => execFileSync("umount", ["--lazy", folder]));
  }
  const network = { private: ["127.0.0.0/8"] };
  writeFileSync(join(folder, "specs.json"), JSON.stringify({ specs: [{ id: "host", network }] }));
  writeFileSync(join(folder, "authority.pem"), git.authority);
  await startAgain(env);
  const provider_tokens = { github: { token: "ghp_some-token-0123456789", host: git.host } };
  const stored = await server.call("POST", "/api/v1/secrets/git-providers", { provider_tokens });
  expect(stored.status).toBe(200);
}

async function startAgain(env: Record<string, string> = {}): Promise<void> {
  const certificates = { NODE_EXTRA_CA_CERTS: join(folder, "authority.pem") };
  const reach = { SANDPIPER_OUTBOUND_PRIVATE: "127.0.0.0/8", SANDPIPER_LOG_LEVEL: "warn" };
  server = await startServerProcess(folder, { ...certificates, ...reach, ...env });
}

const begin = async (): Promise<string> => {
  const request = { initial_message: null, selected_repository: "big/one" };
  return (await server.call("POST", "/api/v1/app-conversations", request)).body.id;
};
const task = async (id: string): Promise<Json> =>
  (await server.call("GET", `/api/v1/app-conversations/start-tasks?ids=${id}`)).body[0];
const over = (id: string) =>
  until(async () => {
    const found = await task(id);
    return ["READY", "ERROR"].includes(found.status) ? found : undefined;
  });

/** What sandboxes have on the disk. */
const left = () => readdirSync(join(folder, "sandboxes", "sandboxes"));

test.each([
  ["of its sandbox", { SANDPIPER_DISK: "64M" }],
  ["of its user", { SANDPIPER_USER_DISK: "64M" }],
] as const)("a clone ends at the disk limit %s, says so, and leaves nothing", async (_, limit) => {
  await start(limit);
  const before = git.sent;
  const end = await over(await begin());
  expect(end).toMatchObject({
    status: "ERROR",
    detail: expect.stringMatching(
      /^big\/one cannot be cloned: it takes more than the 57\.6 MiB of disk that a clone may take here\. Choose a sandbox spec with a larger disk, or delete sandboxes and snapshots\.$/,
    ),
  });
  // What the pipes on the way hold comes on top.
  expect((git.sent - before) / mebibyte).toBeLessThan(100);
  await until(() => (left().length === 0 ? true : undefined));
});

test("a clone that fills the disk of the server ends with a sentence about it, and leaves nothing", async () => {
  await start({}, "128m");
  writeFileSync(join(folder, "ballast"), Buffer.alloc(60 * mebibyte));
  const end = await over(await begin());
  expect(end).toMatchObject({
    status: "ERROR",
    detail: expect.stringMatching(/disk of the server is (?:nearly )?full/),
  });
  await until(() => (left().length === 0 ? true : undefined));
  const request = { initial_message: null };
  const { body } = await server.call("POST", "/api/v1/app-conversations", request);
  expect(await over(body.id)).toMatchObject({ status: "READY" });
});

test("kill -9 during a clone: the next server clones again, and at its end nothing is left", async () => {
  await start({ SANDPIPER_DISK: "64M" });
  const release = git.pauseAfter(20 * mebibyte);
  const before = git.sent;
  const id = await begin();
  await until(() => (git.sent - before >= 20 * mebibyte ? true : undefined));
  await server.end("SIGKILL");
  release();
  await startAgain({ SANDPIPER_DISK: "64M" });
  expect(await over(id)).toMatchObject({
    status: "ERROR",
    detail: expect.stringMatching(/57\.6 MiB of disk/),
  });
  await until(() => (left().length === 0 ? true : undefined));
});
