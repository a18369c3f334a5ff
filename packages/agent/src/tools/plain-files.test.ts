import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { testSandbox } from "@sandpiper/sandbox/test/support/terminal-sandbox";
import { contentText, Observation } from "@sandpiper/wire";
import { Value } from "typebox/value";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { describeFindings } from "../risk/judge-action.ts";
import { resolveToolCall } from "./call.ts";
import { chooseTools } from "./choose.ts";
import type { ToolContext } from "./tool.ts";

/** The tools of the SDK's gemini preset. */
const preset = ["read_file", "write_file", "edit", "list_directory"];
const tools = chooseTools({
  agentType: "default",
  agent: { tools: preset.map((name) => ({ name })) },
  clientTools: [],
});

let sandbox: Sandbox;
let remove: () => Promise<void>;
let context: ToolContext;

const inside = (script: string) => runToEnd(sandbox, { argv: ["sh", "-c", script], cwd: "/workspace" });
beforeAll(async () => {
  ({ sandbox, remove } = await testSandbox());
});
beforeEach(async () => {
  await inside("rm -rf /workspace/* /workspace/.h* && mkdir -p a/b/c && printf 'one\\ntwo\\none\\n' >a/file");
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
afterAll(() => remove());

/** Runs a call as the model writes it; the result fits to the wire's schema. */
async function call(name: string, args: object) {
  const written = { id: "1", name, arguments: JSON.stringify(args), origin: "completion" } as const;
  const resolved = resolveToolCall(written, tools);
  if ("error" in resolved) throw new Error(resolved.error);
  const result = await resolved.tool.run(resolved.action, context);
  expect([...Value.Errors(Observation, result)]).toEqual([]);
  const { content, ...fields } = result;
  return { text: contentText(content), fields: fields as Record<string, unknown>, action: resolved.action };
}
const failure = async (name: string, args: object) => {
  const { text, fields } = await call(name, args);
  expect(fields.is_error).toBe(true);
  return text;
};

test("an agent that names the preset's tools has them", () => {
  expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(preset));
  expect(tools.map(({ definition }) => definition.kind)).toEqual(
    expect.arrayContaining(["ReadFileTool", "WriteFileTool", "EditTool", "ListDirectoryTool"]),
  );
});

test("read_file shows numbered lines in parts, by absolute and relative paths", async () => {
  const { text, fields } = await call("read_file", { file_path: "a/file" });
  expect(fields).toEqual({
    kind: "ReadFileObservation",
    file_path: "/workspace/a/file",
    file_content: "     1  one\n     2  two\n     3  one\n",
    is_truncated: false,
    total_lines: 3,
    is_error: false,
  });
  expect(text).toContain("     2  two\n");
  const part = await call("read_file", { file_path: "/workspace/a/file", offset: 1, limit: 1 });
  expect(part.fields).toMatchObject({
    file_content: "     2  two\n",
    is_truncated: true,
    lines_shown: [2, 2],
  });
  expect(part.text).toContain("offset 2 shows more");
  await inside(
    "seq 100000 >long; head -c 100000 /dev/zero | tr '\\0' x >wide; printf '\\0' >binary; : >empty",
  );
  const long = await call("read_file", { file_path: "long", limit: 100_000 });
  expect(long.fields.is_truncated).toBe(true);
  expect(long.text.length).toBeLessThan(20_000);
  expect((await call("read_file", { file_path: "wide" })).text.length).toBeLessThan(20_000);
  expect((await call("read_file", { file_path: "empty" })).fields).toMatchObject({ file_content: "" });
  expect(await failure("read_file", { file_path: "a/file", offset: 3 })).toContain("has 3 lines");
  expect(await failure("read_file", { file_path: "none" })).toContain("no file /workspace/none");
  expect(await failure("read_file", { file_path: "a" })).toContain("is a directory");
  expect(await failure("read_file", { file_path: "binary" })).toContain("binary");
});

test("write_file makes files with their folders and replaces files", async () => {
  const made = await call("write_file", { file_path: "new/deep/f", content: "x\n" });
  expect(made.fields).toEqual({
    kind: "WriteFileObservation",
    file_path: "/workspace/new/deep/f",
    is_new_file: true,
    old_content: null,
    new_content: "x\n",
    is_error: false,
  });
  const { fields } = await call("write_file", { file_path: "a/file", content: "y" });
  expect(fields).toMatchObject({ is_new_file: false, old_content: "one\ntwo\none\n", new_content: "y" });
  expect((await inside("cat a/file new/deep/f")).stdout.toString()).toBe("yx\n");
  expect(await failure("write_file", { file_path: "a", content: "" })).toContain("directory");
});

test("edit replaces exactly the expected number of texts, or makes a file", async () => {
  const edit = (args: object) => ({ file_path: "a/file", old_string: "one", new_string: "1", ...args });
  expect(await failure("edit", edit({}))).toContain("stands 2 times in /workspace/a/file, not 1 times");
  expect(await failure("edit", edit({ old_string: "ten" }))).toContain("does not stand");
  expect(await failure("edit", edit({ new_string: "one", expected_replacements: 2 }))).toContain("the same");
  expect(await failure("edit", edit({ old_string: "" }))).toContain("already");
  expect(await failure("edit", edit({ file_path: "none" }))).toContain("no file");
  const { fields, action } = await call("edit", edit({ expected_replacements: 2 }));
  expect(fields).toMatchObject({
    kind: "EditObservation",
    replacements_made: 2,
    old_content: "one\ntwo\none\n",
    new_content: "1\ntwo\n1\n",
  });
  expect(action).toMatchObject({ kind: "EditAction", expected_replacements: 2 });
  await inside("printf 'a\\r\\nb\\r\\n' >dos");
  await call("edit", { file_path: "dos", old_string: "a\r\nb", new_string: "c\nd" });
  expect((await inside("cat dos")).stdout.toString()).toBe("c\r\nd\r\n");
  const made = await call("edit", { file_path: "made", old_string: "", new_string: "z" });
  expect(made.fields).toMatchObject({ is_new_file: true, replacements_made: 1, new_content: "z" });
});

test("list_directory lists one or two levels with sizes and times, 500 entries at most", async () => {
  await inside("touch -d '2001-02-03T04:05:06Z' a/file && ln -s nowhere a/broken && : >'.h a'");
  const { text, fields } = await call("list_directory", {});
  expect(fields).toMatchObject({ kind: "ListDirectoryObservation", dir_path: "/workspace", total_count: 2 });
  expect(text).toContain("/workspace/a/\n");
  const deep = await call("list_directory", { dir_path: "/workspace", recursive: true });
  expect((deep.fields.entries as { path: string }[]).map(({ path }) => path)).toEqual(
    ["/.h a", "/a", "/a/b", "/a/file"].map((path) => `/workspace${path}`),
  );
  expect((deep.fields.entries as object[]).at(-1)).toEqual({
    ...{ name: "file", path: "/workspace/a/file", is_directory: false, size: 12 },
    modified_time: expect.stringMatching(/^2001-02-03T04:05:06/),
  });
  await inside("mkdir many && cd many && seq 600 | xargs touch");
  const many = await call("list_directory", { dir_path: "many" });
  expect(many.fields).toMatchObject({ total_count: 600, is_truncated: true });
  expect(many.fields.entries).toHaveLength(500);
  expect(await failure("list_directory", { dir_path: "none" })).toContain("no directory");
  expect(await failure("list_directory", { dir_path: "a/file" })).toContain("is a file");
});

test("their calls are judged like those of the file editor", async () => {
  const { action } = await call("write_file", {
    file_path: "package.json",
    content: '{"postinstall" : "x"}',
  });
  expect(describeFindings(action)).toHaveLength(1);
  const found = tools.find(({ name }) => name === "read_file")!;
  const read = { kind: "ReadFileAction", file_path: "/home/me/.ssh/id_rsa" } as const;
  expect(found.risk?.(read).findings).toEqual(["read-credentials"]);
});
