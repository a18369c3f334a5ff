import { providerTypes, type SuggestedTask } from "@sandpiper/wire";
import { describe, expect, test } from "vitest";
import { suggestedTaskPrompt } from "../start/suggested-task.ts";
import { appendParameters, parsePlugin, pluginFolder } from "./plugins.ts";
import { checkBranch, checkRepositoryName, resolveRepository } from "./repository.ts";

const none = new Map();
const invalid = expect.objectContaining({ code: "InvalidParameter" });

describe("a repository", () => {
  test("is resolved at the given provider, else at the only one with a token, else at GitHub", () => {
    expect(resolveRepository("acme/widgets", null, none)).toEqual({
      ...{ fullName: "acme/widgets", folder: "widgets", provider: "github", host: "github.com" },
      ...{ url: "https://github.com/acme/widgets.git", login: null },
    });
    const gitlab = new Map([["gitlab", { token: "t", host: "git.example.com:8443" }]] as const);
    expect(resolveRepository("a/b/c.git", null, gitlab)).toMatchObject({
      ...{
        url: "https://git.example.com:8443/a/b/c.git",
        folder: "c",
        login: { user: "oauth2", variable: "GITLAB_TOKEN" },
      },
    });
    expect(resolveRepository("a/b", "forgejo", gitlab)).toMatchObject({
      url: "https://codeberg.org/a/b.git",
      login: null,
    });
    const bitbucket = new Map([["bitbucket", { token: "ann:app-password", host: null }]] as const);
    expect(resolveRepository("a/b", "bitbucket", bitbucket).login).toEqual({
      user: "ann",
      variable: "BITBUCKET_TOKEN",
    });
    const http = new Map([["github", { token: "t", host: "http://127.0.0.9:80" }]] as const);
    expect(resolveRepository("a/b", "github", http)).toMatchObject({
      url: "http://127.0.0.9:80/a/b.git",
      host: "127.0.0.9:80",
    });
    expect(() => resolveRepository("a/b", "azure_devops", none)).toThrow(invalid);
  });

  test.each([
    ...[
      "",
      "a",
      "a/b/c",
      "/a/b",
      "a/b/",
      "a//b",
      "-a/b",
      "a/-b",
      "a/..",
      "../b",
      "a/.",
      "a b/c",
      "a/b;c",
      "a/b&c",
      "a/b|c",
      "a/b$c",
    ],
    ...[
      "a/b`c",
      "a/b\nc",
      "a/b\r",
      "a/\u0000b",
      "https://github.com/a/b",
      "a/b#c",
      "a/b?c",
      "a/b%2fc",
      "ä/b",
      `a/${"x".repeat(300)}`,
    ],
  ])("with the name %j is refused", (name) => {
    expect(() => checkRepositoryName(name, "github")).toThrow(invalid);
  });

  test("has a branch with a plain name", () => {
    for (const name of ["main", "feature/one", "v1.2.3", "ünï", "a-b_c+d#1"])
      expect(checkBranch(name)).toBe(name);
    for (const name of [
      "",
      "-x",
      "a b",
      "a..b",
      "a~1",
      "a^",
      "a:b",
      "a?",
      "a*",
      "a[",
      "a\\b",
      "@",
      "a@{1}",
      "a//b",
      "/a",
      "a/",
      "a.lock",
    ])
      expect(() => checkBranch(name), name).toThrow(invalid);
    for (const name of ["a;b", "a|b", "$(x)", "`x`", "a\nb", "x".repeat(256)])
      expect(() => checkBranch(name), name).toThrow(invalid);
  });
});

test("an invalid plugin source names the field in the error", () => {
  expect(() => parsePlugin({ source: "nonsense" }, none)).toThrow(
    /^source of a plugin must be a name such as "owner\/name"/,
  );
});

test("a plugin source is a repository of a service or an https URL", () => {
  const url = (source: string) => parsePlugin({ source }, none).repository.url;
  expect(url("github:a/b")).toBe("https://github.com/a/b.git");
  expect(url("a/b")).toBe("https://github.com/a/b.git");
  expect(url("gitlab:a/b/c")).toBe("https://gitlab.com/a/b/c.git");
  expect(url("https://git.example.com/x/y.git")).toBe("https://git.example.com/x/y.git");
  for (const source of [
    "./here",
    "/etc",
    "git@github.com:a/b",
    "ssh://a/b",
    "http://a/b",
    "https://u:p@a/b",
    "https://a/",
    "file:///a/b",
    "a",
  ])
    expect(() => parsePlugin({ source }, none), source).toThrow(invalid);
  for (const repo_path of ["..", "../x", "/etc", "a/../../b", "a\0b"])
    expect(() => parsePlugin({ source: "a/b", repo_path }, none), repo_path).toThrow(invalid);
  const plugin = parsePlugin({ source: "a/b", ref: "v1", repo_path: "plugins/./x/" }, none);
  expect(plugin).toMatchObject({ ref: "v1", path: "plugins/x/" });
  expect(pluginFolder("/root", plugin)).toMatch(/^\/root\/\.sandpiper-plugins\/b-[0-9a-f]{12}$/);
  expect(pluginFolder("/root", plugin)).not.toBe(pluginFolder("/root", { ...plugin, ref: null }));
  expect(appendParameters(undefined, [{ source: "a/b" }])).toBeUndefined();
  expect(appendParameters(undefined, [{ source: "a/b", parameters: { n: 1, o: { p: true } } }])).toEqual([
    expect.objectContaining({ text: 'Plugin Configuration Parameters:\n- n: 1\n- o: {"p":true}' }),
  ]);
});

test("every suggested task becomes a prompt with its repository, number and quoted title", () => {
  const task: SuggestedTask = {
    git_provider: "gitlab",
    task_type: "OPEN_PR",
    repo: "a/b",
    issue_number: 7,
    title: 'Say "hi"\nand go',
  };
  expect(suggestedTaskPrompt(task)).toMatch(
    /merge request #7[\s\S]*a\/b \(gitlab\)[\s\S]*"Say \\"hi\\" and go"/,
  );
  for (const git_provider of providerTypes)
    for (const task_type of [
      "MERGE_CONFLICTS",
      "FAILING_CHECKS",
      "UNRESOLVED_COMMENTS",
      "OPEN_ISSUE",
      "OPEN_PR",
    ] as const)
      expect(suggestedTaskPrompt({ ...task, git_provider, task_type })).toContain("#7");
});
