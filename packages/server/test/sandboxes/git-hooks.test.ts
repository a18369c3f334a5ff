import { readScripts } from "@sandpiper/agent/behaviour/files";
import { preCommitHook } from "@sandpiper/agent/behaviour/own-parts";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { afterAll, beforeAll, expect, test } from "vitest";

type TestSandbox = Awaited<ReturnType<typeof testSandbox>>;
let bench: TestSandbox;
beforeAll(async () => {
  bench = await testSandbox();
});
afterAll(() => bench?.remove());

const find = async (folder: string, script: string) => {
  const { sandbox } = bench;
  await runToEnd(sandbox, { argv: ["sh", "-ec", `mkdir -p ${folder}; cd ${folder}; ${script}`], cwd: "/" });
  return (await readScripts(sandbox, folder)).map(({ source, text }) => `${source}: ${text.trim()}`);
};

test("git hooks of a project are parts that it runs by itself, wherever git or husky has them", async () => {
  expect(await find("/tmp/plain", "git init -q")).toEqual([]);
  expect(await find("/tmp/own", "git init -q; echo one > .git/hooks/pre-push")).toEqual([
    ".git/hooks/pre-push: one",
  ]);
  const configured = "git init -q; mkdir tools; echo two > tools/commit-msg; git config core.hooksPath tools";
  expect(await find("/tmp/configured", configured)).toEqual([
    "tools/commit-msg: two",
    ".git/config: core.hookspath = tools",
  ]);
  const husky = "git init -q; mkdir .husky; echo three > .husky/pre-commit; echo x > .husky/install.mjs";
  expect(await find("/tmp/husky", husky)).toEqual([".husky/pre-commit: three"]);
  expect(await find("/tmp/husky", "git config core.hooksPath .husky")).toEqual([
    ".husky/pre-commit: three",
    ".git/config: core.hookspath = .husky",
  ]);
  // The platform's own hook moves a former one aside.
  const own = `printf %s '${preCommitHook.replaceAll("'", "'\\''")}' > pre-commit; echo four > pre-commit.local`;
  expect(await find("/tmp/moved", `git init -q; cd .git/hooks; ${own}`)).toEqual([
    ".git/hooks/pre-commit: four",
  ]);
  // Its mark in another text recognises nothing.
  const marked = "# Installed by Sandpiper: runs .openhands/pre-commit.sh\nfive";
  expect(await find("/tmp/marked", `git init -q; printf '${marked}' > .git/hooks/pre-commit`)).toEqual([
    `.git/hooks/pre-commit: ${marked.replace("\\n", "\n")}`,
  ]);
});

test("programs in git's settings are parts, those of submodules, worktrees and inner repositories too", async () => {
  const one = "git init -q; git config core.fsmonitor ./watch; git config alias.s status";
  expect(await find("/tmp/watched", one)).toEqual([".git/config: core.fsmonitor = ./watch"]);
  expect(
    await find("/tmp/booleans", "git init -q; git config core.fsmonitor true; git config pager.log 0"),
  ).toEqual([]);
  const hidden = "git init -q; printf '[core]\\n\\tsshCommand = \"\\001sh evil\"\\n' >> .git/config";
  expect(await find("/tmp/hidden", hidden)).toEqual([".git/config: core.sshcommand = \x02sh evil"]);
  const more = "git init -q; printf '[alias]\\nst = !evil\\n' > more; git config include.path ../more";
  expect(await find("/tmp/included", more)).toEqual([
    ".git/config: include.path = ../more\nalias.st = !evil",
  ]);
  const tree =
    "git init -q; git config extensions.worktreeConfig true; git config --worktree core.editor 'sh x'";
  expect(await find("/tmp/tree", tree)).toEqual([".git/config.worktree: core.editor = sh x"]);
  const inner = "git init -q; git init -q lib/inner; git -C lib/inner config filter.f.clean 'sh x'";
  const module =
    "mkdir -p .git/modules/sub; printf '[diff \"d\"]\\ntextconv = sh y\\n' > .git/modules/sub/config";
  expect(await find("/tmp/inner", `${inner}; ${module}`)).toEqual([
    ".git/modules/sub/config: diff.d.textconv = sh y",
    "lib/inner/.git/config: filter.f.clean = sh x",
  ]);
});

test("programs in git's settings count in an image without git, too", async () => {
  const { sandbox } = bench;
  await find(
    "/tmp/bare",
    `git init -q; git config core.editor 'sh x'; mkdir /tmp/few; for tool in sh env find head wc tr cat; do
    ln -s "$(command -v $tool)" /tmp/few/; done`,
  );
  const without: typeof sandbox = Object.assign(Object.create(sandbox), {
    shell: ["env", "PATH=/tmp/few", "sh"],
    exec: sandbox.exec.bind(sandbox),
  });
  expect(await readScripts(without, "/tmp/bare")).toEqual([
    { kind: "git_setting", source: ".git/config", text: "core.editor = sh x" },
  ]);
});
