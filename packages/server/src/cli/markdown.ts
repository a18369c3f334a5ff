import MarkdownIt, { type Token } from "markdown-it";
import { inert } from "./inert.ts";
import { wrap } from "./lines.ts";
import { formatCells } from "./markdown-table.ts";
import type { Paint } from "./style.ts";

/** A longer text is shown as it is, characters. */
const maxLength = 100_000;

/** Levels of lists and quotes; a text with more is shown as it is. */
const maxNesting = 40;

export interface MarkdownOptions {
  paint: Paint;
  /** Columns of the terminal. */
  columns?: number;
}

/**
 * Formats untrusted Markdown for a terminal, as lines: headings, lists, quotes, code, tables,
 * emphasis. Links show their address, and HTML stays as it is.
 */
export function renderMarkdown(text: string, { paint, columns = 100 }: MarkdownOptions): string[] {
  const clean = inert(text).trimEnd();
  if (clean.length > maxLength) return clean.split("\n");
  const tokens = new MarkdownIt({ html: false, linkify: false }).set({ maxNesting }).parse(clean, {});
  // The parser drops what is nested more deeply.
  if (tokens.some(({ level }) => level >= maxNesting - 1)) return clean.split("\n");
  const lines = new Lines(paint, Math.max(columns - 1, 20));
  for (const token of tokens) lines.add(token);
  // A text may have nothing but definitions of links.
  return lines.all.length > 0 || clean === "" ? lines.all : clean.split("\n");
}

/** A style and its text; the text may have line breaks. */
interface Piece {
  text: string;
  style?: Parameters<Paint>[0];
}

/** Builds lines from the flat list of a document's blocks. */
class Lines {
  readonly all: string[] = [];
  readonly #paint: Paint;
  readonly #width: number;
  /** What begins each line: marks of quotes, and space below the mark of a list's item. */
  readonly #prefixes: string[] = [];
  /** Numbers of open ordered lists; undefined for other lists. */
  readonly #lists: (number | undefined)[] = [];
  /** The mark of an item whose first line is still to come. */
  #mark = "";
  #heading = false;
  /** The last line is empty, or there is none. */
  #separated = true;
  #row: string[] | undefined;
  #rows: string[][] = [];

  constructor(paint: Paint, width: number) {
    this.#paint = paint;
    this.#width = width;
  }

  add(token: Token): void {
    const { type, content } = token;
    if (token.nesting === 1) this.#open(token);
    else if (token.nesting === -1) this.#close(token);
    else if (type === "inline") this.#inline(token.children ?? []);
    else if (type === "hr") this.#block([this.#paint("dim", "─".repeat(Math.min(this.#width, 40)))]);
    else
      this.#block(
        inert(content)
          .replace(/\n$/, "")
          .split("\n")
          .map((line) => `    ${this.#paint("cyan", line)}`),
      );
  }

  #open(token: Token): void {
    const { type, hidden } = token;
    if (!hidden && /^(paragraph|heading|table|bullet_list|ordered_list|blockquote)_open$/.test(type))
      this.#separate();
    if (type === "bullet_list_open") this.#lists.push(undefined);
    else if (type === "ordered_list_open") this.#lists.push(Number(token.attrGet("start") ?? 1));
    else if (type === "list_item_open") {
      const number = this.#lists.at(-1);
      this.#mark += number === undefined ? "• " : `${number}. `;
      this.#prefixes.push(" ".repeat(number === undefined ? 2 : `${number}. `.length));
      if (number !== undefined) this.#lists[this.#lists.length - 1] = number + 1;
    } else if (type === "blockquote_open") this.#prefixes.push(`${this.#paint("dim", "│")} `);
    else if (type === "heading_open") this.#heading = true;
    else if (type === "table_open") this.#rows = [];
    else if (type === "tr_open") this.#row = [];
  }

  #close({ type }: Token): void {
    if (/_list_close$/.test(type)) this.#lists.pop();
    else if (type === "list_item_close" || type === "blockquote_close") {
      this.#prefixes.pop();
      this.#mark = "";
    } else if (type === "heading_close") this.#heading = false;
    else if (type === "tr_close") {
      this.#rows.push(this.#row ?? []);
      this.#row = undefined;
    } else if (type === "table_close") this.#table();
  }

  #inline(tokens: readonly Token[]): void {
    const pieces = toPieces(tokens, this.#heading ? "bold" : undefined);
    if (this.#row) this.#row.push(pieces.map(({ text }) => text).join(""));
    else this.#push(wrapPieces(pieces, Math.max(this.#width - this.#taken(), 20), this.#paint));
  }

  #table(): void {
    const room = Math.max(this.#width - this.#taken(), 20);
    const [head = [], ...rows] = formatCells(this.#rows, room);
    this.#push([...head.map((line) => this.#paint("bold", line)), ...rows.flat()]);
  }

  #block(lines: string[]): void {
    this.#separate();
    this.#push(lines);
  }

  /** An empty line between blocks, but not after the mark of an item. */
  #separate(): void {
    const nested = this.#lists.length > 0;
    if (this.#separated || this.#mark !== "" || nested) return;
    this.all.push(this.#prefixes.join("").trimEnd());
    this.#separated = true;
  }

  #push(lines: readonly string[]): void {
    for (const line of lines) {
      const outer = this.#mark ? this.#prefixes.slice(0, -1) : this.#prefixes;
      this.all.push(`${outer.join("")}${this.#mark}${line}`);
      this.#mark = "";
      this.#separated = false;
    }
  }

  #taken(): number {
    return this.#prefixes.length * 3;
  }
}

/** The texts of a paragraph with their styles; inner styles win. */
function toPieces(tokens: readonly Token[], style: Piece["style"]): Piece[] {
  const open: Piece["style"][] = [style];
  const pieces: Piece[] = [];
  const add = (text: string, own = open.at(-1)) =>
    pieces.push({ text: inert(text), ...(own && { style: own }) });
  let address = "";
  for (const token of tokens) {
    const { type, content } = token;
    if (type === "strong_open") open.push("bold");
    else if (type === "em_open") open.push("italic");
    else if (type === "s_open") open.push("strikethrough");
    else if (type === "link_open") {
      open.push("underline");
      address = inert(String(token.attrGet("href") ?? ""));
    } else if (type === "link_close") {
      open.pop();
      if (pieces.at(-1)?.text !== address) add(` (${address})`, "dim");
    } else if (token.nesting === -1) open.pop();
    else if (type === "code_inline") add(content, "cyan");
    else if (type === "softbreak" || type === "hardbreak") add("\n");
    else if (type === "image") add(`${content} (${token.attrGet("src") ?? ""})`);
    else add(content);
  }
  return pieces;
}

/** Wraps the bare text, then styles what each line contains: styles have no width. */
function wrapPieces(pieces: readonly Piece[], width: number, paint: Paint): string[] {
  const text = pieces.map((piece) => piece.text).join("");
  let current = 0;
  /** Characters of the current piece that are taken. */
  let offset = 0;
  /** Takes `length` characters from the pieces, styled. */
  const take = (length: number): string => {
    let shown = "";
    for (let rest = length; rest > 0 && current < pieces.length; ) {
      const piece = pieces[current]!;
      const part = piece.text.slice(offset, offset + rest);
      shown += piece.style && part ? paint(piece.style, part) : part;
      offset += part.length;
      rest -= part.length;
      if (offset >= piece.text.length) {
        current += 1;
        offset = 0;
      }
    }
    return shown;
  };
  let at = 0;
  return text
    .split("\n")
    .flatMap((line) => wrap(line, width))
    .map((line) => {
      // The space or newline that the break replaced.
      const found = line === "" ? at : text.indexOf(line, at);
      take(Math.max(found - at, 0));
      at = Math.max(found, at) + line.length;
      return take(line.length);
    });
}
