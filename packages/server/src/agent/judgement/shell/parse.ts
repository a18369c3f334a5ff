import { Lexer, type Word } from "./lexer.ts";
import { parenEnd } from "./quoting.ts";

/** A simple command as it stands in a script. */
export interface Command {
  words: Word[];
  /** `NAME=value` before it, or alone. */
  assignments: { name: string; value: Word }[];
  redirects: { operator: string; target: Word }[];
  /** Here-documents and here-strings: what it reads. */
  input: string | undefined;
}

/** Commands joined by pipes; what is piped into or out of a group stands beside each command of the group. */
export type Pipeline = Command[];

/** Commands of a script that are looked at, and of a group that is piped on. */
const maxCommands = 3_000;
const maxGroup = 20;

const openers = new Set(["{", "if", "while", "until", "for", "select", "case"]);
const closers = new Set(["}", "fi", "done", "esac"]);
const fillers = new Set(["then", "do", "else", "elif", "!", "time", "function", "coproc", "in"]);

interface Group {
  /** How many pipelines there were when it began. */
  start: number;
  /** What is piped into it. */
  before: Command[];
}

export interface Script {
  pipelines: Pipeline[];
  /** It is too long to be read to its end. */
  cut: boolean;
}

/**
 * The commands of a shell script, in order, whatever lists, groups, loops and conditions they stand in. Forgiving: what is no script gives some words. Sets
 * what the script sets in `variables`. Linear in the length of the text.
 */
export function parseScript(text: string, variables: Map<string, string> = new Map()): Script {
  return new Parser(text, variables).parse();
}

class Parser {
  readonly #lexer: Lexer;
  readonly #variables: Map<string, string>;
  readonly #pipelines: Pipeline[] = [];
  readonly #groups: Group[] = [];
  #pipeline: Command[] = [];
  #command = emptyCommand();
  /** What a group that has just ended has run. */
  #ended: Command[] | undefined;
  /** The next command is the head of a loop: `d in a b`. */
  #isLoop = false;
  /** The next word names a function. */
  #isFunction = false;
  #count = 0;

  constructor(text: string, variables: Map<string, string>) {
    this.#lexer = new Lexer(text, variables);
    this.#variables = variables;
  }

  parse(): Script {
    for (let token = this.#lexer.next(); token; token = this.#lexer.next()) {
      if (this.#count > maxCommands) return { pipelines: this.#pipelines, cut: true };
      if (token.type === "word") this.#word(token.word);
      else if (token.type === "redirect") this.#redirect(token.text);
      else this.#operator(token.text);
    }
    this.#endPipeline();
    return { pipelines: this.#pipelines, cut: false };
  }

  #word(word: Word): void {
    const { words, assignments } = this.#command;
    if (words.length === 0 && !word.quoted) {
      if (openers.has(word.text)) {
        this.#open();
        this.#isLoop = word.text === "for";
        return;
      }
      if (closers.has(word.text)) return this.#close();
      if (this.#isFunction || fillers.has(word.text)) {
        this.#isFunction = word.text === "function" && !this.#isFunction;
        return;
      }
    }
    const assigned = words.length === 0 ? /^([A-Za-z_][A-Za-z0-9_]{0,100})\+?=/.exec(word.text) : null;
    if (assigned) {
      const value = { ...word, text: word.text.slice(assigned[0].length) };
      assignments.push({ name: assigned[1]!, value });
      if (value.nested.length === 0) this.#variables.set(assigned[1]!, value.text);
      else this.#variables.delete(assigned[1]!);
      return;
    }
    this.#ended = undefined;
    words.push(word);
  }

  #redirect(operator: string): void {
    const token = this.#lexer.next();
    if (token?.type !== "word") {
      if (token?.type === "operator") this.#operator(token.text);
      return;
    }
    const command = this.#command;
    const add = (text: string) => {
      command.input = (command.input ?? "") + text;
    };
    if (operator === "<<<") add(token.word.text);
    else if (operator.startsWith("<<"))
      this.#lexer.expect({
        end: token.word.text,
        stripTabs: operator === "<<-",
        take: (body) => {
          add(body);
          if (!token.word.quoted) token.word.nested.push(...substitutions(body));
        },
      });
    command.redirects.push({ operator, target: token.word });
  }

  #operator(operator: string): void {
    if (operator === "|" || operator === "|&") {
      const group = this.#ended;
      this.#endCommand();
      if (group) this.#pipeline = [...group, ...this.#pipeline];
    } else if (operator === "(") this.#open();
    else if (operator === ")") this.#close();
    else this.#endPipeline();
  }

  #open(): void {
    this.#endCommand();
    const before = [...(this.#groups.at(-1)?.before ?? []), ...this.#pipeline].slice(-maxGroup);
    this.#pipeline = [];
    this.#groups.push({ start: this.#pipelines.length, before });
  }

  #close(): void {
    this.#endPipeline();
    const group = this.#groups.pop();
    if (group) this.#ended = this.#pipelines.slice(group.start).flat().slice(-maxGroup);
  }

  #endCommand(): void {
    const command = this.#command;
    this.#ended = undefined;
    if (command.words.length + command.assignments.length + command.redirects.length === 0) return;
    this.#count++;
    const [name, , ...values] = command.words;
    // Of all that it will hold, that of which the most depends.
    const held = values.find(({ text }) => /^[/~$]/.test(text)) ?? values[0];
    if (this.#isLoop && held && command.words[1]?.text === "in") this.#variables.set(name!.text, held.text);
    this.#isLoop = false;
    this.#pipeline.push(command);
    this.#command = emptyCommand();
  }

  #endPipeline(): void {
    this.#endCommand();
    if (this.#pipeline.length === 0) return;
    const before = this.#groups.at(-1)?.before ?? [];
    this.#pipelines.push([...before, ...this.#pipeline]);
    this.#pipeline = [];
  }
}

/** The scripts whose output stands in a here-document. */
function substitutions(text: string): string[] {
  const found: string[] = [];
  for (let at = text.indexOf("$("); at >= 0; at = text.indexOf("$(", at)) {
    const end = parenEnd(text, at + 2);
    found.push(text.slice(at + 2, end));
    at = end;
  }
  return found;
}

function emptyCommand(): Command {
  return { words: [], assignments: [], redirects: [], input: undefined };
}
