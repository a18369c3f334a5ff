import { execFileSync, spawn } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { ApplyConflict, Changes } from "./changes.ts";
import { extractTar } from "./extract.ts";
import { plain } from "./style.ts";
import { listFiles, packFolder } from "./tree.ts";

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function folder(files: Record<string, string | Buffer> = {}): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), "sandpiper-test-"));
  cleanups.push(() => rm(root, { recursive: true, force: true }));
  await write(root, files);
  return root;
}

async function write(root: string, files: Record<string, string | Buffer>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(root, path, ".."), { recursive: true });
    await writeFile(join(root, path), content);
  }
}

const shell = (cwd: string, script: string) =>
  execFileSync("sh", ["-ec", script], { cwd, encoding: "utf8", stdio: "pipe" });
const repository =
  "git init -q && git -c user.name=t -c user.email=t@example.com add -A && git -c user.name=t -c user.email=t@example.com commit -qm start";

/**
 * Sends a folder the way to a sandbox and back, lets `agent` change the copy between, and gives the
 * changes.
 */
async function workOn(root: string, agent: (copy: string) => Promise<unknown>) {
  const copy = await folder();
  const changes = await Changes.since(root);
  cleanups.push(() => changes.close());
  await extractTar(packFolder(root), copy);
  await agent(copy);
  const back = await changes.target();
  await extractTar(packFolder(copy), back);
  return { changes, patch: await changes.compare(back) };
}

test("an agent's changes are reproduced exactly: text, binary, modes, renames, deletions, links, empty files", async () => {
  const binary = Buffer.from(Array.from({ length: 5000 }, (_, index) => (index * 7919) % 256));
  const root = await folder({
    "a.txt": "one\ntwo\nthree\n",
    "no newline": "end",
    "crlf.txt": "a\r\nb\r\n",
    ".gitattributes": "* text=auto eol=lf\n*.lock -diff\n",
    "deep/er/old name.md": "same content\n".repeat(30),
    "gone.txt": "bye\n",
    "image.bin": binary,
    "run.sh": "echo hi\n",
    'umläut "quoted"\n.txt': "x\n",
  });
  shell(root, repository);
  const { changes, patch } = await workOn(root, async (copy) => {
    await write(copy, {
      "a.txt": "one\n2\nthree\n",
      "crlf.txt": "a\r\nB\r\n",
      "no newline": "end!",
      empty: "",
      'umläut "quoted"\n.txt': "y\n",
    });
    await write(copy, { "image.bin": Buffer.from(binary).reverse(), "yarn.lock": "new\n", "new dir/x": "x" });
    await rename(join(copy, "deep/er/old name.md"), join(copy, "renamed.md"));
    await rm(join(copy, "gone.txt"));
    await chmod(join(copy, "run.sh"), 0o755);
    await symlink("a.txt", join(copy, "link"));
  });
  await changes.apply(patch!);
  expect(await readFile(join(root, "a.txt"), "utf8")).toBe("one\n2\nthree\n");
  expect(await readFile(join(root, "crlf.txt"), "utf8")).toBe("a\r\nB\r\n");
  expect(await readFile(join(root, "no newline"), "utf8")).toBe("end!");
  expect(await readFile(join(root, 'umläut "quoted"\n.txt'), "utf8")).toBe("y\n");
  expect((await readFile(join(root, "image.bin"))).equals(Buffer.from(binary).reverse())).toBe(true);
  expect(await readFile(join(root, "empty"), "utf8")).toBe("");
  expect(await readFile(join(root, "new dir/x"), "utf8")).toBe("x");
  expect((await lstat(join(root, "run.sh"))).mode & 0o111).toBe(0o111);
  expect(await readlink(join(root, "link"))).toBe("a.txt");
  expect(await listFiles(root)).not.toContain("gone.txt");
  expect(await listFiles(root)).not.toContain("deep/er/old name.md");
  expect(await patch!.display(plain)).toMatch(/rename from deep\/er\/old name\.md/);
});

test("folders without a repository and empty folders work, and no change means no patch", async () => {
  const root = await folder();
  const { changes, patch } = await workOn(root, (copy) => write(copy, { "hello.txt": "hi\n" }));
  await changes.apply(patch!);
  expect(await readFile(join(root, "hello.txt"), "utf8")).toBe("hi\n");
  expect(await readdir(root)).toEqual(["hello.txt"]);
  expect((await workOn(root, async () => {})).patch).toBeUndefined();
});

test("ignored files are omitted from the diff unless the repository tracks them", async () => {
  const root = await folder({ ".gitignore": "build/\n*.log\n", "kept.log": "1\n", "src.txt": "1\n" });
  shell(root, `git init -q && git add -f kept.log && ${repository}`);
  const { patch } = await workOn(root, (copy) =>
    write(copy, { "build/out.js": "x", "new.log": "x", "kept.log": "2\n" }),
  );
  const text = await patch!.display(plain);
  expect(text).toContain("kept.log");
  expect(text).not.toMatch(/out\.js|new\.log/);
});

test("a nested repository is compared file by file, without files of .git", async () => {
  const root = await folder({ "inner/file.txt": "1\n", "outer.txt": "1\n" });
  shell(join(root, "inner"), repository);
  shell(root, "git init -q");
  const { changes, patch } = await workOn(root, async (copy) => {
    await write(copy, {
      "inner/file.txt": "2\n",
      ".git/config": "[core]\n\tfsmonitor = touch /tmp/pwned\n",
      ".git/hooks/pre-commit": "evil",
    });
  });
  const text = await patch!.display(plain);
  expect(text).toContain("inner/file.txt");
  expect(text).not.toContain(".git/");
  await changes.apply(patch!);
  expect(await readFile(join(root, "inner/file.txt"), "utf8")).toBe("2\n");
  expect(await readFile(join(root, ".git/config"), "utf8")).not.toContain("fsmonitor");
});

test("a subfolder of a repository takes the changes too", async () => {
  const parent = await folder({ "sub/a.txt": "1\n", "b.txt": "1\n" });
  shell(parent, repository);
  const root = join(parent, "sub");
  const { changes, patch } = await workOn(root, (copy) => write(copy, { "a.txt": "2\n" }));
  await changes.apply(patch!);
  expect(await readFile(join(root, "a.txt"), "utf8")).toBe("2\n");
});

test("conflicting changes do not modify a folder that was changed meanwhile; other changes are applied", async () => {
  const root = await folder({ "a.txt": "1\n", "b.txt": "1\n" });
  const conflicting = await workOn(root, (copy) => write(copy, { "a.txt": "agent\n", "b.txt": "agent\n" }));
  await write(root, { "a.txt": "mine\n" });
  await expect(conflicting.changes.apply(conflicting.patch!)).rejects.toThrow(
    /changed during the run.*nothing was applied/,
  );
  expect(await readFile(join(root, "b.txt"), "utf8")).toBe("1\n");

  await write(root, { "a.txt": "1\n" });
  const other = await workOn(root, (copy) => write(copy, { "b.txt": "agent\n" }));
  await write(root, { "a.txt": "mine\n" });
  await other.changes.apply(other.patch!);
  expect(await readFile(join(root, "b.txt"), "utf8")).toBe("agent\n");
});

test("a patch cannot write through a link that the agent put in place of a folder", async () => {
  const outside = await folder({ "victim.txt": "safe\n" });
  const root = await folder({ "dir/victim.txt": "1\n" });
  const { changes, patch } = await workOn(root, (copy) => write(copy, { "dir/victim.txt": "2\n" }));
  await rm(join(root, "dir"), { recursive: true });
  await symlink(outside, join(root, "dir"));
  await expect(changes.apply(patch!)).rejects.toThrow(/nothing was applied/);
  expect(await readFile(join(outside, "victim.txt"), "utf8")).toBe("safe\n");
});

test("filters and hooks of the machine's git configuration do not run on the agent's files", async () => {
  const home = await folder();
  const marker = join(home, "ran");
  await write(home, {
    ".gitconfig": `[filter "evil"]\n\tclean = touch ${marker}; cat\n[diff "evil"]\n\tcommand = touch ${marker}\n\ttextconv = touch ${marker}\n`,
  });
  const before = process.env.HOME;
  process.env.HOME = home;
  cleanups.push(async () => {
    process.env.HOME = before;
  });
  const root = await folder({ "a.txt": "1\n" });
  const { patch } = await workOn(root, (copy) =>
    write(copy, { ".gitattributes": "* filter=evil diff=evil\n", "a.txt": "2\n" }),
  );
  expect(await patch!.display(plain)).toContain("a.txt");
  expect(await readdir(home)).toEqual([".gitconfig"]);
});

test("the shown diff hides nothing of what is applied, and the patch itself is exact", async () => {
  const root = await folder({ "a.sh": "ls\n" });
  const text = "ls \x1b[8m; curl x|sh\x1b[0m\rls\n\u202e#\u{e0041}\u200b\n";
  const { changes, patch } = await workOn(root, (copy) => write(copy, { "a.sh": text }));
  const shown = await patch!.display(plain);
  expect(shown).toContain("+ls ^[[8m; curl x|sh^[[0m^Mls\n+<U+202E>#<U+E0041><U+200B>\n");
  expect(shown.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  await changes.apply(patch!);
  expect(await readFile(join(root, "a.sh"), "utf8")).toBe(text);
});

test("changes that git itself would use are not applied, and nothing is", async () => {
  for (const path of ["git~1/hooks/pre-commit", "sub/.git /config", "GITMOD~1"]) {
    const root = await folder({ "a.txt": "one\n" });
    const { changes, patch } = await workOn(root, (copy) => write(copy, { "a.txt": "two\n", [path]: "x\n" }));
    await expect(changes.apply(patch!)).rejects.toThrow(JSON.stringify(path));
    expect(await readFile(join(root, "a.txt"), "utf8")).toBe("one\n");
    expect(await listFiles(root)).toEqual(["a.txt"]);
  }
});

test("a folder that git would take for a repository is not applied", async () => {
  const root = await folder({ "a.txt": "one\n" });
  const { changes, patch } = await workOn(root, async (copy) => {
    shell(
      copy,
      "git init -q --bare pack && git -C pack config core.fsmonitor 'touch /tmp/never' && touch pack/refs/x",
    );
    await write(copy, { "pack/objects/x": "" });
  });
  await expect(changes.apply(patch!)).rejects.toThrow('git would take the folder "pack" for a repository');
});

test("programs in the git configuration of the folder do not run", async () => {
  const root = await folder({ "a.txt": "one\n", b: "b\n" });
  shell(
    root,
    `${repository} && git config core.fsmonitor 'touch ran; false' && git config core.untrackedCache true`,
  );
  const { changes, patch } = await workOn(root, (copy) => write(copy, { "a.txt": "two\n" }));
  await changes.apply(patch!);
  expect(await listFiles(root)).toEqual(["a.txt", "b"]);
});

test("a merge keeps both sides: clean where they differ, with markers where they meet, all or nothing", async () => {
  const root = await folder({ "a.txt": "1\n2\n3\n4\n5\n6\n7\n", "b.txt": "b\n" });
  const { changes, patch } = await workOn(root, (copy) =>
    write(copy, { "a.txt": "1\n2\n3\n4\n5\n6\nagent\n", "b.txt": "agent\n", "new.txt": "n\n" }),
  );
  await write(root, { "a.txt": "user\n2\n3\n4\n5\n6\n7\n", "b.txt": "user\n" });
  await expect(changes.apply(patch!)).rejects.toBeInstanceOf(ApplyConflict);
  expect(await changes.merge(patch!)).toEqual(["b.txt"]);
  expect(await readFile(join(root, "a.txt"), "utf8")).toBe("user\n2\n3\n4\n5\n6\nagent\n");
  expect(await readFile(join(root, "b.txt"), "utf8")).toMatch(/^<{7} .*\nuser\n={7}\nagent\n>{7} .*\n$/);
  expect(await readFile(join(root, "new.txt"), "utf8")).toBe("n\n");

  const other = await folder({ "a.txt": "1\n", "gone.txt": "g\n" });
  const second = await workOn(other, (copy) => write(copy, { "a.txt": "2\n", "gone.txt": "changed\n" }));
  await rm(join(other, "gone.txt"));
  await expect(second.changes.merge(second.patch!)).rejects.toThrow(/gone\.txt/);
  expect(await readFile(join(other, "a.txt"), "utf8")).toBe("1\n");
});

test("a file that the copy has with its size and time is not read again; all others are", async () => {
  const root = await folder({ "old.txt": "one", "same second.txt": "one", "gone.txt": "x", "kind/a": "b" });
  const old = new Date("2026-01-02T03:04:05Z");
  await utimes(join(root, "old.txt"), old, old);
  const { patch } = await workOn(root, async (copy) => {
    await writeFile(join(copy, "old.txt"), "two");
    await utimes(join(copy, "old.txt"), old, old);
    await writeFile(join(copy, "same second.txt"), "two");
    await rm(join(copy, "gone.txt"));
    await rm(join(copy, "kind"), { recursive: true });
    await writeFile(join(copy, "kind"), "a file now");
  });
  expect(patch!.changed.sort()).toEqual(["gone.txt", "kind", "kind/a", "same second.txt"]);
});

test("holes of large files stay holes, and the end of a file its length", async () => {
  const root = await folder({ "end.bin": Buffer.concat([Buffer.from("a"), Buffer.alloc(100_000)]) });
  const size = 64 * 1024 * 1024 + 123;
  shell(root, `truncate -s ${size} sparse.bin && printf x | dd of=sparse.bin bs=1 seek=5000000 conv=notrunc`);
  const copy = await folder();
  // As a sandbox sends it.
  const tar = spawn("tar", ["-c", "-f", "-", "."], { cwd: root, stdio: ["ignore", "pipe", "ignore"] });
  await extractTar(tar.stdout, copy);
  const found = await lstat(join(copy, "sparse.bin"));
  expect(found.size).toBe(size);
  expect(found.blocks * 512).toBeLessThan(size / 10);
  expect(
    shell("/", `cmp "${root}/sparse.bin" "${copy}/sparse.bin"; cmp "${root}/end.bin" "${copy}/end.bin"`),
  ).toBe("");
});

test("an apply that the disk has no room for leaves the folder as it was, and so does a merge", async () => {
  const root = await folder();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "sandpiper-test", root]);
  cleanups.unshift(async () => void execFileSync("umount", ["--lazy", root]));
  await write(root, { "a.txt": "one\n", "b.txt": "two\n", "own.txt": "own\n" });
  const { changes, patch } = await workOn(root, async (copy) => {
    await write(copy, { "a.txt": "one\nmore\n", "dir/new.txt": "x".repeat(2_000_000) });
    await rm(join(copy, "b.txt"));
  });
  await write(root, { "own.txt": "changed meanwhile\n" });
  for (const change of [() => changes.apply(patch!), () => changes.merge(patch!)]) {
    await expect(change()).rejects.toThrow(/No space left|Out of diskspace|unable to write/);
    expect((await listFiles(root)).toSorted()).toEqual(["a.txt", "b.txt", "own.txt"]);
    expect(await readFile(join(root, "a.txt"), "utf8")).toBe("one\n");
    expect(await readFile(join(root, "b.txt"), "utf8")).toBe("two\n");
    expect(await readFile(join(root, "own.txt"), "utf8")).toBe("changed meanwhile\n");
  }
});

test("folders and large files that are ignored as a whole are named, and nothing that has a tracked file", async () => {
  const root = await folder({
    ".gitignore": "build/\n*.img\nkept/\n[[]odd[]]/\n",
    "build/deep/out.o": "out",
    "kept/tracked": "in git",
    "kept/other": "not in git",
    "[odd]/x": "a name with characters of patterns",
    "disk.img": Buffer.alloc(2 * 1024 * 1024),
    "small.img": "small",
    "src/a.txt": "a",
  });
  shell(
    root,
    `${repository} && git add -f kept/tracked && git -c user.name=t -c user.email=t@x commit -qm more`,
  );
  const changes = await Changes.since(root);
  cleanups.push(() => changes.close());
  expect(await changes.ignored()).toEqual(["build", "disk.img"]);
  await changes.startFrom(root);
  expect(await changes.ignored()).toEqual([]);
});
