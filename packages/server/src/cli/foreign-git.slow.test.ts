import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { extract } from "tar";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Changes } from "./changes.ts";
import { defaultCopyLimit } from "./copy-plan.ts";
import { openCopySource } from "./copy-source.ts";
import { askForeignGit } from "./foreign-git.ts";
import { packFolder } from "./tree.ts";

let base: string;
beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "sandpiper-source-"));
});
afterEach(() => rm(base, { recursive: true, force: true }));

async function write(files: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(base, path)), { recursive: true });
    await writeFile(join(base, path), content);
  }
}
const shell = (script: string, cwd = base) =>
  execFileSync("sh", ["-ec", script], { cwd, encoding: "utf8", stdio: "pipe" });
const open = (folder: string) =>
  openCopySource(join(base, folder), { secrets: false, limit: defaultCopyLimit, user: undefined });

/** Copies a folder as a sandbox gets it; returns where the copy is, and the notes. */
async function copyOf(folder: string): Promise<{ copy: string; notes: string[] }> {
  const copy = await mkdtemp(join(base, "copy-"));
  const { parts, notes, close } = await open(folder);
  for (const { from, to, includes } of parts) {
    await mkdir(join(copy, to), { recursive: true });
    await pipeline(packFolder(from, includes), extract({ cwd: join(copy, to) }));
  }
  await close();
  return { copy, notes };
}

const head = { HEAD: "ref: refs/heads/main\n", "objects/x": "", "refs/x": "", credentials: "SECRET" };
/** Files below a folder, with this text in their path. */
const below = (folder: string, files: Record<string, string>) =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}`, text]));

test.each<[string, Record<string, string>, string]>([
  [
    "a folder with a config",
    { "p/.git": "gitdir: ../aws", ...below("aws", { ...head, config: "SECRET" }) },
    "",
  ],
  [
    "a folder with a config of another work tree",
    { "p/.git": "gitdir: ../aws", ...below("aws", { ...head, config: "[core]\nworktree = ../q\n" }) },
    "",
  ],
  [
    "a common folder elsewhere",
    {
      "p/.git": "gitdir: ../fake/worktrees/p",
      ...below("fake/worktrees/p", { commondir: "../../../aws", gitdir: "../../../p/.git", HEAD: "SECRET" }),
      ...below("aws", { ...head, config: "SECRET" }),
    },
    "",
  ],
  [
    "a worktree that is of another folder",
    {
      "p/.git": "gitdir: ../main/worktrees/q",
      ...below("main/worktrees/q", { commondir: "../..", gitdir: "../../../q/.git", HEAD: "SECRET" }),
      ...below("main", { ...head, config: "SECRET" }),
    },
    "",
  ],
  [
    "a config that is a link",
    {
      "p/.git": "gitdir: ../main/worktrees/p",
      ...below("main/worktrees/p", { commondir: "../..", gitdir: "../../../p/.git" }),
      ...below("main", head),
      key: "SECRET",
    },
    "ln -s ../key main/config",
  ],
  [
    "a .git that is a link",
    {
      pointer: "gitdir: main",
      ...below("main", { ...head, config: "[core]\nworktree = ../p\n" }),
      "p/a": "",
    },
    "ln -s ../pointer p/.git",
  ],
  [
    "files that are not of git in the folder that it names",
    {
      "p/.git": "gitdir: ../main/worktrees/p",
      ...below("main/worktrees/p", { commondir: "../..", gitdir: "../../../p/.git", credentials: "SECRET" }),
      ...below("main", { ...head, config: "" }),
    },
    "",
  ],
  [
    "objects and alternates that are links",
    {
      "p/.git": "gitdir: ../main/worktrees/p",
      ...below("main/worktrees/p", { commondir: "../..", gitdir: "../../../p/.git" }),
      ...below("main", { ...head, config: "[core]\n", "objects/info/alternates": "../../aws" }),
      "aws/credentials": "SECRET",
    },
    "ln -s ../../aws main/objects/pack",
  ],
])("a pointer of .git copies nothing of %s", async (_, files, script) => {
  await write(files);
  shell(script);
  const { copy } = await copyOf("p");
  expect(shell("grep -rl SECRET . || true", copy)).toBe("");
});

test("a pointer that is not followed is explained, and left out", async () => {
  await write({ "p/.git": "gitdir: ../aws", "p/a": "a", "aws/config": "SECRET" });
  const { copy, notes } = await copyOf("p");
  expect(shell("ls -A", copy)).toBe("a\n");
  expect(notes).toEqual([expect.stringMatching(/^Not copied: the repository, because \.git names .*aws, /)]);
});

/** Ways in which the git folder of a stranger makes git start a program. */
const programs: Record<string, string> = {
  "the ext transport": "git config remote.x.url ext::$EVIL; git config protocol.ext.allow always",
  "an ssh command": "git config remote.x.url ssh://a/b; git config core.sshCommand $EVIL",
  "an ssh command of a protocol that is allowed":
    "git config remote.x.url ssh://a/b; git config core.sshCommand $EVIL; git config protocol.ssh.allow always",
  "an upload command": "git config remote.x.url $PWD; git config remote.x.uploadpack $EVIL",
  "a proxy": "git config remote.x.url git://a/b; git config core.gitProxy $EVIL",
  "a helper without a name": 'git config remote.x.url ::x; git config alias.remote- "!$EVIL"',
  "a helper that is an alias": 'git config remote.x.url none::x; git config alias.remote-none "!$EVIL"',
  "a helper of another name":
    'git config remote.x.url /x; git config remote.x.vcs none; git config alias.remote-none "!$EVIL"',
  "a file system monitor": "git config core.fsmonitor $EVIL",
  "a pager":
    "git config core.pager $EVIL; git config pager.ls-files $EVIL; git config pager.check-ignore $EVIL",
  aliases: 'git config alias.ls-files "!$EVIL"; git config alias.check-ignore "!$EVIL"',
  "an included configuration":
    'printf "[remote \\"x\\"]\\nurl=ext::%s\\n[protocol \\"ext\\"]\\nallow=always\\n" "$EVIL" > .git/more; git config include.path more',
  "a configuration of the worktree":
    "git config extensions.worktreeConfig true; git config --worktree remote.x.url ext::$EVIL; git config --worktree protocol.ext.allow always",
};

test.each(Object.entries(programs))("git of a stranger's folder starts no program: %s", async (_, script) => {
  await write({ "p/.gitignore": "sub\n", "p/sub/a": "a", evil: '#!/bin/sh\necho "$0 $@" >> "$0.ran"\n' });
  shell(
    `chmod +x evil; cd p; git init -q; git add .gitignore; git update-index --skip-worktree .gitignore
    rm -r .gitignore .git/objects; mkdir .git/objects
    git config core.repositoryformatversion 1; git config extensions.partialClone x
    git config remote.x.promisor true; EVIL=${base}/evil; ${script}`,
  );
  await open("p");
  await open("p/sub");
  const changes = await Changes.since(join(base, "p"));
  await changes.close();
  expect(shell("cat evil.ran 2>/dev/null || true")).toBe("");
});

test("a work tree that the folder names is not listed", async () => {
  await write({ "p/a.env": "", "p/.env": "x", "q/.env": "x" });
  shell("git init -q; git add -f .env; git config core.worktree ../../q", join(base, "p"));
  expect((await open("p")).secrets).toEqual([]);
});

/** Ways in which the git folder of a stranger makes git read a file that never ends. */
const pipes: Record<string, string> = {
  "a list of ignored files": "mkfifo .gitignore",
  "a list of ignored files of a subfolder": "mkfifo sub/.gitignore",
  "a list of ignored files of the repository": "rm -f .git/info/exclude; mkfifo .git/info/exclude",
  "a link to one": "mkfifo ../pipe; ln -sf ../../../pipe .git/info/exclude",
  "a list that the configuration names": "mkfifo .git/list; git config core.excludesFile $PWD/.git/list",
  "the configuration": "rm .git/config; mkfifo .git/config",
  "an included configuration": "mkfifo .git/more; git config include.path more",
  "the index": "mkfifo .git/index",
};

test.each(Object.entries(pipes))("git that waits for a pipe is ended: %s", async (_, script) => {
  await write({ "p/a": "", "p/sub/a": "" });
  const folder = join(base, "p");
  shell(`git init -q; ${script}`, folder);
  const ask = askForeignGit(["ls-files", "-z", "--others", "--ignored", "--exclude-standard"], {
    cwd: folder,
    accept: [128, 129],
    maxMs: 500,
  });
  await expect(ask).rejects.toThrow(
    `git gave no answer about ${folder} within 0.5 s: look there for a named pipe or a device that git reads, such as`,
  );
});

test.each([".gitignore", ".gitattributes", "sub/.gitattributes"])("a pipe as %s is named", async (name) => {
  await write({ "p/a": "", "p/sub/a": "" });
  shell(`mkfifo p/${name}`);
  const changes = Changes.since(join(base, "p"));
  await expect(changes).rejects.toThrow(`${join(base, "p", name)} is no regular file, and git would wait`);
});

test("only these files start git without the settings for folders of strangers", async () => {
  const names = await readdir(import.meta.dirname, { recursive: true });
  const users: string[] = [];
  for (const name of names.filter((one) => one.endsWith(".ts") && !one.endsWith(".test.ts")))
    if (/\brunGit\(|\(\s*"git",/.test(await readFile(join(import.meta.dirname, name), "utf8")))
      users.push(name);
  expect(users.sort()).toEqual([
    // The scratch repository of Changes, with no configuration of the folder.
    "changes.ts",
    "demo.ts",
    "doctor.ts",
    "foreign-git.ts",
    "git-folder.ts",
    "git.ts",
    // The clone that the user asks for.
    "run.ts",
  ]);
});
