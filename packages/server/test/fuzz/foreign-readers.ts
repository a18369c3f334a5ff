import { collectBehaviour } from "@sandpiper/agent/behaviour/behaviour";
import { findGitPrograms, listGitSettings } from "@sandpiper/agent/behaviour/git-settings";
import { findPaths } from "@sandpiper/agent/behaviour/named-files";
import { toHookConfig } from "@sandpiper/agent/hooks/config";
import { decide } from "@sandpiper/agent/hooks/verdict";
import { judgeStuck } from "@sandpiper/agent/loop/stuck";
import { boundedBody } from "@sandpiper/agent/mcp/event-bound";
import { inputSchema } from "@sandpiper/agent/mcp/input-schema";
import { resultContent } from "@sandpiper/agent/mcp/result";
import { expandVariables, findReferences } from "@sandpiper/agent/mcp/variables";
import { inlineCommands } from "@sandpiper/agent/skills/inline-commands";
import { parseSkill } from "@sandpiper/agent/skills/parse";
import { skillBlocks } from "@sandpiper/agent/skills/prompt-text";
import { removeSkillParts } from "@sandpiper/agent/skills/skill-files";
import { fitArguments } from "@sandpiper/agent/tools/arguments";
import { taskTrackerTool } from "@sandpiper/agent/tools/task-tracker";
import { terminalTool } from "@sandpiper/agent/tools/terminal";
import { toCallFailure } from "@sandpiper/models/failure";
import { parseChanges } from "@sandpiper/sandbox/files/git/git";
import { parseCommits } from "@sandpiper/sandbox/files/git/history";
import { matchesHost } from "@sandpiper/sandbox/network/policy/policy";
import { toReasonPhrase } from "@sandpiper/sandbox/network/proxy/exchange";
import { canonicalHost } from "@sandpiper/sandbox/network/proxy/target";
import { OpeningReader } from "@sandpiper/sandbox/network/tls/client-hello";
import { toCloneError } from "../../src/conversations/project/clone.ts";
import { parseManifest } from "../../src/conversations/project/plugin-description.ts";
import { checkBranch, checkRepositoryName } from "../../src/conversations/project/repository.ts";
import { parseRepositoryName, parseRepositoryUrl } from "../../src/git/repository-name.ts";
import type { Reader } from "./reader.ts";

/** A value for every eight characters. */
const record = (text: string) =>
  Object.fromEntries((text.match(/.{1,8}/gs) ?? []).map((piece, index) => [`k${index}`, piece]));
const list = (text: string) => text.match(/.{1,8}/gs) ?? [];
const nested = (text: string) =>
  list(text).reduce<object>((inner) => ({ type: "object", properties: { a: inner } }), {});
const cloneRequest = { target: "/w", branch: "a", full: false, room: 1, repository: { fullName: "a/b" } };
/** Lists of lists by reference: the text of all of them would be endless. */
const aliases = (text: string) => {
  const lines = list(text).slice(0, 1_000);
  return lines
    .map((_line, index) => `x${index}: &x${index} [${`*x${index - 1},`.repeat(index > 0 ? 9 : 0)}]`)
    .join("\n");
};

/** Functions that read the output of programs, the values of servers, and names. */
export const foreignReaders: readonly Reader[] = [
  {
    name: "expandVariables",
    read: (text) => expandVariables(text, () => undefined, new Set()),
    longChars: 200_000,
    bound: "65,536 characters of an argument",
    pieces: ["${a:-", "$a", "${a:-}", "${"],
  },
  {
    name: "findReferences",
    read: (text) => findReferences([text]),
    longChars: 200_000,
    bound: "65,536 characters of an argument",
    pieces: ["${a:-", "$"],
  },
  {
    name: "inputSchema, properties",
    read: (text) => inputSchema({ properties: record(text), required: list(text) }),
    bound: "maxParts of input-schema.ts",
    pieces: ["a"],
  },
  { name: "inputSchema, depth", read: (text) => inputSchema(nested(text)), bound: "maxDepth", pieces: ["a"] },
  {
    name: "inputSchema, references and texts",
    read: (text) =>
      inputSchema({ properties: { a: { $ref: `#/${text}` }, b: { description: text, enum: list(text) } } }),
    bound: "maxText of input-schema.ts",
    pieces: ["a/", "~1", "\u200b"],
  },
  {
    name: "resultContent",
    read: (text) =>
      resultContent({
        content: [{ type: "text", text }, ...list(text).map((one) => ({ type: "text", text: one }))],
      }),
    bound: "maxText and maxParts of result.ts",
    pieces: ["\x1b[", "\x1b]", "\x1b[1"],
  },
  {
    name: "fitArguments, unknown names",
    read: (text) => fitArguments(terminalTool.parameters, record(text)),
    bound: "answer of a model",
    pieces: ["a"],
  },
  {
    name: "fitArguments, wrong items",
    read: (text) => fitArguments(taskTrackerTool.parameters, { command: "plan", task_list: list(text) }),
    bound: "answer of a model",
    pieces: ["a"],
  },
  {
    name: "decide",
    read: (stdout) => decide({ exitCode: 0, stdout, stderr: stdout }, { guards: true }),
    bound: "maxOutput of command-hook.ts",
    pieces: ["{", "{}", '{"a":'],
  },
  {
    name: "toHookConfig, entries",
    read: (text) => toHookConfig({ Stop: list(text).map((command) => ({ hooks: [{ command }] })) }),
    bound: "maxEntries of config.ts",
    pieces: ["a"],
  },
  {
    name: "findPaths",
    read: (text) => findPaths([{ source: "a", text }], { workingDir: "/w", plugins: ["/p"] }),
    bound: "maxNamedBytes and maxWords of behaviour/named-files.ts",
    pieces: ["a/b ", "$OPENHANDS_PROJECT_DIR", '"${', "../", "a/", "'", "$a/", "cd a\n", "A=a ", "$("],
  },
  {
    name: "findPaths in a program",
    read: (text) =>
      findPaths([{ source: "a.py", text, isFile: true }], { workingDir: "/w", plugins: ["/p"] }),
    bound: "maxNamedBytes and maxWords of behaviour/named-files.ts",
    pieces: ["'./a'", "'a", "import a.b\n", "from ", "\t", '"./', "..", "`./"],
  },
  {
    name: "listGitSettings and findGitPrograms",
    read: (text) => findGitPrograms(listGitSettings(text)),
    bound: "maxScriptBytes of behaviour/files.ts",
    pieces: ["[a]\n", '[a "b"]', "[", '"', "\\\n", "a=!b\n", "[alias] a=!b\n", "]", "="],
  },
  {
    name: "findGitPrograms",
    read: findGitPrograms,
    bound: "maxScriptBytes of behaviour/files.ts",
    pieces: ["a.b\nc\0", "alias.a\n!b\0", "a.", "url.", "url.a:", "\0", "remote.a.url\n::\0", "cmd"],
  },
  {
    name: "inlineCommands",
    read: inlineCommands,
    bound: "maxContent of parse.ts",
    pieces: ["!`", "```\n", "!`a`", "\r", "`"],
  },
  {
    name: "parseSkill and collectBehaviour, references in YAML",
    read(text) {
      const lines = aliases(text);
      const servers = `mcp_tools: {a: {url: *x${list(text).length - 1}}}`;
      const skill = parseSkill("/w/a/SKILL.md", `---\n${lines}\n${servers}\n---\ntext`, "project");
      return skill && collectBehaviour({ workingDir: "/w", skills: [skill] });
    },
    bound: "maxTokens of front-matter.ts",
    pieces: ["a"],
  },
  {
    name: "skillBlocks",
    read(text) {
      const skill = parseSkill("/w/a/SKILL.md", `---\nname: a\n---\n${text}`, "project");
      return (
        skill && skillBlocks(list(text).map((name) => ({ ...skill, name, content: text.slice(0, 1_000) })))
      );
    },
    bound: "maxSkills of skill-files.ts",
    pieces: [" ", "&", "<"],
  },
  {
    name: "removeSkillParts",
    read: (text) =>
      removeSkillParts(list(text).map((name, index) => ({ path: `/${name}/${index}/SKILL.md` }))),
    bound: "maxBytes of skill-files.ts",
    pieces: ["a/", "/"],
  },
  {
    name: "judgeStuck",
    read: (text) =>
      judgeStuck(
        list(text).map((one, index) => {
          const call = { id: "a", name: "t", arguments: one, origin: "completion" };
          const tool_call_id = String(index);
          return { kind: "ActionEvent", tool_name: "t", thought: [], tool_call: call, tool_call_id } as never;
        }),
      ),
    bound: "stuckWindow",
    pieces: ["tail -", "a"],
  },
  {
    name: "parseChanges",
    read: (text) => parseChanges(`repository\0.\0${text}`),
    bound: "8 MiB of output",
    pieces: ["M\0ab\0", "\0\0repository\0./ab\0", "D\0a\0\0\0repository\0a\0", "\0"],
  },
  {
    name: "parseChanges, repositories beside many changes",
    read(text) {
      const half = list(text);
      const changes = half.map((_one, index) => `M\0${index}/a\0`).join("");
      return parseChanges(
        `repository\0.\0${changes}\0\0${half.map((_one, index) => `repository\0./${index}\0\0\0`).join("")}`,
      );
    },
    bound: "8 MiB of output",
    pieces: ["a"],
  },
  {
    name: "parseCommits",
    read: (text) => parseCommits(text, true),
    bound: "maxListBytes",
    pieces: ["\0", "a\0"],
  },
  {
    name: "OpeningReader",
    read(text) {
      const reader = new OpeningReader();
      const bytes = Buffer.from(text, "latin1");
      reader.push(Buffer.from([22, 3, 1, 0, 4, 1, 0, 0x3f, 0xff]));
      for (let at = 0; at < bytes.length; at++) reader.push(bytes.subarray(at, at + 1));
    },
    bound: "maxHelloBytes of client-hello.ts",
    pieces: ["\x16\x03\x01\x00\x01\x00", "\x16\x03\x01\x00\x02\x00\x00"],
  },
  {
    name: "canonicalHost",
    read: canonicalHost,
    bound: "16 KB of headers",
    pieces: ["a.", "xn--", "%41", "0x", "é", "[::"],
  },
  {
    name: "matchesHost",
    read: (text) => matchesHost("*.a.example", text),
    bound: "253 characters",
    pieces: ["a.", "."],
  },
  { name: "toReasonPhrase", read: toReasonPhrase, bound: "maxReasonLength", pieces: ["é", "\r\n"] },
  {
    name: "toCloneError",
    read: (text) => toCloneError(65, text, cloneRequest as never),
    longChars: 200_000,
    bound: "64 KiB of output",
    pieces: ["remote branch ", "://", "://a@", "\r", "hint:\n", "fatal: "],
  },
  { name: "parseManifest", read: parseManifest, bound: "64 KiB", pieces: ['{"a":', "[", "{}", '"'] },
  { name: "checkBranch", read: checkBranch, bound: "a request", pieces: ["a", "/", "..", "a/"] },
  {
    name: "checkRepositoryName",
    read: (text) => checkRepositoryName(text, "gitlab"),
    bound: "a request",
    pieces: ["a/", ".git", "~"],
  },
  { name: "parseRepositoryName", read: parseRepositoryName, bound: "a request", pieces: ["a/", "é"] },
  {
    name: "parseRepositoryUrl",
    read: (text) => parseRepositoryUrl(`https://h/${text}`, "h"),
    bound: "a request",
    pieces: [".git", "/", "/-/", "a/"],
  },
  {
    name: "toCallFailure",
    read: (text) => toCallFailure({ message: text, code: text, type: text }),
    bound: "answer of an endpoint",
    pieces: ["context", "exceeds the ", "too many ", "maximum "],
  },
  {
    name: "boundedBody",
    async read(text) {
      const pieces = text.match(/.{1,7}/gs) ?? [];
      const body = ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
      const bounded = boundedBody(body, { maxBytes: 2 ** 20, isStream: true, onEnd() {} });
      for await (const _piece of bounded);
    },
    bound: "maxBytes of a message",
    pieces: ["\n", "\r", "\r\n", "id:", "data: a\n"],
  },
];
