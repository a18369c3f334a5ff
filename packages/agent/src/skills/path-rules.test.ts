import type { Action } from "@sandpiper/wire";
import { expect, test } from "vitest";
import { getRuleName, matchesGlob, rulesFor, touchedPaths } from "./path-rules.ts";
import type { Skill } from "./skill.ts";

test.each([
  ["*.css", "a.css", true],
  ["*.css", "deep/er/a.css", true],
  ["/*.css", "deep/a.css", false],
  ["src/*.ts", "src/a.ts", true],
  ["src/*.ts", "src/deep/a.ts", false],
  ["src/**/*.ts", "src/a.ts", true],
  ["src/**/*.ts", "src/x/y/a.ts", true],
  ["src/**/*.ts", "lib/src/a.ts", false],
  ["**", "any/thing", true],
  ["docs/", "docs/a/b.md", true],
  ["docs/", "docs", true],
  ["file?.md", "x/file1.md", true],
  ["file?.md", "file12.md", false],
  ["./src/a.ts", "src/a.ts", true],
  ["", "a", false],
  ["a.c", "abc", false],
])("the pattern %j for %j: %j", (pattern, path, expected) => {
  expect(matchesGlob(pattern, path)).toBe(expected);
});

const rule = (name: string, globs: string[], base?: string): Skill => ({
  ...{
    name,
    type: "knowledge",
    content: `Text of ${name}`,
    triggers: [],
    source: "project",
    description: null,
    location: null,
  },
  paths: { ...(base !== undefined && { base }), globs },
});
const edit = (path: string) => ({ kind: "FileEditorAction", command: "view", path }) as Action;

test("rules apply below their folder, each once, and not next to it", () => {
  const skills = [
    rule("all", ["**"]),
    rule("docs", ["**"], "/w/docs"),
    rule('odd"\n<name>', ["*.x"]),
    rule("other", ["*.y"]),
  ];
  const names = (path: string, known: string[] = []) =>
    rulesFor(edit(path), { skills, workingDir: "/w", known: new Set(known) }).map(({ text }) =>
      getRuleName(text),
    );
  expect(names("/w/docs/a.x")).toEqual(["all", "docs", "odd' <name>"]);
  expect(names("/w/docs/a.x", ["all", "odd' <name>"])).toEqual(["docs"]);
  expect(names("/elsewhere/a.x")).toEqual([]);
  expect(names("/w")).toEqual([]);
  expect(names("/w/../w/a.y")).toEqual(["all", "other"]);
  expect(getRuleName('Look: <PATH_RULE name="all"')).toBeUndefined();
});

test("patches touch the files that they name, and commands touch none", () => {
  const patch =
    "*** Begin Patch\n*** Update File: src/a.ts\n*** Move to: src/b.ts\n@@\n-x\n*** Delete File: /w/c.ts\n*** End Patch";
  expect(touchedPaths({ kind: "ApplyPatchAction", patch }, "/w")).toEqual([
    "/w/src/a.ts",
    "/w/src/b.ts",
    "/w/c.ts",
  ]);
  expect(
    touchedPaths({ kind: "TerminalAction", command: "cat a", is_input: false, reset: false }, "/w"),
  ).toEqual([]);
});
