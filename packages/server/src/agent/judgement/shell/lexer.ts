import { expandBraces } from "./braces.ts";
import { ansiText, backtickEnd, expansionEnd, parenEnd } from "./quoting.ts";

/** A word of a shell as it comes out after quotes are taken off. Variables that the script does not set stay as they are written. */
export interface Word {
  text: string;
  /** A part of it was quoted, so it is no keyword and nothing in it is expanded. */
  quoted: boolean;
  /** Scripts whose output is a part of it: `$(…)`, backticks, `<(…)`. */
  nested: string[];
}

export type Token = { type: "word"; word: Word } | { type: "operator"; text: string } | { type: "redirect"; text: string };

/** A here-document that begins after the end of the line. */
export interface HereDocument {
  end: string;
  stripTabs: boolean;
  take(body: string): void;
}

const operators = ["&&", "||", ";;&", ";;", ";&", "|&", "|", ";", "&", "(", ")", "\n"];
const redirects = ["&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">"];

/** Characters that stand for themselves, outside of quotes and in double ones. */
const plain = /[^ \t\r\n;&|()<>'"\\$`]+/y;
const plainInQuotes = /[^"\\$`]+/y;

/** What variables hold that nearly every shell sets. */
const usual: Readonly<Record<string, string>> = { SHELL: "/bin/bash", BASH: "/bin/bash" };

/** Longest value of a variable that is put in its place: `x=$x$x` must not grow without end. */
const maxValue = 1_000;

/** Reads the words and operators of a script, one after the other, in linear time. */
export class Lexer {
  readonly #text: string;
  readonly #variables: Map<string, string>;
  #at = 0;
  #documents: HereDocument[] = [];
  /** Words that an unquoted `{a,b}` or `$IFS` has made of one. */
  readonly #waiting: Word[] = [];

  /** `variables`: what the script has set so far. */
  constructor(text: string, variables: Map<string, string>) {
    this.#text = text;
    this.#variables = variables;
  }

  /** The next token; undefined at the end. */
  next(): Token | undefined {
    const waiting = this.#waiting.shift();
    if (waiting) return { type: "word", word: waiting };
    this.#skipBlanks();
    const text = this.#text;
    const at = this.#at;
    if (at >= text.length) return undefined;
    if (!"0123456789<>&|;()\n".includes(text[at]!)) return { type: "word", word: this.#word() };
    if (this.#starts("<(") || this.#starts(">(")) return { type: "word", word: this.#word() };
    const digits = /^[0-9]{0,3}(?=[<>])/.exec(text.slice(at, at + 4))?.[0].length ?? 0;
    const redirect = redirects.find((one) => text.startsWith(one, at + digits));
    if (redirect) {
      this.#at += digits + redirect.length;
      return { type: "redirect", text: redirect };
    }
    const operator = operators.find((one) => text.startsWith(one, at));
    if (operator) {
      this.#at += operator.length;
      if (operator === "\n") this.#readDocuments();
      return { type: "operator", text: operator };
    }
    return { type: "word", word: this.#word() };
  }

  expect(document: HereDocument): void {
    this.#documents.push(document);
  }

  #starts(prefix: string): boolean {
    return this.#text.startsWith(prefix, this.#at);
  }

  #skipBlanks(): void {
    const text = this.#text;
    for (;;) {
      const char = text[this.#at];
      if (char === " " || char === "\t" || char === "\r") this.#at++;
      else if (char === "\\" && text[this.#at + 1] === "\n") this.#at += 2;
      else if (char === "#") {
        const end = text.indexOf("\n", this.#at);
        this.#at = end < 0 ? text.length : end;
      } else return;
    }
  }

  #readDocuments(): void {
    for (const { end, stripTabs, take } of this.#documents.splice(0)) {
      const lines: string[] = [];
      while (this.#at < this.#text.length) {
        const newline = this.#text.indexOf("\n", this.#at);
        const stop = newline < 0 ? this.#text.length : newline;
        const line = this.#text.slice(this.#at, stop);
        this.#at = stop + 1;
        const bare = stripTabs ? line.replace(/^\t+/, "") : line;
        if (bare === end) break;
        lines.push(bare);
      }
      take(lines.join("\n"));
    }
  }

  #word(): Word {
    const text = this.#text;
    const words: Word[] = [{ text: "", quoted: false, nested: [] }];
    let word = words[0]!;
    const split = () => {
      word = { text: "", quoted: false, nested: [] };
      words.push(word);
    };
    while (this.#at < text.length) {
      plain.lastIndex = this.#at;
      const run = plain.exec(text)?.[0];
      if (run) {
        word.text += run;
        this.#at += run.length;
        continue;
      }
      const char = text[this.#at]!;
      if (" \t\r\n;&|)".includes(char)) break;
      const isArray = char === "(" && word.text.endsWith("=");
      if ((char === "(" && !isArray) || ((char === "<" || char === ">") && text[this.#at + 1] !== "(")) break;
      if (char === "'") this.#single(word);
      else if (char === '"') this.#double(word);
      else if (char === "\\") {
        word.quoted = true;
        if (text[this.#at + 1] !== "\n") word.text += text[this.#at + 1] ?? "";
        this.#at += 2;
      } else if (char === "$" || char === "`") {
        for (const part of this.#expand(word, false)) {
          split();
          word.text += part;
        }
      } else if (isArray) {
        const end = parenEnd(text, this.#at + 1);
        // What an array holds may be run as a command.
        word.nested.push(text.slice(this.#at + 1, end));
        word.text += "()";
        this.#at = end + 1;
      } else if (char === "<" || char === ">") {
        const end = parenEnd(text, this.#at + 2);
        word.nested.push(text.slice(this.#at + 2, end));
        word.text += `${char}()`;
        this.#at = end + 1;
      } else {
        word.text += char;
        this.#at++;
      }
    }
    if (words.length === 1 && !word.text.includes("{")) return word;
    const [first, ...rest] = words.flatMap(expandBraces).filter((one, index) => index === 0 || one.text !== "");
    this.#waiting.push(...rest);
    return first!;
  }

  #single(word: Word): void {
    const end = this.#text.indexOf("'", this.#at + 1);
    const stop = end < 0 ? this.#text.length : end;
    word.text += this.#text.slice(this.#at + 1, stop);
    word.quoted = true;
    this.#at = stop + 1;
  }

  #double(word: Word): void {
    const text = this.#text;
    word.quoted = true;
    this.#at++;
    while (this.#at < text.length && text[this.#at] !== '"') {
      plainInQuotes.lastIndex = this.#at;
      const run = plainInQuotes.exec(text)?.[0];
      if (run) {
        word.text += run;
        this.#at += run.length;
        continue;
      }
      const char = text[this.#at]!;
      const next = text[this.#at + 1];
      if (char === "\\" && next !== undefined && '$`"\\\n'.includes(next)) {
        if (next !== "\n") word.text += next;
        this.#at += 2;
      } else if (char === "$" || char === "`") this.#expand(word, true);
      else {
        word.text += char;
        this.#at++;
      }
    }
    this.#at++;
  }

  /** Reads what begins with `$` or a backtick. Gives what of it begins further words. */
  #expand(word: Word, inQuotes: boolean): string[] {
    const text = this.#text;
    const at = this.#at;
    if (text[at] === "`") {
      const end = backtickEnd(text, at + 1);
      this.#substitute(word, text.slice(at + 1, end).replaceAll("\\`", "`"));
      this.#at = end + 1;
      return [];
    }
    if (text.startsWith("$(", at)) {
      const end = parenEnd(text, at + 2);
      this.#substitute(word, text.slice(at + 2, end));
      this.#at = end + 1;
      return [];
    }
    if (!inQuotes && text.startsWith("$'", at)) {
      const { value, end } = ansiText(text, at + 2);
      word.text += value;
      word.quoted = true;
      this.#at = end;
      return [];
    }
    const { end, nested } = expansionEnd(text, at);
    const written = text.slice(at, end);
    this.#at = end;
    word.nested.push(...nested);
    const name = /^\$\{?([A-Za-z_][A-Za-z0-9_]{0,100})/.exec(written)?.[1] ?? "";
    if (name === "IFS" && !inQuotes) return [""];
    const otherwise = written.length < 200 ? /^\$\{\w+:?[-=]([^$`{}]*)\}$/.exec(written)?.[1] : undefined;
    const isBare = written.length <= name.length + 3 || otherwise !== undefined;
    const value = isBare ? (this.#variables.get(name) ?? usual[name] ?? otherwise) : undefined;
    const known = value !== undefined && value.length <= maxValue ? value : written;
    const [first = "", ...rest] = inQuotes || known === written ? [known] : known.split(/[ \t\n]+/);
    word.text += first;
    return rest;
  }

  /** A script that only says something is what it says. */
  #substitute(word: Word, script: string): void {
    const says = /^\s*(?:echo|printf)\s+(?:-[neE]{1,3}\s+)?(?:'([^'\\%]{1,200})'|"([^"'$`\\%]{1,200})"|([\w./~-]{1,200}))\s*$/;
    const found = says.exec(script.slice(0, 300));
    const said = found?.slice(1).find((text) => text !== undefined);
    if (said !== undefined && script.length < 300) word.text += said;
    else {
      word.nested.push(script);
      word.text += "$()";
    }
  }
}
