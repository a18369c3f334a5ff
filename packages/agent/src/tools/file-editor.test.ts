import { readFile, writeFile } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { contentText, type FileEditorAction, type FileEditorObservation } from "@sandpiper/wire";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fileEditorTool } from "./file-editor.ts";
import { toolRegistry } from "./registry.ts";
import type { ToolContext } from "./tool.ts";

let sandbox: Sandbox;
let removeSandbox: () => Promise<void>;
let context: ToolContext;

beforeAll(async () => {
  ({ sandbox, remove: removeSandbox } = await testSandbox());
});
afterAll(() => removeSandbox());
beforeEach(async () => {
  await runToEnd(sandbox, { argv: ["sh", "-c", "rm -rf /workspace/* && mkdir -p /workspace/a"], cwd: "/" });
  context = {
    conversationId: "c",
    actionId: "a",
    sandbox: async () => sandbox,
    terminal: () => Promise.reject(new Error("unused")),
    browser: () => Promise.reject(new Error("unused")),
    planPath: "/nowhere/PLAN.md",
    workingDir: "/workspace",
    signal: new AbortController().signal,
    memory: new Map(),
  };
});

type Call = Omit<Partial<FileEditorAction>, "kind"> & { command: FileEditorAction["command"] };
const path = "/workspace/a/file.txt";

function edit(call: Call): Promise<FileEditorObservation> {
  return fileEditorTool.run({ kind: "FileEditorAction", path, ...call }, context);
}
const text = (observation: FileEditorObservation) => contentText(observation.content);
async function content(file = path): Promise<string> {
  const found = await readFile(sandbox, file);
  return found.kind === "file" ? found.content.toString() : found.kind;
}
async function refused(call: Call, reason: RegExp): Promise<void> {
  const observation = await edit(call);
  expect(observation).toEqual({
    kind: "FileEditorObservation",
    command: call.command,
    content: [{ type: "text", text: expect.stringMatching(reason), cache_prompt: false }],
    is_error: true,
    prev_exist: true,
  });
}
const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join("");

describe("create", () => {
  test("writes a file and the folders above it", async () => {
    const deep = "/workspace/x/y/z ü.txt";
    expect(await edit({ command: "create", path: deep, file_text: "a\r\nb" })).toMatchObject({
      is_error: false,
      path: deep,
      prev_exist: false,
      new_content: "a\r\nb",
    });
    expect(await content(deep)).toBe("a\r\nb");
  });

  test("does not overwrite", async () => {
    await writeFile(sandbox, path, "old");
    await refused({ command: "create", file_text: "new" }, /`path`.*file already/);
    await refused({ command: "create", path: "/workspace/a", file_text: "new" }, /directory already/);
    await refused({ command: "create" }, /`file_text` is required for command create/);
    expect(await content()).toBe("old");
  });

  test("reports why a path cannot be written", () =>
    refused({ command: "create", path: "/usr/bin/x", file_text: "" }, /cannot be written/));
});

describe("view", () => {
  test("numbers the lines", async () => {
    await writeFile(sandbox, path, "one\n\tü\n\nlast");
    expect(text(await edit({ command: "view" }))).toBe(
      `Content of ${path} with line numbers:\n     1\tone\n     2\t\tü\n     3\t\n     4\tlast\n`,
    );
  });

  test("shows a range", async () => {
    await writeFile(sandbox, path, lines(20));
    const shown = async (range: number[]) =>
      text(await edit({ command: "view", view_range: range }))
        .split("\n")
        .slice(0, -1);
    expect((await shown([3, 4])).slice(1)).toEqual(["     3\tline 3", "     4\tline 4"]);
    expect((await shown([19, -1])).slice(1)).toEqual(["    19\tline 19", "    20\tline 20"]);
    const beyond = await shown([20, 90]);
    expect(beyond[0]).toMatch(/^NOTE: .*20 lines/);
    expect(beyond.at(-1)).toBe("    20\tline 20");
    for (const range of [[0, 3], [21, 22], [5, 4], [1], [1, 2, 3], [1, -2], [-1, -1]]) {
      await refused({ command: "view", view_range: range }, /Invalid `view_range`/);
    }
  });

  test("cuts at 16 000 characters", async () => {
    await writeFile(sandbox, path, lines(5_000));
    const shown = text(await edit({ command: "view" }));
    expect(shown.length).toBeLessThanOrEqual(16_000);
    expect(shown).toMatch(/view_range to see other lines\.\]$/);
  });

  test("lists a directory two levels deep and counts what is hidden", async () => {
    await runToEnd(sandbox, {
      argv: ["sh", "-c", "cd /workspace/a && mkdir -p d/e/f .git && touch b d/c d/e/x .env 'é x'"],
    });
    expect(text(await edit({ command: "view", path: "/workspace/a" }))).toBe(
      "Files and directories up to two levels deep in /workspace/a, without hidden items:\n/workspace/a/\n/workspace/a/b\n" +
        "/workspace/a/d/\n/workspace/a/d/c\n/workspace/a/d/e/\n/workspace/a/é x\n\n2 hidden items are left out; `ls -la /workspace/a` shows them.",
    );
    await refused(
      { command: "view", path: "/workspace/a", view_range: [1, 2] },
      /not allowed when path is a directory/,
    );
  });

  test("shows an image as an image", async () => {
    await writeFile(sandbox, "/workspace/a/p.PNG", Buffer.from([0x89, 0x50, 0, 1]));
    const observation = await edit({ command: "view", path: "/workspace/a/p.PNG" });
    expect(observation.content[1]).toEqual({
      type: "image",
      image_urls: ["data:image/png;base64,iVAAAQ=="],
      cache_prompt: false,
    });
  });
});

describe("str_replace", () => {
  test("replaces the only match literally, and shows it", async () => {
    await writeFile(sandbox, path, lines(12));
    const observation = await edit({ command: "str_replace", old_str: "line 6\n", new_str: "$& $1\nmore\n" });
    const changed = lines(12).replace("line 6\n", () => "$& $1\nmore\n");
    expect(observation).toMatchObject({
      is_error: false,
      path,
      prev_exist: true,
      old_content: lines(12),
      new_content: changed,
    });
    expect(text(observation)).toMatch(
      /^Edited .*\n {5}2\tline 2\n[\s\S]* {5}6\t\$& \$1\n {5}7\tmore\n[\s\S]*Review the change/,
    );
    expect(await content()).toBe(changed);
  });

  test("may delete, and forgives whitespace around old_str", async () => {
    await writeFile(sandbox, path, "  keep(a)\n  drop(b)\n");
    await edit({ command: "str_replace", old_str: "\n drop(b)\n\n", new_str: "" }).then((observation) =>
      expect(observation.is_error).toBe(false),
    );
    expect(await content()).toBe("  keep(a)\n  \n");
  });

  test("refuses an old_str that does not occur exactly once", async () => {
    await writeFile(sandbox, path, "a\nb\na\n");
    await refused(
      { command: "str_replace", old_str: "c", new_str: "d" },
      /`c` does not stand verbatim in \/workspace\/a\/file\.txt/,
    );
    await refused({ command: "str_replace", old_str: "a", new_str: "d" }, /2 times.*lines 1, 3/);
    await refused({ command: "str_replace", old_str: "b", new_str: "b" }, /must differ/);
    await refused({ command: "str_replace", old_str: "", new_str: "b" }, /must not be empty/);
    await refused({ command: "str_replace", old_str: "b" }, /`new_str` is required/);
    await refused({ command: "str_replace", new_str: "b" }, /`old_str` is required/);
    expect(await content()).toBe("a\nb\na\n");
  });
});

describe("insert", () => {
  test.each([
    [0, "x", "x\na\nb\n"],
    [1, "x\ny\n", "a\nx\ny\nb\n"],
    [2, "x", "a\nb\nx\n"],
  ])("after line %d", async (line, newText, expected) => {
    await writeFile(sandbox, path, "a\nb\n");
    expect(await edit({ command: "insert", insert_line: line, new_str: newText })).toMatchObject({
      new_content: expected,
    });
    expect(await content()).toBe(expected);
  });

  test("after a last line without a line break, and into an empty file", async () => {
    await writeFile(sandbox, path, "a\nb");
    await edit({ command: "insert", insert_line: 2, new_str: "c" });
    expect(await content()).toBe("a\nb\nc\n");
    await edit({ command: "create", path: "/workspace/e", file_text: "" });
    await edit({ command: "insert", path: "/workspace/e", insert_line: 0, new_str: "c" });
    expect(await content("/workspace/e")).toBe("c\n");
  });

  test("beyond the end is refused", async () => {
    await writeFile(sandbox, path, "a\n");
    await refused({ command: "insert", insert_line: 2, new_str: "x" }, /between 0 and 1/);
    await refused({ command: "insert", new_str: "x" }, /`insert_line` is required/);
  });
});

test("undo_edit takes edits back one by one, ten at most", async () => {
  await writeFile(sandbox, path, "v0\n");
  for (let version = 1; version <= 12; version++)
    await edit({ command: "str_replace", old_str: `v${version - 1}`, new_str: `v${version}` });
  const undone = await edit({ command: "undo_edit" });
  expect(undone).toMatchObject({
    old_content: "v12\n",
    new_content: "v11\n",
    content: [{ text: expect.stringContaining("     1\tv11\n") }],
  });
  for (let version = 10; version >= 2; version--) await edit({ command: "undo_edit" });
  expect(await content()).toBe("v2\n");
  await refused({ command: "undo_edit" }, /no edit of this file to undo/);
});

describe("line endings and encoding stay", () => {
  test.each([
    ["CR LF", Buffer.from("a\r\nb\r\n"), Buffer.from("a\r\nx\r\ny\r\n")],
    ["a byte order mark", Buffer.from("\ufeffa\nb\n"), Buffer.from("\ufeffa\nx\ny\n")],
    ["latin-1", Buffer.from("é\nb\n", "latin1"), Buffer.from("é\nx\ny\n", "latin1")],
    ["UTF-16", Buffer.from("\ufeffa\r\nb\r\n", "utf16le"), Buffer.from("\ufeffa\r\nx\r\ny\r\n", "utf16le")],
    ["mixed line breaks", Buffer.from("a\r\nb\nc\r\n"), Buffer.from("a\r\nx\ny\nc\r\n")],
  ])("%s", async (_, before, after) => {
    await writeFile(sandbox, path, before);
    expect(await edit({ command: "str_replace", old_str: "b\n", new_str: "x\ny\n" })).toMatchObject({
      is_error: false,
    });
    const found = await readFile(sandbox, path);
    expect(found).toEqual({ kind: "file", content: after });
    await edit({ command: "undo_edit" });
    expect(await readFile(sandbox, path)).toEqual({ kind: "file", content: before });
  });

  test("and characters outside of the encoding are refused", async () => {
    await writeFile(sandbox, path, Buffer.from("é", "latin1"));
    await refused({ command: "insert", insert_line: 1, new_str: "€" }, /latin-1, which lacks/);
  });

  test("the mode stays", async () => {
    await runToEnd(sandbox, { argv: ["sh", "-c", `echo a > ${path}; chmod 750 ${path}`] });
    await edit({ command: "str_replace", old_str: "a", new_str: "b" });
    expect((await runToEnd(sandbox, { argv: ["stat", "-c", "%a", path] })).stdout.toString()).toBe("750\n");
  });
});

describe("unusable paths and files are reported", () => {
  test("relative paths, with a suggestion if possible", async () => {
    await writeFile(sandbox, path, "a");
    await refused({ command: "view", path: "a/file.txt" }, /Did you mean \/workspace\/a\/file\.txt\?/);
    await refused({ command: "view", path: "nothing" }, /must be an absolute path, beginning with \/\.$/);
    await refused({ command: "view", path: "" }, /absolute/);
    await refused({ command: "view", path: "/a\0b" }, /NUL/);
  });

  test("missing files and directories", async () => {
    for (const command of ["view", "str_replace", "insert", "undo_edit"] as const) {
      const call = { command, path: "/workspace/none", old_str: "a", new_str: "b", insert_line: 0 };
      await refused(call, /no such file/);
      if (command !== "view")
        await refused({ ...call, path: "/workspace" }, /only view works on directories/);
    }
  });

  test("binary, huge, special and forbidden files", async () => {
    await runToEnd(sandbox, {
      argv: [
        "sh",
        "-c",
        `cd /workspace/a && head -c 100 /dev/zero > bin && truncate -s 11M huge && mkfifo pipe && touch no && chmod 0 no`,
      ],
    });
    await refused({ command: "view", path: "/workspace/a/bin" }, /binary/);
    await refused({ command: "view", path: "/workspace/a/huge" }, /too large: 11\.0 MB/);
    await refused({ command: "view", path: "/workspace/a/pipe" }, /neither a file nor a directory/);
    await refused({ command: "view", path: "/workspace/a/no" }, /[Pp]ermission denied/);
    await writeFile(sandbox, path, "a\n");
    await refused({ command: "insert", insert_line: 0, new_str: "x".repeat(10 * 1024 * 1024) }, /too large/);
  });

  test("file names are never interpreted", async () => {
    const odd = "/workspace/a/-n $(touch x) `y` '\"*\nü";
    await edit({ command: "create", path: odd, file_text: "a" });
    expect(await edit({ command: "str_replace", path: odd, old_str: "a", new_str: "b" })).toMatchObject({
      new_content: "b",
    });
    expect(await content(odd)).toBe("b");
  });
});

test("the model reads an error under a header", async () => {
  const observation = await edit({ command: "view", path: "/none" });
  expect(contentText(toolRegistry.readResult(observation))).toMatch(
    /^\[This call failed\.\]\nInvalid `path`/,
  );
});
