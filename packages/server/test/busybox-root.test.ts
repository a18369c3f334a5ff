import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ModelServer, reply, startModelServer } from "@sandpiper/models/test/support/model-server";
import { findBusybox } from "@sandpiper/sandbox/drivers/common/busybox";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Json,
  startConversation,
  startTestPlatform,
  type TestPlatform,
  until,
} from "./support/platform.ts";
import { editor, finish, terminal } from "./support/script.ts";

/**
 * The agent's tools in a small image with only busybox: sh, find, grep and stat; no bash, Python,
 * git or Chromium.
 */

let platform: TestPlatform;
let models: ModelServer;
let dir: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-busybox-"));
  const root = join(dir, "root");
  for (const folder of ["bin", "etc", "home/joe", "tmp"]) mkdirSync(join(root, folder), { recursive: true });
  chmodSync(dir, 0o755);
  chmodSync(join(root, "tmp"), 0o1777);
  const busybox = findBusybox()!;
  copyFileSync(busybox, join(root, "bin/busybox"));
  for (const applet of execFileSync(busybox, ["--list"], { encoding: "utf8" }).trim().split("\n"))
    if (applet !== "busybox" && applet !== "bash") symlinkSync("busybox", join(root, "bin", applet));
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\njoe:x:1000:1000::/home/joe:/bin/sh\n");
  execFileSync("chown", ["-R", "1000:1000", join(root, "home/joe")]);
  const specsFile = join(dir, "specs.json");
  writeFileSync(
    specsFile,
    JSON.stringify({ specs: [{ id: "small", folder: root, user: "joe", working_dir: "/home/joe/work" }] }),
  );
  // The user's message holds the calls of its turn.
  models = await startModelServer(({ messages }) => {
    const calls = JSON.parse(
      messages.find(({ role, text }) => role === "user" && text.startsWith("["))!.text,
    );
    const call = calls[messages.filter(({ role }) => role === "tool").length];
    return call ? reply.toolCalls([call]) : finish("Done.");
  });
  platform = await startTestPlatform({ specsFile });
  const names = [
    "terminal",
    "file_editor",
    "grep",
    "glob",
    "apply_patch",
    "list_directory",
    "browser_tool_set",
  ];
  const llm = { model: "openai/first", api_key: "sk-x", base_url: models.url };
  const stored = await platform.call("POST", "/api/v1/settings", {
    agent_settings_diff: { llm, tools: names.map((name) => ({ name, params: {} })) },
  });
  expect(stored.status).toBe(200);
});

afterAll(async () => {
  await platform?.stop();
  await models?.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The results of calls of the agent, in order: observations and errors. */
async function results(...calls: object[]): Promise<Json[]> {
  const { id } = await startConversation(platform.call, JSON.stringify(calls));
  const events = await until(async () => {
    const { body } = await platform.call("GET", `/api/v1/conversation/${id}/events/search?limit=100`);
    return body.items.some(({ observation }: Json) => observation?.kind === "FinishObservation")
      ? body.items
      : undefined;
  });
  return events
    .filter(({ kind }: Json) => kind === "ObservationEvent" || kind === "AgentErrorEvent")
    .slice(0, -1);
}

const call = (name: string, args: object) => ({ name, arguments: { security_risk: "LOW", ...args } });
const textOf = ({ observation, error }: Json) =>
  error ?? observation.content.map(({ text }: Json) => text).join("\n");

test("the terminal works with sh: state, input, keys, long and invalid commands, an exiting shell", async () => {
  const seen = await results(
    terminal("echo hello from $0; cd /tmp && export KEPT=yes"),
    terminal("pwd; echo $KEPT; false"),
    terminal("{ cat <<'X'\nit's $HOME\nX\n} && for i in 1 2; do\n  echo \"line $i\"\ndone | tail -n 1"),
    terminal("sleep 100", { timeout: 0.5 }),
    terminal("C-c", { is_input: true }),
    terminal("read -r name; echo hi $name", { timeout: 0.5 }),
    terminal("Ada", { is_input: true }),
    terminal(`printf %s ${"y".repeat(20_000)} | wc -c`),
    terminal("echo ("),
    terminal("sleep 0.2 & wait; echo waited"),
    terminal("exit 3"),
    terminal("pwd"),
    terminal("", { reset: true }),
    terminal("seq 1 30000"),
    terminal("printf '\\377\\033[31mred\\n'; nosuchcommand"),
  );
  expect(seen.map(({ observation }) => observation.exit_code)).toEqual([
    0, 1, 0, -1, 130, -1, 0, 0, 2, 0, 3, 0, 0, 0, 127,
  ]);
  const [hello, kept, here, , , , hi, long, broken, waited, , again, reset, many, bytes] = seen.map(textOf);
  expect(hello).toBe("hello from /bin/sh\n");
  expect(kept).toBe("/tmp\nyes\n");
  expect(here).toBe("it's $HOME\nline 2\n");
  expect(hi).toContain("hi Ada");
  expect(long).toBe("20000\n");
  expect(broken).toContain("syntax error");
  expect(waited).toContain("waited");
  expect(again).toBe("/tmp\n");
  expect(reset).toContain("The terminal was reset");
  expect(many).toMatch(/^1\n2\n[\s\S]*29999\n30000\n/);
  expect(bytes).toMatch(/^\ufffdred\n.*nosuchcommand: not found/);
});

test("files are written, edited, patched and found, and missing programs are reported", async () => {
  const file = "/home/joe/work/a/b.txt";
  const patch =
    "*** Begin Patch\n*** Add File: c.txt\n+new\n*** Update File: a/b.txt\n@@\n-one\n+eins\n*** End Patch";
  const seen = await results(
    editor({ command: "create", path: file, file_text: "one\ntwo\n" }),
    editor({ command: "str_replace", path: file, old_str: "two", new_str: "zwei ü" }),
    editor({ command: "insert", path: file, insert_line: 1, new_str: "between" }),
    editor({ command: "undo_edit", path: file }),
    editor({ command: "view", path: "/home/joe/work" }),
    editor({ command: "create", path: "/etc/no", file_text: "x" }),
    call("apply_patch", { patch }),
    call("grep", { pattern: "ZWEI|none" }),
    call("grep", { pattern: "(" }),
    call("glob", { pattern: "**/*.txt" }),
    call("glob", { pattern: "*.none", path: "/nowhere" }),
    editor({ command: "view", path: file }),
    call("browser_navigate", { url: "http://localhost:1/" }),
    call("list_directory", { recursive: true }),
  );
  const failed = seen.flatMap(({ observation }, index) => (observation.is_error ? [index] : []));
  expect(failed).toEqual([5, 8, 10, 12]);
  const texts = seen.map(textOf);
  expect(texts[4]).toContain(`\n${file}\n`);
  expect(texts[5]).toBe("/etc/no cannot be written: Permission denied.");
  expect(texts[6]).toContain("A c.txt\nM a/b.txt");
  expect(texts[7]).toBe(`1 match in /home/joe/work:\n${file}`);
  expect(texts[8]).toMatch(/^The pattern cannot be used: .*\(/);
  expect(texts[9]).toBe(`2 matches in /home/joe/work:\n${file}\n/home/joe/work/c.txt`);
  expect(texts[11]).toContain("     1\teins\n     2\tzwei ü\n");
  expect(texts[13]).toBe(
    `/home/joe/work has 3 entries:\n/home/joe/work/a/\n${file}  13 bytes\n/home/joe/work/c.txt  4 bytes\n`,
  );
  expect(texts[12]).toMatch(/no browser in this sandbox.*the package chromium/);
});
