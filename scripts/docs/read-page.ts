import { readFileSync } from "node:fs";

/** A code block of a page, with what the comments before it say. CONTRIBUTING.md describes them. */
export interface Block {
  /** Line of the page with the first line of the block. */
  line: number;
  language: string;
  text: string;
  /** Commands that run before the block and are not shown. */
  prepare: { line: number; text: string }[];
  /** Why the block is not executed. */
  notExecuted?: string;
  /** File that gets the block, as a word of bash; the block is not executed then. */
  file?: string;
  /** Expected exit code. */
  exit: number;
  expected?: { line: number; language: string; text: string };
}

export interface Page {
  path: string;
  blocks: Block[];
  /** Variables of the page's server; undefined without a server. */
  server: Record<string, string> | undefined;
  /** Packages of the page's Python; undefined when the page runs none. */
  python: string[] | undefined;
}

/** A page that cannot be executed, or a block that failed. */
export class PageError extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

export const executed = ["sh", "python", "ts", "js"];
const directives = ["not executed", "prepare", "file", "exit", "server", "python"];

/** Reads a page. Throws `PageError` for unknown comments and for blocks that it cannot execute. */
export function readPage(path: string, text = readFileSync(path, "utf8")): Page {
  const page: Page = { path, blocks: [], server: {}, python: undefined };
  const lines = text.split("\n");
  let pending: Directive[] = [];
  /** The block that an output may follow: only blank lines are between. */
  let open: Block | undefined;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    const [, indent = "", fence, language = ""] = /^( *)(`{3,})([\w-]*) *$/.exec(line) ?? [];
    if (fence !== undefined) {
      const end = lines.findIndex((other, index) => index > at && other.trim() === fence);
      if (end < 0) throw new PageError(at + 1, "the block has no end.");
      const body = lines.slice(at + 1, end).map((part) => part.slice(indent.length));
      const content = { line: at + 2, language, text: body.join("\n") };
      if (open && pending.length === 0 && (language === "text" || language === "json")) {
        open.expected = content;
        open = undefined;
      } else {
        open = makeBlock(content, pending);
        page.blocks.push(open);
        pending = [];
      }
      at = end;
    } else if (line.startsWith("<!--")) {
      const end = lines.findIndex((other, index) => index >= at && other.includes("-->"));
      if (end < 0) throw new PageError(at + 1, "the comment has no end.");
      const directive = parseDirective(at + 1, lines.slice(at, end + 1).join("\n"));
      if (directive.name === "server") page.server = parseServer(directive);
      else if (directive.name === "python") page.python = directive.value.split(/\s+/).filter(Boolean);
      else pending.push(directive);
      at = end;
    } else if (line.trim() !== "") {
      if (pending[0]) throw new PageError(pending[0].line, "no block follows this comment.");
      open = undefined;
    }
  }
  if (pending[0]) throw new PageError(pending[0].line, "no block follows this comment.");
  return page;
}

interface Directive {
  line: number;
  name: string;
  value: string;
}

function parseDirective(line: number, comment: string): Directive {
  const inner = comment.slice("<!--".length, comment.indexOf("-->")).trim();
  const colon = inner.indexOf(":");
  const name = inner.slice(0, colon);
  const value = inner.slice(colon + 1).trim();
  if (!directives.includes(name))
    throw new PageError(line, `the comment is none of ${directives.join(", ")}: ${inner.split("\n")[0]}`);
  if (value === "") throw new PageError(line, `nothing follows "${name}:".`);
  return { line, name, value };
}

function makeBlock(content: Pick<Block, "line" | "language" | "text">, comments: Directive[]): Block {
  const block: Block = { ...content, prepare: [], exit: 0 };
  for (const { line, name, value } of comments) {
    if (name === "prepare") block.prepare.push({ line, text: value });
    else if (name === "not executed") block.notExecuted = value;
    else if (name === "file") block.file = value;
    else {
      block.exit = Number(value);
      if (!Number.isInteger(block.exit)) throw new PageError(line, `"${value}" is no exit code.`);
    }
  }
  const { language, notExecuted, file } = block;
  if (notExecuted === undefined && file === undefined && !executed.includes(language))
    throw new PageError(
      block.line,
      `a block in "${language}" is not executed: say why ("not executed: …"), or which file gets it ("file: …").`,
    );
  return block;
}

function parseServer({ line, value }: Directive): Record<string, string> | undefined {
  if (value === "none") return undefined;
  return Object.fromEntries(
    value.split(/\s+/).map((word) => {
      const [, name, content] = /^(SANDPIPER_\w+)=(.*)$/.exec(word) ?? [];
      if (!name) throw new PageError(line, `"${word}" is no variable of the server.`);
      return [name, content!];
    }),
  );
}
