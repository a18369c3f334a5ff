import { gitChanges, gitDiff } from "@sandpiper/sandbox/files/git/git";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { afterAll, beforeAll, expect, test } from "vitest";
import { sh } from "../support/sandbox-service.ts";

let sandbox: Sandbox;
let remove: () => Promise<void>;

const git = (folder: string, ...commands: string[]) =>
  sh(
    sandbox,
    `mkdir -p '${folder}' && cd '${folder}' && export GIT_CONFIG_GLOBAL=/tmp/gitconfig && git config --global user.email a@b.c && git config --global user.name A && git config --global init.defaultBranch main && { ${commands.join(" && ")}; } 2>&1`,
  );

beforeAll(async () => {
  ({ sandbox, remove } = await testSandbox());
});
afterAll(() => remove());

/** A repository with one commit of the file `f` on main, without a remote. */
const local = ["git init -q", "echo 1 >f", "echo 1 >g", "git add .", "git commit -qm first"];
const branchCommit = ["git checkout -qb work", "echo 2 >f", "git commit -qam second"];
const push = [
  "git init -q --bare ../origin-$(basename $PWD)",
  "git remote add origin ../origin-$(basename $PWD)",
  "git push -q origin main work",
];

test.each<[state: string, commands: string[], changes: string[], original: string | null]>([
  ["clean", [], [], "1\n"],
  ["edited", ["echo 2 >f", "touch new"], ["UPDATED f", "ADDED new"], "1\n"],
  ["deleted", ["rm f"], ["DELETED f"], "1\n"],
  ["committed on main", ["echo 2 >f", "git commit -qam second"], [], "2\n"],
  ["committed on a branch", branchCommit, ["UPDATED f"], "1\n"],
  ["committed on a pushed branch", [...branchCommit, ...push], ["UPDATED f"], "1\n"],
  ["edited on a pushed branch", [...branchCommit, ...push, "echo 3 >g", "git add g"], ["UPDATED g"], "2\n"],
])("a repository that is %s shows the work since its base", async (state, commands, changes, original) => {
  const folder = `/tmp/base/${state.replaceAll(" ", "-")}`;
  await git(folder, ...local, ...commands);
  const shown = (await gitChanges(sandbox, folder)).map(({ status, path }) => `${status} ${path}`);
  expect(shown).toEqual(changes);
  expect((await gitDiff(sandbox, `${folder}/f`)).original).toBe(original);
});

test("without a commit everything is new, for HEAD too, and ignored files are omitted", async () => {
  await git(
    "/tmp/new",
    "git init -q",
    "echo one >'a b.txt'",
    "mkdir d",
    "echo 'x*' >.gitignore",
    "touch xyz 'd/ü\n2'",
    "git add 'a b.txt'",
  );
  expect(await gitChanges(sandbox, "/tmp/new")).toEqual([
    { status: "ADDED", path: ".gitignore" },
    { status: "ADDED", path: "a b.txt" },
    { status: "ADDED", path: "d/ü\n2" },
  ]);
  expect(await gitChanges(sandbox, "/tmp/new", "HEAD")).toHaveLength(3);
  expect(await gitDiff(sandbox, "/tmp/new/a b.txt")).toEqual({ original: null, modified: "one\n" });
});

test("lists changed, deleted, moved and new files since the upstream branch, committed or not", async () => {
  await git(
    "/tmp/origin",
    "git init -q",
    "mkdir d e",
    "echo 1 >d/keep",
    "echo 2 >d/change",
    "echo 3 >e/drop",
    "echo 4 >move",
    "git add .",
    "git commit -qm first",
  );
  await git(
    "/tmp",
    "git clone -q origin work",
    "cd work",
    "echo two >d/change",
    "git commit -qam local",
    "rm -r e",
    "git mv move moved",
    "echo 5 >new",
    "git rm -q --cached d/keep",
  );
  const changes = [
    { status: "UPDATED", path: "d/change" },
    { status: "UPDATED", path: "d/keep" },
    { status: "DELETED", path: "e/drop" },
    { status: "DELETED", path: "move" },
    { status: "ADDED", path: "moved" },
    { status: "ADDED", path: "new" },
  ];
  expect(await gitChanges(sandbox, "/tmp/work")).toEqual(changes);
  expect(await gitChanges(sandbox, "/tmp/work/d")).toEqual([
    { status: "UPDATED", path: "change" },
    { status: "UPDATED", path: "keep" },
  ]);
  expect((await gitChanges(sandbox, "/tmp/work", "HEAD")).map(({ path }) => path)).not.toContain("d/change");
  expect(await gitDiff(sandbox, "/tmp/work/d/change")).toEqual({ original: "2\n", modified: "two\n" });
  expect(await gitDiff(sandbox, "/tmp/work/d/change", "HEAD")).toEqual({
    original: "two\n",
    modified: "two\n",
  });
  expect(await gitDiff(sandbox, "/tmp/work/e/drop")).toEqual({ original: "3\n", modified: null });
  expect(await gitDiff(sandbox, "/tmp/work/none")).toEqual({ original: null, modified: null });

  // A repository inside a folder without one, and a nested repository.
  await git("/tmp/two/outer", "git init -q", "echo o >file", "cp -r /tmp/work inner");
  expect(await gitChanges(sandbox, "/tmp/two/outer")).toEqual([
    { status: "ADDED", path: "file" },
    ...changes.map(({ status, path }) => ({ status, path: `inner/${path}` })),
  ]);
  expect((await gitChanges(sandbox, "/tmp/two")).map(({ path }) => path)).toContain("outer/file");
  expect(await gitDiff(sandbox, "/tmp/two/outer/inner/d/change")).toEqual({
    original: "2\n",
    modified: "two\n",
  });
});

test("a folder without a repository has no changes; bad references and paths get readable errors", async () => {
  await git(
    "/tmp/ref",
    "git init -q",
    "echo 1 >f",
    "git add .",
    "git commit -qm first",
    "head -c 2000000 /dev/zero >big",
    "printf 'a\\0b' >bin",
  );
  expect(await gitChanges(sandbox, "/nowhere")).toEqual([]);
  expect(await gitChanges(sandbox, "/usr/bin")).toEqual([]);
  for (const ref of ["nothing", "--output=/tmp/evil", "$(touch /tmp/evil)", "HEAD; id", "a".repeat(5000)]) {
    await expect(gitChanges(sandbox, "/tmp/ref", ref)).rejects.toMatchObject({ code: "GitRefused" });
    await expect(gitDiff(sandbox, "/tmp/ref/f", ref)).rejects.toMatchObject({ code: "GitRefused" });
  }
  expect(await sh(sandbox, "ls /tmp/evil 2>&1 || echo none")).toContain("none");
  await expect(gitDiff(sandbox, "/usr/bin/env")).rejects.toMatchObject({ code: "GitRefused" });
  await expect(gitDiff(sandbox, "/tmp/ref/big")).rejects.toMatchObject({ code: "GitRefused" });
  expect(await gitDiff(sandbox, "/tmp/ref/bin")).toEqual({ original: null, modified: "" });
});
