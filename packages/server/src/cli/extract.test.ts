import { execFileSync } from "node:child_process";
import { lstat, mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import fc from "fast-check";
import { Header } from "tar";
import { afterEach, beforeEach, expect, test } from "vitest";
import { extractTar, safePath } from "./extract.ts";
import { packFolder } from "./tree.ts";

let base = "";
let root = "";
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  root = join(base, "root");
  execFileSync("mkdir", [root, join(base, "outside")]);
  await writeFile(join(base, "outside/victim"), "safe");
});
afterEach(() => rm(base, { recursive: true, force: true }));

interface Entry {
  path: string;
  type?:
    | ("File" | "Directory" | "SymbolicLink" | "Link" | "CharacterDevice" | "BlockDevice" | "FIFO")
    | ("ExtendedHeader" | "NextFileHasLongPath");
  body?: string;
  mode?: number;
  linkpath?: string;
}

/** A tar archive with exactly these headers, as a hostile sandbox could write them. */
function archive(...entries: Entry[]): Readable {
  const blocks = entries.flatMap(({ path, type = "File", body = "", mode = 0o644, linkpath }) => {
    const header = new Header({
      path,
      type,
      mode,
      size: Buffer.byteLength(body),
      ...(linkpath !== undefined && { linkpath }),
    });
    const block = Buffer.alloc(512);
    header.encode(block, 0);
    const content = Buffer.alloc(Math.ceil(Buffer.byteLength(body) / 512) * 512);
    content.write(body);
    return [block, content];
  });
  return Readable.from([Buffer.concat([...blocks, Buffer.alloc(1024)])]);
}

const hostile: Record<string, Entry[]> = {
  "an absolute path": [{ path: "/tmp/sandpiper-evil", body: "x" }],
  "a path that climbs": [{ path: "../outside/victim", body: "x" }],
  "a path that climbs in its middle": [{ path: "a/../../outside/victim", body: "x" }],
  "a file through a link": [
    { path: "l", type: "SymbolicLink", linkpath: "../outside" },
    { path: "l/victim", body: "x" },
  ],
  "a folder over a link": [
    { path: "l", type: "SymbolicLink", linkpath: "../outside" },
    { path: "l", type: "Directory" },
    { path: "l/victim", body: "x" },
  ],
  "a file below a file": [
    { path: "f", body: "x" },
    { path: "f/g", body: "x" },
  ],
  "a hard link to the outside": [{ path: "h", type: "Link", linkpath: "../outside/victim" }],
  "a hard link by an absolute path": [{ path: "h", type: "Link", linkpath: "/etc/passwd" }],
  "a hard link to a symbolic link": [
    { path: "l", type: "SymbolicLink", linkpath: "../outside/victim" },
    { path: "h", type: "Link", linkpath: "l" },
  ],
  "a hard link through a symbolic link": [
    { path: "l", type: "SymbolicLink", linkpath: "../outside" },
    { path: "h", type: "Link", linkpath: "l/victim" },
  ],
  "a file in place of the folder itself": [{ path: "./", type: "SymbolicLink", linkpath: "../outside" }],
};

test.each(Object.entries(hostile))("%s is refused and writes nothing outside", async (_name, entries) => {
  await expect(extractTar(archive(...entries), root)).rejects.toThrow(/refused/);
  expect(await readFile(join(base, "outside/victim"), "utf8")).toBe("safe");
  expect(await readdir(join(base, "outside"))).toEqual(["victim"]);
});

test("a file that replaces a link is a file, and the link's target stays", async () => {
  await extractTar(
    archive({ path: "l", type: "SymbolicLink", linkpath: "../outside/victim" }, { path: "l", body: "new" }),
    root,
  );
  expect((await lstat(join(root, "l"))).isFile()).toBe(true);
  expect(await readFile(join(base, "outside/victim"), "utf8")).toBe("safe");
});

test("devices, pipes and git's own folders are skipped, set-uid and foreign write bits are removed", async () => {
  await extractTar(
    archive(
      { path: "dev", type: "CharacterDevice" },
      { path: "blk", type: "BlockDevice" },
      { path: "pipe", type: "FIFO" },
      { path: ".git/hooks/post-checkout", body: "evil", mode: 0o755 },
      { path: "sub/.GIT/config", body: "evil" },
      { path: "suid", body: "x", mode: 0o6777 },
      { path: "plain", body: "x", mode: 0o666 },
      { path: "dangling", type: "SymbolicLink", linkpath: "/nowhere" },
    ),
    root,
  );
  expect((await readdir(root)).sort()).toEqual(["dangling", "plain", "suid"]);
  expect((await stat(join(root, "suid"))).mode & 0o7777).toBe(0o755);
  expect((await stat(join(root, "plain"))).mode & 0o7777).toBe(0o644);
  expect(await readlink(join(root, "dangling"))).toBe("/nowhere");
});

test("too much data, too many entries and a cut-off archive end with one sentence", async () => {
  await expect(
    extractTar(archive({ path: "a", body: "12345" }), root, { bytes: 4, entries: 9 }),
  ).rejects.toThrow(/larger than 4 bytes/);
  await expect(
    extractTar(archive({ path: "b" }, { path: "c" }), root, { bytes: 9, entries: 1 }),
  ).rejects.toThrow(/more than 1 entries/);
  const head: Entry = { path: "h", type: "ExtendedHeader", body: "12 path=abc\n" };
  await expect(
    extractTar(archive(head, head, head, { path: "x" }), root, { bytes: 9, entries: 2 }),
  ).rejects.toThrow(/more than 2 entries/);
  const deep: Entry = { path: "h", type: "NextFileHasLongPath", body: "a/".repeat(400_000) };
  await expect(extractTar(archive(deep, { path: "x" }), root)).rejects.toThrow(
    /is longer than 4095 characters/,
  );
  const whole = Buffer.concat(await archive({ path: "d", body: "x".repeat(5000) }).toArray());
  await expect(extractTar(Readable.from([whole.subarray(0, 2000)]), root)).rejects.toThrow(
    /could not be unpacked/,
  );
  await expect(extractTar(Readable.from([Buffer.alloc(4096, 7)]), root)).rejects.toThrow(
    /could not be unpacked/,
  );
});

test("a source that fails makes the extraction fail", async () => {
  const source = new Readable({ read() {} });
  source.push(Buffer.alloc(100));
  source.destroy(new Error("connection lost"));
  await expect(extractTar(source, root)).rejects.toThrow(/connection lost/);
});

test("no archive of random entries writes outside of the folder", async () => {
  const name = fc
    .array(fc.constantFrom("a", "b", "..", ".", "l", "outside", "victim"), { minLength: 1, maxLength: 4 })
    .map((parts) => parts.join("/"));
  const entry = fc.record({
    path: name,
    type: fc.constantFrom("File", "Directory", "SymbolicLink", "Link"),
    linkpath: fc.oneof(name, fc.constant(base), fc.constant("..")),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(entry, { maxLength: 8 }), async (entries) => {
      const target = await mkdtemp(join(base, "run-"));
      const before = await readdir(base);
      await extractTar(archive(...(entries as Entry[])), target).catch(() => {});
      expect(await readdir(base)).toEqual(before);
      expect(await readdir(join(base, "outside"))).toEqual(["victim"]);
      expect(await readFile(join(base, "outside/victim"), "utf8")).toBe("safe");
      await rm(target, { recursive: true });
    }),
    { numRuns: 150 },
  );
});

test("safe paths are relative and contain no ..", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("a", "/", ".", "\0", "b") }), (path) => {
      const safe = safePath(path);
      if (safe !== undefined) expect(join("/root", safe)).toMatch(/^\/root(\/|$)/);
    }),
  );
});

test("sockets and pipes of a folder are not sent", async () => {
  execFileSync("mkfifo", [join(base, "outside/pipe")]);
  await extractTar(packFolder(join(base, "outside")), root);
  expect(await readdir(root)).toEqual(["victim"]);
});
