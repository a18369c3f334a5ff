/**
 * The top-level commands of a shell text that stand on lines of their own: `a; b` and `a && b` are one, `a` and `b` on two lines are two.
 * Quotes, heredocs, substitutions, compound commands and functions belong together. A text whose structure stays open counts as one command:
 * the shell is the one to complain about it.
 */
export function topLevelCommands(text: string): string[] {
  const commands = new Splitter(text).commands();
  return commands && commands.length > 1 ? commands : [text.trim()];
}

const closers: Record<string, string> = {
  if: "fi",
  case: "esac",
  for: "done",
  while: "done",
  until: "done",
  select: "done",
  "{": "}",
  "[[": "]]",
};
/** Words after which a command begins. */
const openers = new Set(["if", "while", "until", "then", "else", "elif", "do", "{", "!", "time"]);
const operators = ["&&", "||", "|&", ";;&", ";;", ";&", ";", "|", "&"];

class Splitter {
  readonly #text: string;
  #at = 0;
  /** What closes the compound commands that are open. */
  readonly #open: string[] = [];
  readonly #heredocs: { word: string; tabs: boolean }[] = [];
  #commandPosition = true;
  /** A line break does not end the command here. */
  #goesOn = false;

  constructor(text: string) {
    this.#text = text.replaceAll("\r\n", "\n");
  }

  /** Undefined when something stays open. */
  commands(): string[] | undefined {
    const commands: string[] = [];
    let start = 0;
    let empty = true;
    const finish = () => {
      if (!empty) commands.push(this.#text.slice(start, this.#at).trim());
      start = this.#at;
      empty = true;
    };
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at]!;
      if (char === "\n") {
        this.#at += 1;
        if (!this.#skipHeredocs()) return undefined;
        if (this.#open.length === 0 && !this.#goesOn) finish();
        this.#commandPosition = true;
      } else if (char === " " || char === "\t") this.#at += 1;
      else if (this.#text.startsWith("\\\n", this.#at)) this.#at += 2;
      else if (char === "#") this.#at = this.#lineEnd();
      else {
        empty = false;
        if (!this.#token(char)) return undefined;
      }
    }
    if (this.#open.length > 0 || this.#heredocs.length > 0) return undefined;
    finish();
    return commands;
  }

  #token(char: string): boolean {
    const operator = operators.find((candidate) => this.#text.startsWith(candidate, this.#at));
    if (operator) {
      this.#at += operator.length;
      this.#commandPosition = true;
      this.#goesOn = operator === "&&" || operator === "||" || operator.startsWith("|");
      return true;
    }
    this.#goesOn = false;
    if (char === "(") {
      this.#at += 1;
      const empty = /^[ \t]*\)/.exec(this.#text.slice(this.#at, this.#at + 20));
      if (empty && !this.#commandPosition) {
        // A function's head: its body may stand on the next line.
        this.#at += empty[0].length;
        this.#commandPosition = true;
        this.#goesOn = true;
        return true;
      }
      this.#open.push(")");
      this.#commandPosition = true;
      return true;
    }
    if (char === ")") {
      this.#at += 1;
      const top = this.#open.at(-1);
      if (top === ")") this.#open.pop();
      else if (top !== "esac") return false;
      this.#commandPosition = top === "esac";
      return true;
    }
    if (char === "<" || char === ">") return this.#redirection();
    return this.#word();
  }

  #redirection(): boolean {
    const heredoc = /^<<(-?)[ \t]*(?!<)/.exec(this.#text.slice(this.#at, this.#at + 50));
    if (!heredoc || this.#text.startsWith("<<<", this.#at)) {
      const process = /^[<>]\(/.test(this.#text.slice(this.#at, this.#at + 2));
      if (!process) {
        this.#at += /^(<<<|<>|>>|>\||[<>]&|[<>])/.exec(this.#text.slice(this.#at, this.#at + 3))?.[0].length ?? 1;
        return true;
      }
      const end = skipParentheses(this.#text, this.#at + 1);
      this.#at = end ?? this.#at;
      return end !== undefined;
    }
    this.#at += heredoc[0].length;
    const start = this.#at;
    const end = skipWord(this.#text, start);
    if (end === undefined || end === start) return false;
    this.#heredocs.push({ word: this.#text.slice(start, end).replace(/["'\\]/g, ""), tabs: heredoc[1] === "-" });
    this.#at = end;
    return true;
  }

  #word(): boolean {
    const end = skipWord(this.#text, this.#at);
    if (end === undefined) return false;
    const word = this.#text.slice(this.#at, end);
    this.#at = Math.max(end, this.#at + 1);
    const top = this.#open.at(-1);
    if (word === top && (this.#commandPosition || word === "]]")) {
      this.#open.pop();
      this.#commandPosition = false;
    } else if (!this.#commandPosition) {
      // Only `function name` goes on with a command after its second word.
    } else if (word === "function") {
      const name = /^[ \t]+[^\s(){}]+/.exec(this.#text.slice(this.#at));
      this.#at += name?.[0].length ?? 0;
      this.#goesOn = true;
    } else {
      const closer = Object.hasOwn(closers, word) ? closers[word] : undefined;
      if (closer) this.#open.push(closer);
      this.#commandPosition = openers.has(word) || /^[A-Za-z_]\w*\+?=/.test(word);
    }
    return true;
  }

  /** Steps over the heredocs that begin after this line. */
  #skipHeredocs(): boolean {
    for (const { word, tabs } of this.#heredocs.splice(0)) {
      for (;;) {
        if (this.#at >= this.#text.length) return false;
        const end = this.#lineEnd();
        const line = this.#text.slice(this.#at, end);
        this.#at = Math.min(end + 1, this.#text.length);
        if ((tabs ? line.replace(/^\t+/, "") : line) === word) break;
      }
    }
    return true;
  }

  #lineEnd(): number {
    const end = this.#text.indexOf("\n", this.#at);
    return end < 0 ? this.#text.length : end;
  }
}

/** Index after the word that begins at `at`; undefined when a quote or substitution in it stays open. */
function skipWord(text: string, at: number): number | undefined {
  let index: number | undefined = at;
  while (index !== undefined && index < text.length && !/[\s;&|()<>]/.test(text[index]!)) index = skipPiece(text, index);
  return index;
}

/** Steps over one character, or over the quoted text or substitution that begins with it. */
function skipPiece(text: string, at: number): number | undefined {
  const char = text[at]!;
  if (char === "\\") return at + 2;
  if (char === "'") return after(text.indexOf("'", at + 1));
  if (char === '"') return skipDelimited(text, at + 1, '"');
  if (char === "`") return skipDelimited(text, at + 1, "`");
  if (char !== "$") return at + 1;
  if (text[at + 1] === "(") return skipParentheses(text, at + 1);
  if (text[at + 1] === "{") return skipDelimited(text, at + 2, "}");
  if (text[at + 1] !== "'") return at + 1;
  for (let index = at + 2; index < text.length; index++) {
    if (text[index] === "\\") index += 1;
    else if (text[index] === "'") return index + 1;
  }
  return undefined;
}

function skipDelimited(text: string, at: number, end: string): number | undefined {
  let index: number | undefined = at;
  while (index !== undefined && index < text.length) {
    if (text[index] === end) return index + 1;
    const plain: boolean = end === '"' && text[index] === "'";
    index = plain ? index + 1 : skipPiece(text, index);
  }
  return undefined;
}

function skipParentheses(text: string, at: number): number | undefined {
  let depth = 0;
  let index: number | undefined = at;
  while (index !== undefined && index < text.length) {
    if (text[index] === "(") depth += 1;
    if (text[index] === ")" && --depth === 0) return index + 1;
    index = skipPiece(text, index);
  }
  return undefined;
}

function after(index: number): number | undefined {
  return index < 0 ? undefined : index + 1;
}
