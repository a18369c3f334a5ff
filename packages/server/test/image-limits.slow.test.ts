import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { writeHeader } from "@sandpiper/sandbox/tar/tar-header";
import { HostileRegistry } from "@sandpiper/sandbox/test/support/hostile-registry";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type Json, removeSandboxes, until } from "./support/platform.ts";
import { type ServerProcess, startServerProcess } from "./support/server-process.ts";

/** Images that users choose, on a small disk and against the limit of a user. */

const mebibyte = 2 ** 20;
let registry: HostileRegistry;
let folder: string;
let server: ServerProcess;

beforeAll(async () => {
  registry = await new HostileRegistry().listen();
});
afterAll(() => registry.close());
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-image-limits-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=128m,mode=711", "sandpiper-test", folder]);
  const env = { SANDPIPER_REGISTRIES: registry.host, SANDPIPER_MAX_IMAGES: "1" };
  server = await startServerProcess(folder, env);
});
afterEach(async () => {
  await removeSandboxes(server.call).catch(() => {});
  await server.end("SIGTERM");
  execFileSync("umount", ["--lazy", folder]);
  rmSync(folder, { recursive: true, force: true });
});

function image(tag: string, size: number): string {
  const file = [writeHeader({ path: "file", size }), randomBytes(size)];
  const content = Buffer.concat([...file, Buffer.alloc(1024)]);
  return registry.image(tag, [{ ...registry.blob(gzipSync(content)), content }]);
}

async function start(reference?: string): Promise<Json> {
  const query = reference ? `?sandbox_spec_id=${encodeURIComponent(`docker://${reference}`)}` : "";
  const { body } = await server.call("POST", `/api/v1/sandboxes${query}`);
  return until(async () => {
    const [row] = (await server.call("GET", `/api/v1/sandboxes?id=${body.id}`)).body;
    return row.status === "STARTING" ? undefined : row;
  });
}

const failure = (sentence: RegExp) => ({
  status: "ERROR",
  status_detail: expect.stringMatching(sentence),
});

test("a user keeps a limited number of images, and another one after a deletion", async () => {
  const [one, two] = [image("one", mebibyte), image("two", mebibyte)];
  expect([(await start(one)).status, (await start(one)).status]).toEqual(["RUNNING", "RUNNING"]);
  expect(await start(two)).toMatchObject(failure(/^Your sandboxes and snapshots keep 1 images, .*: delete /));
  expect((await start()).status).toBe("RUNNING");
  await removeSandboxes(server.call);
  expect((await start(two)).status).toBe("RUNNING");
});

test("a disk that an image fills is named, nothing of the image stays, and the next start works", async () => {
  expect(await start(image("large", 63 * mebibyte))).toMatchObject(failure(/disk/));
  const images = join(folder, "sandboxes", "images");
  expect([readdirSync(join(images, "tmp")), readdirSync(join(images, "roots"))]).toEqual([[], []]);
  const size = execFileSync("du", ["-sm", images], { encoding: "utf8" }).split("\t")[0];
  expect(Number(size)).toBeLessThan(3);
  await removeSandboxes(server.call);
  expect((await start(image("small", mebibyte))).status).toBe("RUNNING");
});
