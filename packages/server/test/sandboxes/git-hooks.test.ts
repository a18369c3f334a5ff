import { readScripts } from "@sandpiper/agent/behaviour/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { expect, test } from "vitest";

test("git hooks of a project are parts that it runs by itself, wherever git or husky has them", async () => {
  const { sandbox, remove } = await testSandbox();
  const find = async (folder: string, script: string) => {
    await runToEnd(sandbox, { argv: ["sh", "-ec", `mkdir -p ${folder}; cd ${folder}; ${script}`], cwd: "/" });
    return (await readScripts(sandbox, folder)).map(({ source, text }) => `${source}: ${text.trim()}`);
  };
  try {
    expect(await find("/tmp/plain", "git init -q")).toEqual([]);
    expect(await find("/tmp/own", "git init -q; echo one > .git/hooks/pre-push")).toEqual([
      ".git/hooks/pre-push: one",
    ]);
    const configured =
      "git init -q; mkdir tools; echo two > tools/commit-msg; git config core.hooksPath tools";
    expect(await find("/tmp/configured", configured)).toEqual(["tools/commit-msg: two"]);
    const husky = "git init -q; mkdir .husky; echo three > .husky/pre-commit; echo x > .husky/install.mjs";
    expect(await find("/tmp/husky", husky)).toEqual([".husky/pre-commit: three"]);
    expect(await find("/tmp/husky", "git config core.hooksPath .husky")).toEqual([
      ".husky/pre-commit: three",
    ]);
    // The platform's own hook moves a former one aside.
    const own = "echo '# Installed by Sandpiper' > pre-commit; echo four > pre-commit.local";
    expect(await find("/tmp/moved", `git init -q; cd .git/hooks; ${own}`)).toEqual([
      ".git/hooks/pre-commit: four",
    ]);
  } finally {
    await remove();
  }
});
