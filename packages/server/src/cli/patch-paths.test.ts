import { expect, test } from "vitest";
import { checkPatchPaths } from "./patch-paths.ts";

test.each([
  ".git/hooks/pre-commit",
  "sub/.git/config",
  ".GIT/hooks/x",
  ".Git",
  "git~1/hooks/x",
  "GIT~1/config",
  "git~2/config",
  ".git /config",
  ".git./config",
  ".git . ./config",
  ".git::$INDEX_ALLOCATION/config",
  "git~1:x/config",
  ".g\u200cit/config",
  "\ufeff.git/config",
  ".gi\u202et/config",
  "a\\.git\\config",
  "a\\..\\GIT~1",
  "\uff0egit/config",
  "GITMOD~1",
  ".gitmodules.",
  ".gitmodules::$DATA",
  ".gitattributes ",
  ".GitAttributes",
  ".gitignore\u200d",
  "gi7eba~1",
  ".Mailmap",
])("%j is not applied", (path) => {
  expect(() => checkPatchPaths([path], [path])).toThrow(/^Nothing was applied: the changes contain .*of git/);
});

test.each([
  ".gitignore",
  ".gitattributes",
  ".gitmodules",
  ".mailmap",
  ".github/workflows/ci.yml",
  ".git-blame-ignore-revs",
  "git~/x",
  "digit~1",
  "src/git/hooks.ts",
  "a.git",
])("%j is applied", (path) => {
  expect(() => checkPatchPaths([path], [path])).not.toThrow();
});

test("changes inside of a folder that git takes for a repository are not applied", () => {
  const bare = ["x/HEAD", "x/objects/keep", "x/refs/heads/main", "x/config"];
  expect(() => checkPatchPaths(["x/config"], bare)).toThrow('git would take the folder "x" for a repository');
  expect(() => checkPatchPaths(["config"], ["HEAD", "objects/a", "refs/b", "config"])).toThrow('folder "."');
  expect(() => checkPatchPaths(["other"], [...bare, "other"])).not.toThrow();
  expect(() => checkPatchPaths(["x/HEAD", "x/refs/a"], ["x/HEAD", "x/refs/a"])).not.toThrow();
});

test.each([
  ["links or executable files", ["x/HEAD", "x/objects", "x/refs", "x/config"]],
  ["a link and a folder", ["x/head", "x/Objects", "x/refs/heads/main", "x/config"]],
  ["a file that names the folder of both", ["x/HEAD", "x/commondir", "y/objects/a", "y/refs/a", "x/config"]],
])("git takes a folder for a repository by %s, too", (_how, paths) => {
  expect(() => checkPatchPaths(["x/config"], paths)).toThrow(
    'git would take the folder "x" for a repository',
  );
  expect(() => checkPatchPaths(["x/HEAD"], paths)).toThrow('folder "x"');
  expect(() => checkPatchPaths(["z"], [...paths, "z"])).not.toThrow();
});
