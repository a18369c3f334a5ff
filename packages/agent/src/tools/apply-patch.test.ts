import { stub } from "@sandpiper/core/test/support/stub";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import type { ApplyPatchObservation } from "@sandpiper/wire";
import { contentText } from "@sandpiper/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { applyHunks } from "./apply-patch/apply.ts";
import { parsePatch } from "./apply-patch/parse.ts";
import { applyPatchTool } from "./apply-patch.ts";
import { fileEditorTool } from "./file-editor.ts";
import type { ToolContext } from "./tool.ts";

let sandbox: Sandbox;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ sandbox, remove } = await testSandbox());
});
afterAll(() => remove());
beforeEach(async () => {
  await sh(
    "chmod -R u+w /workspace; rm -rf /workspace/* /workspace/.[a-z]*; printf 'one\\ntwo\\nthree\\n' >/workspace/a.txt; printf 'x\\r\\ny\\r\\n' >/workspace/crlf.txt",
  );
});

async function sh(script: string): Promise<string> {
  return (await runToEnd(sandbox, { argv: ["sh", "-c", script], cwd: "/workspace" })).stdout.toString();
}
async function patch(...lines: string[]): Promise<ApplyPatchObservation> {
  const text = ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");
  const context = stub<ToolContext>({
    sandbox: async () => sandbox,
    workingDir: "/workspace",
    signal: new AbortController().signal,
  });
  return applyPatchTool.run({ kind: "ApplyPatchAction", patch: text }, context);
}
const files = () => sh('find . -type f | sort | while read f; do echo "$f:"; cat "$f"; done');
/** The result of an update of a text. */
function update(text: string, ...lines: string[]): string {
  const [change] = parsePatch(
    ["*** Begin Patch", "*** Update File: f", ...lines, "*** End Patch"].join("\n"),
  );
  if (change?.kind !== "update") throw new Error();
  const applied = applyHunks("f", text, change.hunks);
  return `${applied.fuzz}|${applied.text}`;
}

describe("a patch", () => {
  test("adds, changes, moves and deletes files, and reports every change", async () => {
    await sh("echo gone >gone.txt; mkdir d; printf 'k = 1\\n' >d/b.py; chmod 755 d/b.py");
    const done = await patch(
      ...["*** Update File: a.txt", "@@", " one", "-two", "+2", "+2b", " three"],
      ...["*** Update File: d/b.py", "*** Move to: e/c.py", "-k = 1", "+k = 2"],
      ...["*** Add File: new/n.txt", "+first", "+", "+third", "", "*** Delete File: gone.txt"],
    );
    const message = "Done!\nM a.txt\nM d/b.py -> e/c.py\nA new/n.txt\nD gone.txt";
    expect(done).toEqual({
      kind: "ApplyPatchObservation",
      content: [{ type: "text", text: message, cache_prompt: false }],
      is_error: false,
      message,
      fuzz: 0,
      commit: {
        changes: {
          "a.txt": { type: "update", old_content: "one\ntwo\nthree\n", new_content: "one\n2\n2b\nthree\n" },
          "d/b.py": { type: "update", old_content: "k = 1\n", new_content: "k = 2\n", move_path: "e/c.py" },
          "new/n.txt": { type: "add", new_content: "first\n\nthird\n" },
          "gone.txt": { type: "delete", old_content: "gone\n" },
        },
      },
    });
    expect(await files()).toBe(
      "./a.txt:\none\n2\n2b\nthree\n./crlf.txt:\nx\r\ny\r\n./e/c.py:\nk = 2\n./new/n.txt:\nfirst\n\nthird\n",
    );
    expect(await sh("find . -name '.patch*'; ls -A d")).toBe("");
  });

  test("keeps line endings, modes and links, and may change one file twice", async () => {
    await sh("chmod 750 a.txt; ln -s a.txt link");
    const done = await patch(
      ...["*** Update File: link", "-one", "+1", "*** Update File: crlf.txt", " x", "+z"],
      ...["*** Update File: link", " 1", "-two"],
    );
    expect(done.is_error).toBe(false);
    expect(await sh("cat a.txt crlf.txt; stat -c '%a %F' a.txt link")).toBe(
      "1\nthree\nx\r\nz\r\ny\r\n750 regular file\n777 symbolic link\n",
    );
  });

  test("that fails in one place changes nothing", async () => {
    const before = await files();
    const failed = await patch(
      "*** Update File: a.txt",
      "-one",
      "+1",
      "*** Update File: crlf.txt",
      " x",
      "-nothing",
      "+z",
    );
    expect(failed).toMatchObject({ is_error: true, message: "" });
    expect(contentText(failed.content)).toMatch(
      /^Change 1 of crlf.txt: these lines do not stand together.*\nx\nnothing\nNothing was changed\.$/s,
    );
    await sh("mkdir ro; echo kept >ro/f; chmod 555 ro; chmod 444 ro/f");
    const denied = await patch("*** Update File: a.txt", "-one", "+1", "*** Delete File: ro/f");
    expect(contentText(denied.content)).toMatch(/^Nothing was changed: .*ro\/f/);
    expect((await patch("*** Add File: fine.txt", "+x", "*** Add File: ro/x", "+y")).is_error).toBe(true);
    await sh("chmod 755 ro; rm -rf ro");
    expect(await files()).toBe(before);
  });

  test.each([
    [["*** Add File: a.txt", "+x"], /is there already/],
    [["*** Update File: none.txt", "-x", "+y"], /There is no file none\.txt/],
    [["*** Delete File: none.txt"], /There is no file none\.txt/],
    [["*** Add File: ../out.txt", "+x"], /outside of the working folder/],
    [["*** Add File: /etc/x", "+x"], /outside of the working folder/],
    [["*** Update File: a.txt", "*** Move to: crlf.txt", "-one", "+1"], /crlf\.txt is there already/],
    [["*** Update File: a.txt", "one"], /Line 3 of the patch must begin with a space, \+ or -.*it is: one/],
    [["*** Update File: a.txt", " one"], /names no change/],
    [["*** Change File: a.txt"], /Line 2 .*"\*\*\* Add File: "/],
    [[], /changes no file/],
  ])("%j is refused", async (lines, reason) => {
    const before = await files();
    const refused = await patch(...lines);
    expect([refused.is_error, contentText(refused.content)]).toEqual([true, expect.stringMatching(reason)]);
    expect(await files()).toBe(before);
  });
});

describe("the place of a change", () => {
  const code =
    "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n";

  test("is named by the lines with @@", () => {
    expect(update(code, "@@ class B:", "@@     def f(self):", "-        return 1", "+        return 2")).toBe(
      `0|${code.slice(0, code.lastIndexOf("1"))}2\n`,
    );
    expect(update(code, "@@ class B:", "+    x = 1")).toBe(
      `0|${code.replace("class B:\n", "class B:\n    x = 1\n")}`,
    );
    expect(update("a\nb\na\nb\n", "@@ -3,2 +3,2 @@", " a", "-b", "+c", "*** End of File")).toBe(
      "0|a\nb\na\nc\n",
    );
  });

  test("is found if only whitespace differs, and unchanged lines keep the file's whitespace", () => {
    expect(update("\tx  \n\ty\n", "   x", "-  y", "+\tz")).toBe("100|\tx  \n\tz\n");
    expect(update("x  \ny\n", " x", "-y", "+z")).toBe("1|x  \nz\n");
    expect(update("a\nb\nc\n", "-a", "+A", "*** End of File")).toBe("10000|A\nb\nc\n");
  });

  test("comes after the previous change; lines without context are added at the end", () => {
    expect(update("a\nb\na\n", "-a", "+1", "@@", "-a", "+2")).toBe("0|1\nb\n2\n");
    expect(() => update("b\na\n", "-a", "+1", "@@", "-b", "+2")).toThrow(/Change 2 of f.* after line 2/);
    expect(update("a", "+b")).toBe("0|a\nb");
    expect(update("", "+b")).toBe("0|b\n");
    expect(update("a\n\nb\n", " a", "", "-b", "+c")).toBe("0|a\n\nc\n");
  });

  test("a change that does not match a long file is refused in bounded time", () => {
    const same = Array<string>(200_000).fill("same");
    const start = performance.now();
    const lines = same.slice(0, 20_000).map((line) => ` ${line}`);
    expect(() => update(`${same.join("\n")}\n`, ...lines, "-other", "+x")).toThrow(/do not stand together/);
    const alike = () => update(`${same.join("\n")}\nother\n`, ...lines, "-other", ...lines, "+x");
    expect(alike).toThrow(/too many lines that are alike/);
    expect(performance.now() - start).toBeLessThan(20_000);
  });
});

test("a patch may be in a code block, and must be complete", () => {
  expect(parsePatch("```\n*** Begin Patch\r\n*** Delete File: a\r\n*** End Patch\r\n```")).toEqual([
    { kind: "delete", path: "a" },
  ]);
  expect(() => parsePatch("*** Begin Patch\n*** Delete File: a")).toThrow(/may be cut off/);
  expect(() => parsePatch("delete a")).toThrow(/must begin with/);
});

test("a patch and the editor do not change one file at the same time", () => {
  const patch = "*** Begin Patch\n*** Update File: src/../a.txt\n-a\n+b\n*** Move to: b.txt\n*** End Patch";
  const held = applyPatchTool.resources!({ kind: "ApplyPatchAction", patch }, "/w");
  const edited = (path: string) =>
    fileEditorTool.resources!({ kind: "FileEditorAction", command: "view", path }, "/w").some((key) =>
      held.includes(key),
    );
  expect(["/w/a.txt", "/w//a.txt", "/w/b.txt", "/w/c.txt", "/w/src/a.txt"].map(edited)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
});
