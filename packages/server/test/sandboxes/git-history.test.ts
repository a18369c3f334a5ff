import { createHash } from "node:crypto";
import { buffer, text } from "node:stream/consumers";
import { findRepository, gitDelta } from "@sandpiper/sandbox/files/git/archive";
import { gitChanges, gitDiff } from "@sandpiper/sandbox/files/git/git";
import { gitCommitChanges, gitCommitDiff, gitCommits } from "@sandpiper/sandbox/files/git/history";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sh } from "../support/sandbox-service.ts";

let sandbox: Sandbox;
let remove: () => Promise<void>;

const git = (folder: string, ...commands: string[]) =>
  sh(
    sandbox,
    `mkdir -p '${folder}' && cd '${folder}' && export GIT_CONFIG_GLOBAL=/tmp/gitconfig && git config --global user.email a@b.c && git config --global user.name 'Ann Ä' && git config --global init.defaultBranch main && git config --global --replace-all safe.directory '*' && { ${commands.join(" && ")}; } 2>&1`,
  );

beforeAll(async () => {
  ({ sandbox, remove } = await testSandbox());
  await git(
    "/tmp/repo",
    "git init -q",
    "echo 1 >one",
    "mkdir d",
    "printf 'x' >'d/ü\n2'",
    "git add .",
    "git commit -qm 'First: ä'",
    "echo 2 >one",
    "git rm -q 'd/ü\n2'",
    "echo new >two",
    "git add .",
    "git commit -qm second -m 'A body.'",
    "git checkout -q -b side HEAD~1",
    "echo s >side",
    "git add .",
    "git commit -qm side",
    "git checkout -q main",
    "git merge -q --no-ff -m merged side",
  );
});
afterAll(() => remove());

test("commits are listed newest first, with a flag for more", async () => {
  const all = await gitCommits(sandbox, "/tmp/repo", 50);
  expect(all.hasMore).toBe(false);
  expect(all.commits.map(({ subject }) => subject).sort()).toEqual(["First: ä", "merged", "second", "side"]);
  expect(all.commits[0]).toEqual({
    sha: expect.stringMatching(/^[0-9a-f]{40}$/),
    short_sha: all.commits[0]!.sha.slice(0, 7),
    subject: "merged",
    author: "Ann Ä",
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$/),
  });
  const two = await gitCommits(sandbox, "/tmp/repo/d/..", 2);
  expect([two.commits, two.hasMore]).toEqual([all.commits.slice(0, 2), true]);
  await git("/tmp/empty", "git init -q");
  for (const folder of ["/tmp/empty", "/usr", "/nowhere"])
    expect(await gitCommits(sandbox, folder, 5)).toEqual({ commits: [], hasMore: false });
});

test("a commit's changes are relative to its first parent, without the working tree", async () => {
  const { commits } = await gitCommits(sandbox, "/tmp/repo", 50);
  const sha = (subject: string) => commits.find((commit) => commit.subject === subject)!.sha;
  expect(await gitCommitChanges(sandbox, "/tmp/repo", sha("second"))).toEqual([
    { status: "DELETED", path: "d/ü\n2" },
    { status: "UPDATED", path: "one" },
    { status: "ADDED", path: "two" },
  ]);
  expect(await gitCommitChanges(sandbox, "/tmp/repo", sha("merged").slice(0, 8))).toEqual([
    { status: "ADDED", path: "side" },
  ]);
  expect((await gitCommitChanges(sandbox, "/tmp/repo", sha("First: ä"))).map(({ path }) => path)).toEqual([
    "d/ü\n2",
    "one",
  ]);
  expect(await gitCommitDiff(sandbox, "/tmp/repo/one", sha("second"))).toEqual({
    original: "1\n",
    modified: "2\n",
  });
  expect(await gitCommitDiff(sandbox, "/tmp/repo/d/ü\n2", sha("second"))).toEqual({
    original: "x",
    modified: null,
  });
  expect(await gitCommitDiff(sandbox, "/tmp/repo/one", sha("First: ä"))).toEqual({
    original: null,
    modified: "1\n",
  });
  for (const bad of ["0".repeat(40), "main", "--output=/tmp/evil", "abc", "$(id)"]) {
    await expect(gitCommitChanges(sandbox, "/tmp/repo", bad)).rejects.toMatchObject({ code: "GitRefused" });
    await expect(gitCommitDiff(sandbox, "/tmp/repo/one", bad)).rejects.toMatchObject({ code: "GitRefused" });
  }
  await expect(gitCommitChanges(sandbox, "/usr", "0".repeat(40))).rejects.toMatchObject({
    code: "GitRefused",
  });
});

test("a patch leads from a commit to the current files and does not change the repository", async () => {
  await git("/tmp", "git clone -q /tmp/repo /tmp/work");
  await git(
    "/tmp/work",
    "echo 3 >one",
    "rm two",
    "head -c 3000 /dev/urandom >'bin ä'",
    "ln -s /etc/passwd link",
    "mkdir -p node_modules a/build",
    "echo x >node_modules/x",
    "echo x >a/build/x",
    "echo x >a/keep.log",
    "echo staged >staged",
    "git add staged",
  );
  const before = await sh(sandbox, "cd /tmp/work && find .git -type f | sort | xargs sha256sum | sha256sum");
  const { base, content } = await gitDelta(sandbox, "/tmp/work", {
    ref: undefined,
    excludes: ["node_modules/", "build/", "*.log"],
  });
  const patch = await buffer(content);
  expect(base).toBe((await gitCommits(sandbox, "/tmp/repo", 1)).commits[0]!.sha);
  expect(
    await sh(
      sandbox,
      "cd /tmp/work && find .git -type f | sort | xargs sha256sum | sha256sum; ls -d /tmp/tmp.* 2>/dev/null",
    ),
  ).toBe(before);
  expect(patch.toString("latin1").match(/^diff --git/gm)).toHaveLength(5);
  await sh(sandbox, `printf %s '${patch.toString("base64")}' | base64 -d >/tmp/p`);
  await git("/tmp", "git clone -q /tmp/repo /tmp/again", "cd again", "git apply /tmp/p");
  const files = (folder: string) =>
    sh(
      sandbox,
      `cd ${folder} && for f in one side staged 'bin ä'; do cat "$f"; done | sha256sum; readlink link; ls two 2>&1`,
    );
  expect(await files("/tmp/again")).toBe(await files("/tmp/work"));
  expect(createHash("sha256").update(patch).digest()).toHaveLength(32);

  // Relative to a named commit, and for a subfolder.
  const below = await gitDelta(sandbox, "/tmp/work/a", { ref: "HEAD~1", excludes: [] });
  expect((await text(below.content)).match(/^diff --git.*/gm)).toEqual([
    "diff --git a/a/build/x b/a/build/x",
    "diff --git a/a/keep.log b/a/keep.log",
  ]);
  const fresh = await gitDelta(sandbox, "/tmp/empty", { ref: undefined, excludes: [] });
  expect([fresh.base, await text(fresh.content)]).toEqual(["", ""]);
  for (const ref of ["nothing", "--output=/tmp/evil"])
    await expect(gitDelta(sandbox, "/tmp/work", { ref, excludes: [] })).rejects.toMatchObject({
      code: "GitRefused",
    });
  expect(await gitChanges(sandbox, "/tmp/work")).toContainEqual({ status: "ADDED", path: "link" });
});

test("a folder's repository is its own or the only one below it, and its URL has no credentials", async () => {
  await git(
    "/tmp/nest/group",
    "git clone -q /tmp/repo proj",
    "cd proj",
    "git remote set-url origin https://me:secret@host.example/a.git",
  );
  const proj = await findRepository(sandbox, "/tmp/nest");
  expect(proj).toEqual({
    folder: "/tmp/nest/group/proj",
    root: "/tmp/nest/group/proj",
    commit: expect.stringMatching(/^[0-9a-f]{40}$/),
    branch: "main",
    remote: "https://host.example/a.git",
  });
  expect(await findRepository(sandbox, "/tmp/nest/group/proj/d")).toBeUndefined();
  await git("/tmp/nest/other", "git init -q", "git checkout -q --detach 2>/dev/null || true");
  expect(await findRepository(sandbox, "/tmp/nest")).toBeUndefined();
  expect(await findRepository(sandbox, "/usr")).toBeUndefined();
});

test("programs in a repository's git settings are not run when it is read", async () => {
  const names = [
    "core.fsmonitor",
    "core.pager",
    "diff.external",
    "core.sshCommand",
    "gpg.program",
    "diff.d.textconv",
    "diff.d.command",
  ];
  await git(
    "/tmp/trap",
    "git init -q",
    "echo 1 >f",
    "echo '* diff=d' >.gitattributes",
    "git add .",
    "git commit -qm one",
    "mkdir /tmp/hooks",
    "printf '#!/bin/sh\\ntouch /tmp/ran-hook\\n' >/tmp/hooks/post-index-change",
    "chmod +x /tmp/hooks/post-index-change",
    "git config core.hooksPath /tmp/hooks",
    "git config log.showSignature true",
    ...names.map((name) => `git config ${name} 'touch /tmp/ran-${name};false'`),
    "echo 2 >f",
  );
  expect(await gitChanges(sandbox, "/tmp/trap", "HEAD")).toEqual([{ status: "UPDATED", path: "f" }]);
  expect(await gitDiff(sandbox, "/tmp/trap/f", "HEAD")).toEqual({ original: "1\n", modified: "2\n" });
  const [commit] = (await gitCommits(sandbox, "/tmp/trap", 1)).commits;
  expect((await gitCommitChanges(sandbox, "/tmp/trap", commit!.sha)).length).toBe(2);
  expect((await gitCommitDiff(sandbox, "/tmp/trap/f", commit!.sha)).modified).toBe("1\n");
  expect(await text((await gitDelta(sandbox, "/tmp/trap", { ref: "HEAD", excludes: [] })).content)).toContain(
    "+2\n",
  );
  expect((await findRepository(sandbox, "/tmp/trap"))?.branch).toBe("main");
  expect(await sh(sandbox, "ls /tmp | grep ^ran-")).toBe("");
});
