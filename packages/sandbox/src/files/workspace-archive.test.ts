import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { create, list } from "tar";
import { afterAll, beforeAll, expect, test } from "vitest";
import { excludeMatcher } from "./exclude-matcher.ts";
import { withoutCredentials } from "./git/archive.ts";
import { filterTar } from "./tar-filter.ts";
import { holdsCredentials, workspaceFilter } from "./workspace-archive.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sandpiper-tar-"));
  for (const [name, size] of Object.entries(files)) {
    await mkdir(join(folder, "repo", name, ".."), { recursive: true });
    await writeFile(join(folder, "repo", name), "x".repeat(size));
  }
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const long = `${"deep folder ü/".repeat(12)}${"n".repeat(120)}`;
const files: Record<string, number> = {
  empty: 0,
  block: 512,
  "a b": 513,
  [long]: 3,
  "drop/me": 9_000,
  last: 1,
};

/** Cuts an archive into pieces of a size, which need not fit its blocks. */
async function* cut(data: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

/** Names and sizes of the files in an archive, read by another program. */
async function listFiles(tar: Buffer): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  const path = join(folder, "result.tar");
  await writeFile(path, tar);
  await list({
    file: path,
    onReadEntry: ({ path: name, size, type }) => {
      if (type === "File") found[name] = size;
    },
  });
  return found;
}

test.each([true, false])(
  "entries of any length of name are kept or left out (portable: %s)",
  async (noPax) => {
    const tar = await buffer(create({ cwd: folder, noPax, portable: true }, ["repo"]));
    for (const size of [1, 511, 700, 65_536, tar.length]) {
      if (size === 1 && noPax) continue;
      const filter = workspaceFilter("/workspace/repo", ["drop"]);
      const result = Buffer.concat(await Array.fromAsync(filterTar(cut(tar, size), filter)));
      const { "repo/archive_manifest.json": manifest, ...listed } = await listFiles(result);
      const { "drop/me": _, [long]: length, ...kept } = files;
      expect(listed).toMatchObject(
        Object.fromEntries(Object.entries(kept).map(([name, one]) => [`repo/${name}`, one])),
      );
      expect(Object.keys(listed)).toHaveLength(5);
      if (!noPax) expect(listed[`repo/${long}`]).toBe(length);
      expect(manifest).toBeGreaterThan(0);
      expect(result.toString("latin1")).toContain('"total_bytes": 1029');
    }
  },
);

test("what is no whole tar fails, and a manifest of the user stays", async () => {
  const tar = await buffer(create({ cwd: folder, portable: true }, ["repo"]));
  const read = (data: Buffer) => Array.fromAsync(filterTar(cut(data, 1_000), workspaceFilter("/repo", [])));
  await expect(read(tar.subarray(0, 2_000))).rejects.toMatchObject({ code: "InvalidParameter" });
  await expect(read(Buffer.alloc(1_024, "z"))).rejects.toMatchObject({ code: "InvalidParameter" });
  const filter = workspaceFilter("/repo", []);
  filter.keep({ name: "repo/archive_manifest.json", kind: "file", size: 1 });
  expect(filter.last()).toBeUndefined();
});

test("credentials of git are recognised by their place, and patterns do not cross slashes", () => {
  const secret = [
    ".git/config",
    ".git/FETCH_HEAD",
    ".git/credentials",
    ".git/modules/a/b/config",
    "x/.git/logs/HEAD",
  ];
  for (const path of [...secret, ".git/worktrees/w/config.worktree", "a.git/config", "home/.git-credentials"])
    expect([path, holdsCredentials(`/workspace/${path}`)]).toEqual([path, true]);
  expect(holdsCredentials("/workspace/x/.git/config")).toBe(true);
  for (const path of [
    "config",
    ".git",
    ".git/HEAD",
    ".git/refs/heads/main",
    "logs/a",
    ".github/config",
    "a/FETCH_HEAD",
  ])
    expect([path, holdsCredentials(`/workspace/${path}`)]).toEqual([path, false]);

  const excluded = excludeMatcher(["*/test", "build/", "*.pyc", "secrets/prod"]);
  const cases: [string, boolean, boolean][] = [
    ["a/test", false, true],
    ["a/test/x", false, true],
    ["a/b/test", false, false],
    ["build", false, false],
    ["build", true, true],
    ["src/build/out", false, true],
    ["deep/er/x.pyc", false, true],
    ["secrets/prod/key", false, true],
    ["my/secrets/prod", false, false],
  ];
  for (const [path, isFolder, wanted] of cases)
    expect([path, isFolder, excluded(path, isFolder)]).toEqual([path, isFolder, wanted]);

  expect(withoutCredentials("https://a:b@host/x.git?token=1#2")).toBe("https://host/x.git");
  expect(withoutCredentials("ssh://git@host/x.git")).toBe("ssh://host/x.git");
  expect(withoutCredentials("git@host:x/y.git")).toBe("git@host:x/y.git");
});
