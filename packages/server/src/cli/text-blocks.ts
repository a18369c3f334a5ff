/** A part of a Markdown text that can be shown before the rest arrives. */
export interface TextBlock {
  text: string;
  /** The line that opens the code that the text continues; usually empty. */
  opening: string;
}

/** A block that is longer is handed out before its end, characters. */
const maxPending = 20_000;

/**
 * Splits a Markdown text that arrives in pieces at empty lines outside of code. Reads each
 * character once.
 */
export class TextBlocks {
  /** The line that is arriving. */
  #line = "";
  /** Complete lines of the current block. */
  #block = "";
  #isBlank = true;
  /** The line that opened the current code. */
  #fence = "";
  /** The same when the current block began. */
  #opening = "";

  /** The beginning of the line that is still arriving. */
  get line(): string {
    return this.#line;
  }

  /** The line that opens the code in which the current block begins; usually empty. */
  get opening(): string {
    return this.#opening;
  }

  /** Takes a piece; returns the blocks that are complete now. */
  push(piece: string): TextBlock[] {
    const done: TextBlock[] = [];
    let from = 0;
    for (let end = piece.indexOf("\n"); end >= 0; end = piece.indexOf("\n", from)) {
      this.#line += piece.slice(from, end);
      from = end + 1;
      const ends = this.#endLine();
      if (ends || this.#block.length > maxPending) done.push(this.#takeBlock());
    }
    this.#line += piece.slice(from);
    if (this.#line.length > maxPending) {
      this.#block += this.#line;
      this.#line = "";
      this.#isBlank = false;
      done.push(this.#takeBlock());
    }
    return done;
  }

  /** Adds the line to the block; returns whether the block ends with it. */
  #endLine(): boolean {
    const line = this.#line;
    this.#line = "";
    this.#block += `${line}\n`;
    const isEmpty = line.trim() === "";
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line.slice(0, 100))?.[1];
    if (this.#fence === "" && mark) this.#fence = `${line}\n`;
    else if (mark && isEndOfCode(line, mark, this.#fence)) this.#fence = "";
    const ends = isEmpty && this.#fence === "" && !this.#isBlank;
    this.#isBlank &&= isEmpty;
    return ends;
  }

  #takeBlock(): TextBlock {
    const block = { text: this.#block, opening: this.#opening };
    this.#block = "";
    this.#isBlank = true;
    this.#opening = this.#fence;
    return block;
  }
}

/** Code ends with a mark of the same kind that is at least as long, alone on its line. */
function isEndOfCode(line: string, mark: string, fence: string): boolean {
  const [, opening = ""] = /^ {0,3}(`+|~+)/.exec(fence) ?? [];
  return line.trim() === mark && opening.startsWith(mark[0]!) && opening.length <= mark.length;
}
