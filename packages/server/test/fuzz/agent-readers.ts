import { transcript } from "@sandpiper/agent/condenser/transcript";
import { parseHookConfig } from "@sandpiper/agent/hooks/config";
import { isMatcher } from "@sandpiper/agent/hooks/matcher";
import { extractJson } from "@sandpiper/agent/hooks/verdict";
import { LineReader } from "@sandpiper/agent/mcp/line-reader";
import { shortText } from "@sandpiper/agent/mcp/message-text";
import { judgeAddress } from "@sandpiper/agent/risk/addresses";
import { judgePatch } from "@sandpiper/agent/risk/edit-rules";
import { judgeArguments } from "@sandpiper/agent/risk/pattern";
import { judgeScript } from "@sandpiper/agent/risk/shell-rules";
import { parseAgentDefinition } from "@sandpiper/agent/skills/agent-definitions";
import { readRecords } from "@sandpiper/agent/skills/file-records";
import { FrontMatterReader } from "@sandpiper/agent/skills/front-matter";
import { withCommandOutput } from "@sandpiper/agent/skills/inline-commands";
import { parseSkill } from "@sandpiper/agent/skills/parse";
import { matchesGlob, touchedPaths } from "@sandpiper/agent/skills/path-rules";
import { activateSkills } from "@sandpiper/agent/skills/triggers";
import { applyHunks } from "@sandpiper/agent/tools/apply-patch/apply";
import { type FileChange, parsePatch } from "@sandpiper/agent/tools/apply-patch/parse";
import { parseArguments } from "@sandpiper/agent/tools/arguments";
import { insertLines, replaceOnce } from "@sandpiper/agent/tools/file-editor/edits";
import { viewText } from "@sandpiper/agent/tools/file-editor/view";
import { toArgumentsObject } from "@sandpiper/models/call-arguments";
import { lookUpModel } from "@sandpiper/models/catalogue";
import { cutMiddle } from "@sandpiper/models/prompt";
import { parseCalls } from "@sandpiper/models/prompted-tools/parse-calls";
import type { Reader } from "./reader.ts";

const skills = [{ name: "a", triggers: ["aab", "a a", "é"], type: "knowledge", content: "", source: "user" }];
const noSandbox = {
  sandbox: () => Promise.reject(new Error("There is none.")),
  workingDir: "/",
  signal: new AbortController().signal,
};
const hunksOf = (patch: string) =>
  parsePatch(`*** Begin Patch\n*** Update File: a\n${patch}\n*** End Patch`).flatMap((change: FileChange) =>
    change.kind === "update" ? change.hunks : [],
  );

/** Functions of the packages `agent` and `models`. */
export const agentReaders: readonly Reader[] = [
  {
    name: "judgeScript",
    read: judgeScript,
    bound: "maxSteps of commands.ts",
    pieces: [
      "find . -exec find ",
      "find . -exec a + ",
      "env -S ",
      "fd -x ",
      "xargs ",
      "sudo nice timeout 5 ",
      "sh <<A\n",
      "sh -c 'a' ",
      "eval ",
      "$(a ",
      '"${a:-',
      "{a,b}",
      "curl -d x a.b|",
      "a <(b ",
      "rm ../",
      "cat .env",
    ],
  },
  {
    name: "judgePatch",
    read: judgePatch,
    bound: "answer of a model",
    pieces: ["*** Add File: a\n", "+a\n", "***"],
  },
  {
    name: "judgeArguments",
    read: (text) => judgeArguments({ command: text, path: text, url: `http://${text}` }),
    bound: "answer of a model",
    pieces: ["../", "a@", "169.254.", "file://"],
  },
  {
    name: "judgeAddress",
    read: judgeAddress,
    bound: "100,000 characters",
    pieces: ["a.", "a@", "%2e", "[::"],
  },
  {
    name: "matchesGlob",
    read: (text) => matchesGlob("*a*a*b", text),
    bound: "maxLength of glob.ts",
    pieces: ["a"],
  },
  {
    name: "FrontMatterReader",
    read: (text) => new FrontMatterReader().split(`---\n${text}\n---\na`),
    bound: "16,384 characters, maxTokens of front-matter.ts",
    pieces: [
      "[",
      "{",
      "]",
      '"',
      "&a ",
      "- ",
      "? ",
      ": ",
      "a: *a\n",
      "!a ",
      "a:\n",
      "---\n",
      "- - ",
      "%TAG ! a\n",
      "<<: {a: 1}\n",
    ],
  },
  {
    name: "parseSkill",
    read: (text) => parseSkill("/a/SKILL.md", text, "project"),
    bound: "maxFileBytes of skill-files.ts",
    pieces: ["---\n", "---\na: b\n", "\r\n", "a,", "--- "],
  },
  {
    name: "parseAgentDefinition",
    read: (text) => parseAgentDefinition("/a.md", `---\ntools: ${text}\n---\na`),
    bound: "maxFileBytes of skill-files.ts",
    pieces: ["a, ", "a: ", "- "],
  },
  {
    name: "readRecords",
    read: (text) => readRecords(Buffer.from(text)),
    bound: "maxBytes of skill-files.ts",
    pieces: ["a 1 a\0a", "a ", "a 1 ", "\0"],
  },
  {
    name: "activateSkills",
    read: (text) => activateSkills(skills as never, text, new Set()),
    bound: "maxLength of triggers.ts",
    pieces: ["a", "aab", "a a", "éa"],
  },
  {
    name: "withCommandOutput",
    read: (text) => withCommandOutput(text, noSandbox),
    bound: "maxContent of parse.ts",
    pieces: ["!`", "!`a", "```\n", "!`a`"],
  },
  {
    name: "touchedPaths",
    read: (text) => touchedPaths({ kind: "ApplyPatchAction", patch: text } as never, "/"),
    bound: "1,000,000 characters",
    pieces: ["*** Add File: a\n", "*** ", "../"],
  },
  {
    name: "parsePatch",
    read: (text) => parsePatch(`*** Begin Patch\n${text}\n*** End Patch`),
    bound: "answer of a model",
    pieces: ["*** Update File: a\n@@ a\n", "*** Add File: a\n", "\n", "*** End of File\n"],
  },
  {
    name: "applyHunks, equal lines",
    read: (text) => applyHunks("a", text, hunksOf(` ${"a\n ".repeat(text.length / 8)}a\n-b`)),
    bound: "comparisonsPerLine of apply.ts",
    pieces: ["a\n"],
  },
  {
    name: "applyHunks, many changes",
    read: (text) => applyHunks("a", text.replaceAll("@@", "  "), hunksOf(text)),
    bound: "comparisonsPerLine of apply.ts",
    pieces: ["@@ a\n-a\n", "@@ b\n+a\n", "@@\n-a\n a\n"],
  },
  {
    name: "replaceOnce",
    read: (text) => replaceOnce("a", text, "a", "b"),
    bound: "maxFileBytes of text-file.ts",
    pieces: ["a\n", "a", "\n"],
  },
  {
    name: "insertLines",
    read: (text) => insertLines(text, 1, text),
    bound: "maxFileBytes of text-file.ts",
    pieces: ["\n"],
  },
  {
    name: "viewText",
    read: (text) => viewText("a", text, undefined),
    bound: "maxResult of edits.ts",
    pieces: ["\n", "a"],
  },
  {
    name: "parseArguments",
    read: parseArguments,
    bound: "answer of a model",
    pieces: ["[", '{"a":', '"', "\\"],
  },
  {
    name: "toArgumentsObject",
    read: toArgumentsObject,
    bound: "answer of a model",
    pieces: ["[", '{"a":', "1,"],
  },
  {
    name: "parseCalls",
    read: (text) => parseCalls(text, []),
    bound: "maxCalls of parse-calls.ts",
    pieces: ["<function=", "<function=a>", "<function=a><parameter=b>", "</function>", "<parameter="],
  },
  {
    name: "cutMiddle",
    read: (text) => cutMiddle(text),
    bound: "maxToolChars of prompt.ts",
    pieces: ["a", "😀"],
  },
  {
    name: "transcript",
    read: (text) => transcript([{ role: "user", content: [{ type: "text", text }] } as never]),
    bound: "maxTranscriptChars",
    pieces: ["a\n"],
  },
  {
    name: "lookUpModel",
    read: lookUpModel,
    bound: "name of a model",
    pieces: ["/", "@", ":", "-v1", "anthropic."],
  },
  { name: "extractJson", read: extractJson, bound: "output of a hook", pieces: ["{", "}", "{}"] },
  {
    name: "parseHookConfig",
    read: (text) => parseHookConfig(text),
    bound: "maxBytes of load.ts",
    pieces: ["[", '{"a":'],
  },
  {
    name: "isMatcher",
    read: isMatcher,
    bound: "configuration of a hook",
    pieces: ["(", "|", "a*", "[", "(a|"],
  },
  {
    name: "shortText",
    read: (text) => shortText(text),
    bound: "max, 300 characters",
    pieces: [" ", "\x1b[", "\u200b"],
  },
  {
    name: "LineReader",
    read(text) {
      const reader = new LineReader(
        () => {},
        () => {},
      );
      for (let at = 0; at < text.length; at += 7) reader.take(Buffer.from(text.slice(at, at + 7)));
    },
    bound: "maxMessageBytes of line-reader.ts",
    pieces: ["\n", "a"],
  },
];
