import { expect, test } from "vitest";
import { toHookConfig } from "../hooks/config.ts";
import { parseAgentDefinition } from "../skills/agent-definitions.ts";
import { parseSkill } from "../skills/parse.ts";
import { collectBehaviour, digestBehaviour, missingParts, type ProjectParts } from "./behaviour.ts";
import { findGitPrograms, listGitSettings } from "./git-settings.ts";
import { findPaths } from "./named-files.ts";
import { toCredentialHelper } from "./own-parts.ts";

const skill = (path: string, text: string) => parseSkill(path, text, "project")!;
const agent = (facts: string) =>
  parseAgentDefinition("/w/.agents/agents/a.md", `---\n${facts}\n---\nDo it.`)!;
const project = (change: Partial<ProjectParts> = {}): ProjectParts => ({
  ...{ workingDir: "/w", skills: [], hooks: {}, servers: {}, agents: [] },
  ...change,
});

test("texts of a project only describe", () => {
  const skills = [
    skill("/w/AGENTS.md", "Run !`rm -rf x` and be kind."),
    skill("/w/.agents/skills/a/SKILL.md", "---\ndescription: A\n---\n```\n!`in a block`\n```"),
    skill("/w/.agents/skills/b.md", "---\ntriggers: [b]\n---\nSteps: !`echo`"),
  ];
  expect(collectBehaviour(project({ skills, agents: [agent("description: A")] }))).toEqual([]);
});

test("what a project does by itself is listed in full, with its place", () => {
  const skills = [
    skill("/w/.agents/skills/a/SKILL.md", "---\ndescription: A\n---\nOut: !`one` and !`two`"),
    skill("/w/CLAUDE.md", "---\nmcp_tools: {far: {url: 'https://x.example'}}\n---\nText"),
  ];
  const hooks = toHookConfig({
    Stop: [{ matcher: "terminal", hooks: [{ command: "sh a.sh" }, { type: "prompt", prompt: "Ok?" }] }],
  })!;
  const agents = [
    agent("permission_mode: never_confirm"),
    agent("model: costly"),
    agent("permission_mode: always_confirm"),
  ];
  expect(collectBehaviour(project({ skills, hooks, agents, servers: { near: { command: "x" } } }))).toEqual([
    { kind: "hook", source: ".openhands/hooks.json", text: "stop terminal: sh a.sh" },
    { kind: "model_hook", source: ".openhands/hooks.json", text: "stop terminal: Ok?" },
    { kind: "skill_command", source: ".agents/skills/a/SKILL.md", text: "one" },
    { kind: "skill_command", source: ".agents/skills/a/SKILL.md", text: "two" },
    { kind: "mcp_server", source: "CLAUDE.md", text: 'far: {"url":"https://x.example"}' },
    { kind: "mcp_server", source: ".mcp.json", text: 'near: {"command":"x"}' },
    { kind: "sub_agent", source: "a", text: '{"permission_mode":"never_confirm"}\nDo it.' },
    { kind: "sub_agent", source: "a", text: '{"model":"costly"}\nDo it.' },
  ]);
});

test("the digest depends on the origin and on each part, and not on their order", () => {
  const one = { kind: "hook" as const, source: "a", text: "x" };
  const two = { kind: "hook" as const, source: "b", text: "y" };
  const digest = digestBehaviour("o", [one, two]);
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(digestBehaviour("o", [two, one])).toBe(digest);
  const others = [
    digestBehaviour("p", [one, two]),
    digestBehaviour("o", [one]),
    digestBehaviour("o", [one, two, two]),
    digestBehaviour("o", [{ ...one, text: "x\n" }, two]),
    digestBehaviour("o", [{ ...one, source: "c" }, two]),
    digestBehaviour("o", [{ ...one, kind: "model_hook" }, two]),
  ];
  expect(new Set([digest, ...others]).size).toBe(7);
});

test("parts are the same only if kind, place and text are", () => {
  const one = { kind: "hook" as const, source: "a", text: "x" };
  expect(missingParts([one], [{ ...one }])).toEqual([]);
  for (const other of [{ kind: "model_hook" as const }, { source: "b" }, { text: "x " }])
    expect(missingParts([one], [{ ...one, ...other }])).toEqual([one]);
});

test("files are found by the words of commands, in any script and through the usual variables", () => {
  const folders = { workingDir: "/w", plugins: ["/home/.sandpiper-plugins/p"] };
  const find = (text: string, source = "a", isFile = false) =>
    findPaths([{ source, text, isFile }], folders).paths;
  expect(find("cd /w && sh tools/check.sh >out.json; sh ../x.sh")).toEqual([
    "/w/tools/check.sh",
    "/w/out.json",
  ]);
  expect(find("sh ./проверка; 'ü/é'")).toEqual(["/w/проверка", "/w/ü/é"]);
  expect(find('{"command":"node","args":["server.js"]}')).toEqual(["/w/server.js"]);
  expect(find('"$OPENHANDS_PROJECT_DIR"/a ${CLAUDE_PROJECT_DIR}/b')).toEqual(["/w/a", "/w/b"]);
  const plugin = "/home/.sandpiper-plugins/p/hooks/hooks.json";
  expect(find("sh ${CLAUDE_PLUGIN_ROOT}/c $OPENHANDS_PLUGIN_ROOT/d", plugin)).toEqual([
    "/home/.sandpiper-plugins/p/c",
    "/home/.sandpiper-plugins/p/d",
  ]);
  // A file names others from its own folder, too, and by a variable that holds it.
  expect(find('sh lib.sh; . $HERE/a; . "$(dirname $0)/b"', "tools/run")).toEqual([
    "/w/lib.sh",
    "/w/tools/lib.sh",
    "/w/a",
    "/w/tools/a",
    "/w/b",
    "/w/tools/b",
  ]);
  expect(find('from lib.one import x\nrun(["sh", "t.sh"])', "/w/tools/main.py", true)).toEqual([
    "/w/t.sh",
    "/w/tools/t.sh",
    "/w/lib/one.py",
    "/w/tools/lib/one.py",
    "/w/lib/one/__init__.py",
    "/w/tools/lib/one/__init__.py",
  ]);
  expect(find('import x from "./x"', "/w/a/main.js", true)).toEqual(
    expect.arrayContaining(["/w/a/x", "/w/a/x.js", "/w/a/x/index.js"]),
  );
  // A file is also named from a folder that a script goes to, or that a variable holds.
  for (const [text, path] of [
    ["cd tools && ./run", "/w/tools/run"],
    ["cd -- 'tools'; sh run.sh", "/w/tools/run.sh"],
    ["cd a\ncd b\nsh run.sh", "/w/a/b/run.sh"],
    ["(pushd tools; sh run.sh)", "/w/tools/run.sh"],
    ["DIR=tools/a; sh $DIR/run.sh", "/w/tools/a/run.sh"],
    ['D="$(dirname "$0")/lib"; . $D/x.sh', "/w/lib/x.sh"],
    ["make -C tools -f x.sh", "/w/tools/x.sh"],
    ["env --chdir=tools ./run", "/w/tools/run"],
    ['{"command":"node","cwd":"tools","args":["server.js"]}', "/w/tools/server.js"],
    ['{"cwd": "tools", "args": ["server.js"]}', "/w/tools/server.js"],
  ] as const)
    expect(find(text), text).toContain(path);
  expect(find("cd tools && ./run", ".openhands/setup.sh", true)).toContain("/w/tools/run");
  // Any file of a folder may be meant.
  expect(find("for f in setup.d/*; do sh $f; done; run $HERE/*", "tools/run")).toEqual([
    "/w/setup.d/",
    "/w/tools/setup.d/",
    "/w/tools/",
  ]);
  const many = Array.from({ length: 1_001 }, (_, index) => `a/${index}`);
  expect(findPaths([{ source: "a", text: many.slice(1).join(" ") }], folders).more).toBe(false);
  expect(findPaths([{ source: "a", text: many.join(" ") }], folders).more).toBe(true);
});

test("settings of git count when they name a program, or let another one in", () => {
  const list = (settings: Record<string, string>) =>
    Object.entries(settings)
      .map(([name, value]) => `${name}\n${value}\0`)
      .join("");
  const hostile = {
    ...{ "core.fsmonitor": "./x", "core.sshcommand": "sh x", "core.hookspath": "x", "core.pager": "sh x" },
    ...{ "core.editor": "sh x", "core.gitproxy": "x", "core.alternaterefscommand": "x" },
    ...{
      "alias.st": "!sh x",
      "pager.log": "sh x",
      "credential.helper": "!sh x",
      "credential.https://a.helper": "/x",
    },
    ...{ "filter.a.clean": "x", "filter.a.smudge": "x", "filter.a.process": "x", "diff.external": "x" },
    ...{ "diff.a.command": "x", "diff.a.textconv": "x", "merge.a.driver": "x", "mergetool.a.cmd": "x" },
    ...{
      "mergetool.a.path": "x",
      "gpg.program": "x",
      "gpg.ssh.defaultkeycommand": "x",
      "include.path": "../x",
    },
    ...{ "includeif.onbranch:x.path": "../x", "remote.x.uploadpack": "x", "remote.x.vcs": "x" },
    ...{
      "remote.x.url": "ext::sh -c x",
      "url.ext::sh -c .insteadof": "https://",
      "protocol.ext.allow": "always",
    },
    ...{
      "submodule.a.update": "!x",
      "sequence.editor": "x",
      "interactive.difffilter": "x",
      "trailer.a.cmd": "x",
    },
    ...{ "uploadpack.packobjectshook": "x", "hook.a.command": "x", "lfs.customtransfer.a.path": "x" },
    ...{ "sendemail.sendmailcmd": "x", "init.templatedir": "x" },
  };
  expect(findGitPrograms(list(hostile))).toEqual(
    Object.entries(hostile).map(([name, value]) => `${name} = ${value}`),
  );
  const plain = {
    ...{ "core.fsmonitor": "true", "core.bare": "false", "core.editor": "vim", "pager.diff": "false" },
    ...{
      "alias.st": "status",
      "remote.origin.url": "https://a.example/b::c",
      "branch.main.merge": "refs/heads/main",
    },
    ...{ "filter.lfs.process": "git-lfs filter-process", "filter.lfs.clean": "git-lfs clean -- %f" },
    ...{
      "filter.lfs.required": "true",
      "credential.helper": "cache",
      "submodule.a.path": "lib",
      "user.name": "!x",
    },
    ...{ "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*", "core.excludesfile": "x" },
  };
  expect(findGitPrograms(list(plain))).toEqual([]);
  const helper = toCredentialHelper({ user: "x-access-token", variable: "GITHUB_TOKEN" });
  expect(findGitPrograms(list({ "credential.https://a.example.helper": helper }))).toEqual([]);
  const others = [
    `${helper}; evil`,
    helper.replace("x-access-token", "$(evil)"),
    helper.replace("'x-access-token'", "'a' 'b'"),
    helper.replaceAll("GITHUB_TOKEN", "DATABASE_TOKEN"),
    helper.replace("!f", "!g"),
  ];
  for (const other of others)
    expect(findGitPrograms(list({ "credential.https://a.example.helper": other }))).toHaveLength(1);
});

test("the settings of a file are read without git", () => {
  const file = [
    "[core] fsmonitor = ./x",
    "\tbare = false",
    "# sshCommand = a comment",
    '\tSSHCommand = "sh \\',
    '  evil"',
    '[Filter "a]b"]',
    "clean=sh y",
    '[credential "https://a.example/\\"x"]\r',
    "\thelper = !z\r",
    "[alias]",
    "st = status",
    "[include",
    "path = ../more",
  ].join("\n");
  expect(findGitPrograms(listGitSettings(file))).toEqual([
    "core.fsmonitor = ./x",
    "core.sshcommand = sh   evil",
    "filter.a]b.clean = sh y",
    'credential.https://a.example/"x.helper = !z',
    "include.path = ../more",
  ]);
});
