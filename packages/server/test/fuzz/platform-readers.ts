import { globMatcher } from "@sandpiper/core/glob";
import { SecretMask } from "@sandpiper/core/secrets/mask";
import { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { SecretStream } from "@sandpiper/core/secrets/secret-stream";
import { parseShell } from "@sandpiper/core/shell-syntax";
import { shortenReason } from "@sandpiper/sandbox/drivers/common/images/problems";
import { parseAuthority, parseProxyUrl } from "@sandpiper/sandbox/network/proxy/target";
import { TerminalCleaner } from "@sandpiper/sandbox/shell/terminal/cleaner";
import { MarkerScanner } from "@sandpiper/sandbox/shell/terminal/markers";
import { parseImageReference } from "@sandpiper/sandbox/specs/image-reference";
import type { ActionEvent, Event } from "@sandpiper/wire";
import { PasteReader } from "../../src/cli/chat/paste.ts";
import { describeCall } from "../../src/cli/describe-call.ts";
import { withoutCredentials } from "../../src/cli/git-credentials.ts";
import { inertJson } from "../../src/cli/inert.ts";
import { renderMarkdown } from "../../src/cli/markdown.ts";
import { isOfGit } from "../../src/cli/patch-paths.ts";
import { printEvent } from "../../src/cli/print-event.ts";
import { StreamedText } from "../../src/cli/streamed-text.ts";
import { readConfig } from "../../src/config/read-config.ts";
import { parseTitle } from "../../src/conversations/run/titles.ts";
import { parseNextLink } from "../../src/git/pages.ts";
import { parseSessionTokens } from "../../src/http/preview/cookies.ts";
import { parseJson } from "../../src/http/server/json.ts";
import { decodePath } from "../../src/http/server/urls.ts";
import { fitFrame } from "../../src/http/sockets/shorten.ts";
import { createNormaliser } from "../../src/recording/normalise.ts";
import type { Reader } from "./reader.ts";

const secrets = (text: string) => {
  const lines = Array.from({ length: 50 }, (_, index) => `${"a".repeat(30)}${index}`);
  return [lines.join("\n"), ...lines.map((line, index) => line.repeat(index + 1)), "ab".repeat(500), text];
};
const matcher = new SecretMatcher(secrets(""));

/** Functions of the packages `core`, `sandbox` and `server`. */
export const platformReaders: readonly Reader[] = [
  {
    name: "parseShell",
    read: parseShell,
    bound: "maxScriptChars of shell-syntax.ts",
    pieces: [
      "cat <<A ",
      "<<A \\\n",
      "$(",
      '"$(a ',
      "a `",
      "${a:-",
      "((",
      "a=(",
      "{a,",
      "case a in ",
      "'",
      "[[ a ",
    ],
  },
  {
    name: "SecretMatcher of the text",
    read: (text) => new SecretMatcher([text]),
    bound: "maxTotalLength of secrets.ts",
    pieces: ["a\n", `${"a".repeat(30)}\n`, "\\", "é", "%25"],
  },
  {
    name: "SecretMatcher.ranges",
    read: (text) => matcher.ranges(text),
    bound: "output of a tool",
    pieces: [
      "ab",
      "&amp;",
      "&#",
      "\\\\",
      "\\u",
      "%25",
      "\x1b[",
      "\x1b[1",
      "a\n",
      "&aaaaaaaaaaaaa",
      "61",
      "YWFh",
    ],
  },
  {
    name: "SecretStream",
    read(text) {
      const stream = new SecretStream(matcher, "#");
      for (let at = 0; at < text.length; at += 50) stream.write(text.slice(at, at + 50));
      return stream.end();
    },
    bound: "output of a tool",
    pieces: ["a", "ab", "\\", "&amp;", "\x1b[1", " "],
  },
  {
    name: "SecretMask, one more secret and its matcher",
    read(text) {
      const mask = new SecretMask();
      for (const [index, value] of secrets(text).entries()) {
        mask.registerSecret(`${value}${index}`, "user");
        mask.matcher("user").ranges("a small output");
      }
      return mask.mask(text);
    },
    bound: "maxTotalLength of secrets.ts",
    pieces: ["a", "a\n", `${"a".repeat(30)}\n`],
  },
  {
    name: "globMatcher, pattern",
    read: (text) => globMatcher(text, { extended: true })("a/b/c"),
    bound: "maxLength of glob.ts",
    pieces: ["*", "**/", "{a,", "{a,b}", "[a-", "[", "?"],
  },
  {
    name: "globMatcher, path",
    read: (text) => globMatcher("**/*a*b*/**/c", { extended: true })(text),
    bound: "maxLength of glob.ts",
    pieces: ["a", "a/", "ab/", "/"],
  },
  {
    name: "TerminalCleaner",
    read(text) {
      const cleaner = new TerminalCleaner();
      for (let at = 0; at < text.length; at += 500) cleaner.push(Buffer.from(text.slice(at, at + 500)));
      return cleaner.flush();
    },
    bound: "maxLineChars of cleaner.ts",
    pieces: ["\x1b[", "\x1b]", "\x1b]a", "\b", "a\b", "\r", "\x1b[1", "\x1b ", "\r\n"],
  },
  {
    name: "MarkerScanner",
    read(text) {
      const scanner = new MarkerScanner("nonce");
      for (let at = 0; at < text.length; at += 500) scanner.push(Buffer.from(text.slice(at, at + 500)));
      return scanner.flush();
    },
    bound: "maxMarkerBytes of markers.ts",
    pieces: ["nonce", "nonce:E1:1:1:1:", "nonce:S1:", "n", "nonce:P1:", ":nonce;"],
  },
  { name: "shortenReason", read: shortenReason, bound: "error of an engine", pieces: [": ", ".", "?a", " "] },
  { name: "parseAuthority", read: parseAuthority, bound: "16 KB of headers", pieces: ["a.", ":", "[", "1."] },
  {
    name: "parseProxyUrl",
    read: parseProxyUrl,
    bound: "16 KB of headers",
    pieces: ["http://", "a.", "%41", "/.."],
  },
  {
    name: "parseImageReference",
    read: parseImageReference,
    bound: "a setting",
    pieces: ["a/", "a.", "a:", "@sha256:", "a_", "-"],
  },
  { name: "inertJson", read: (text) => inertJson(text), bound: "event", pieces: ["\x1b[", "\u202e", "a"] },
  {
    name: "renderMarkdown",
    read: (text) => renderMarkdown(text, { paint: (_style, shown) => shown }),
    bound: "maxLength of markdown.ts",
    pieces: [
      "[",
      "](",
      "*",
      "**a",
      "`",
      "> ",
      "- ",
      "|a",
      "![",
      "<a ",
      "#",
      "\\",
      "_a_",
      "~~",
      "&",
      "a\n===\n",
      "1. ",
    ],
  },
  {
    name: "StreamedText, character by character",
    read(text) {
      const shown = new StreamedText({
        ...{ print: () => {}, elapsed: () => 0, columns: () => 80, paint: (_style, line) => line },
      });
      for (const content of text) shown.take({ kind: "StreamingDeltaEvent", content } as Event);
    },
    bound: "maxPending of text-blocks.ts",
    pieces: ["```\n", "~~~\n\n", "    a\n\n", "> ", "- a\n", "|a"],
    around: ["```\n", ""],
  },
  {
    name: "describeCall",
    read: (text) => {
      const action = { kind: "MCPToolAction", data: { text } };
      return describeCall({ tool_name: text, action } as unknown as ActionEvent, 40);
    },
    bound: "arguments of a call",
    pieces: ["漢", "\x1b[", "e\u0301", "\t"],
  },
  {
    name: "describeCall, nested arguments",
    read: (text) => {
      let deep: unknown = text;
      for (let level = 0; level < text.length / 10; level++) deep = [deep];
      const action = { kind: "MCPToolAction", data: { deep } };
      return describeCall({ tool_name: "mcp", action } as unknown as ActionEvent, 40);
    },
    bound: "arguments of a call",
    pieces: ["a"],
  },
  {
    name: "printEvent",
    read: (text) => {
      const llm_message = { role: "user", content: [{ type: "text", text }] };
      return printEvent({ kind: "MessageEvent", source: text, llm_message } as unknown as Event, {
        elapsed: 0,
        columns: 40,
      });
    },
    bound: "event",
    pieces: ["漢", "a b ", "\x1b[", "\t", "\r"],
  },
  {
    name: "PasteReader, character by character",
    read(text) {
      const reader = new PasteReader();
      for (const character of text) reader.take(character);
      return reader.take("\x1b[201~");
    },
    bound: "maxPaste of chat/paste.ts",
    pieces: ["\x1b", "\x1b[20", "\x1b[200~", "\x1b[201~", "\r", "\x1b[200~\x1b[201~\r"],
    around: ["\x1b[200~", ""],
  },
  {
    name: "withoutCredentials",
    read: withoutCredentials,
    bound: "maxFileBytes of git-credentials.ts",
    pieces: ["http://", "http://a@", "a=\\\n", "[a]", "token=", "]="],
  },
  { name: "isOfGit", read: isOfGit, bound: "part of a path", pieces: [".", " ", ":", "~1", "\u200c"] },
  {
    name: "readConfig, names of variables",
    read: (text) => readConfig({ [`SANDPIPER_${text.toUpperCase()}`]: "1", SANDPIPER_DATA: "/tmp" }),
    bound: "the operator's environment",
    pieces: ["A"],
  },
  {
    name: "parseTitle",
    read: (text) => parseTitle(text),
    bound: "answer of a model",
    pieces: ['"', "`", " ", "*"],
  },
  {
    name: "parseNextLink",
    read: (text) => parseNextLink(new Headers({ link: text })),
    bound: "headers of an answer",
    pieces: ["<", "<?page=1", "&page=1", '>; rel="', "<?page=1>; "],
  },
  {
    name: "parseSessionTokens",
    read: parseSessionTokens,
    bound: "16 KB of headers",
    pieces: [";", "a=b;", "=", '"'],
  },
  {
    name: "parseJson",
    read: parseJson,
    bound: "maxJsonValues of json.ts",
    pieces: ['"\\', "[", "\\", '{"a":', '",'],
  },
  { name: "decodePath", read: decodePath, bound: "16 KB of headers", pieces: ["%", "%41", "/../", "//"] },
  {
    name: "fitFrame",
    read: (text) => fitFrame(JSON.stringify({ text })),
    bound: "maxFrameBytes",
    pieces: ["a", "\\", "😀"],
  },
  {
    name: "createNormaliser",
    read: createNormaliser({ abc: "x" }),
    bound: "maxLength of normalise.ts",
    pieces: [
      "1",
      "a1",
      "12:",
      "2026-01-01T",
      "Jan 1 ",
      "/tmp/a",
      "1.",
      "1m",
      "Mon, ",
      "[1] ",
      "[Python interpreter: ",
      "a-",
    ],
  },
];
