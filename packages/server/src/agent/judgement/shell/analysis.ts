import { shellTextsOfCode } from "./code.ts";
import { type Invocation, invocationOf, isInterpreter, isShell, operands } from "./invocation.ts";
import { type Command, parseScript } from "./parse.ts";
import { ansiText } from "./quoting.ts";

/** What runs, and what is piped into it. */
export interface Step {
  run: Invocation;
  /** The programs before it in its pipeline, the first one first. */
  before: readonly Invocation[];
}

export interface Analysis {
  steps: Step[];
  /** `NAME=value` of the script, and redirects without a command, such as `> file`. */
  assignments: { name: string; value: string; nested: readonly string[] }[];
  redirects: { operator: string; target: string }[];
  /** Code of other languages that is given in words or read from here-documents. */
  code: string[];
  /** It is nested too deep, or too long, to be read whole. */
  unreadable: boolean;
}

/** Longest script, characters, and how often scripts may stand in scripts. */
const maxLength = 300_000;
const maxDepth = 8;
const maxSteps = 4_000;

/** Everything that a shell script runs, the scripts inside of it too: `$(…)`, `sh -c '…'`, `eval`, here-documents, `xargs`, `find -exec`. */
export function analyseScript(text: string): Analysis {
  // Scripts inside of others are read again: more than this only texts made for it have.
  const reader = new Reader(20_000 + 4 * text.length);
  reader.read(text, 0);
  return reader.analysis;
}

class Reader {
  readonly analysis: Analysis = { steps: [], assignments: [], redirects: [], code: [], unreadable: false };
  readonly #variables = new Map<string, string>();
  /** What the script writes into files, by their names. */
  readonly #written = new Map<string, string>();
  #left: number;

  /** `left`: characters of all scripts that are read. */
  constructor(left: number) {
    this.#left = left;
  }

  read(text: string, depth: number): void {
    this.#left -= text.length;
    if (text.length > maxLength || depth > maxDepth || this.#left < 0 || this.analysis.steps.length > maxSteps) {
      this.analysis.unreadable = true;
      return;
    }
    const { pipelines, cut } = parseScript(text, this.#variables);
    if (cut) this.analysis.unreadable = true;
    const inner: string[] = [];
    for (const pipeline of pipelines) {
      const before: Invocation[] = [];
      for (const command of pipeline) inner.push(...this.#command(command, before));
    }
    for (const script of inner) this.read(script, depth + 1);
  }

  /** Gives the scripts inside of a command. */
  #command(command: Command, before: Invocation[]): string[] {
    const { analysis } = this;
    for (const { name, value } of command.assignments)
      analysis.assignments.push({ name, value: value.text, nested: value.nested });
    for (const { operator, target } of command.redirects) analysis.redirects.push({ operator, target: target.text });
    const assigned = [...command.assignments.map(({ value }) => value), ...command.redirects.map(({ target }) => target)];
    const run = invocationOf(command);
    if (!run) return assigned.flatMap(({ nested }) => nested);
    analysis.steps.push({ run, before: [...before] });
    const inner = [...run.nested, ...command.assignments.flatMap(({ value }) => value.nested), ...this.#given(run, before)];
    const saved = this.#written.get(baseName(run.program.includes("/") ? run.program : (operands(run)[0] ?? "")));
    if (saved !== undefined) inner.push(...this.#runsSaved(run, saved));
    this.#keepSaid(run, before.at(-1));
    before.push(run);
    return inner;
  }

  /** A file that the script itself has written is no secret when it is run. */
  #runsSaved(run: Invocation, saved: string): string[] {
    if (run.program.includes("/") || isShell(run.name) || run.name === "source" || run.name === ".") return [saved];
    if (!isInterpreter(run.name)) return [];
    this.analysis.code.push(saved);
    return shellTextsOfCode(saved);
  }

  #keepSaid(run: Invocation, last: Invocation | undefined): void {
    const piped = last && run.name === "tee" ? saidText(last) : undefined;
    const said = run.input ?? saidText(run) ?? piped;
    if (said === undefined || this.#written.size > 100) return;
    const files = run.redirects.filter(({ operator }) => operator.startsWith(">")).map(({ target }) => target);
    for (const file of run.name === "tee" ? [...files, ...operands(run)] : files) {
      const name = baseName(file);
      this.#written.set(name, `${this.#written.get(name) ?? ""}${said}\n`);
    }
  }

  /** The scripts that a program is given to run. */
  #given(run: Invocation, before: readonly Invocation[]): string[] {
    const { name, args } = run;
    if (isShell(name) || name === "su" || name === "script") {
      const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg));
      if (at >= 0) return [args.slice(at + 1).find((arg) => !/^[-+]/.test(arg)) ?? ""];
      if (!readsInput(run)) return [];
      const last = before.at(-1);
      const said = last && saidText(last);
      const read = last?.name === "cat" ? last.input : undefined;
      return [run.input, said, read].filter((script) => script !== undefined);
    }
    if (name === "eval" || name === "trap") return [args.join(" ")];
    if (name === "set" && args[0] === "--") return [args.slice(1).map(quoted).join(" ")];
    if (name === "alias") return args.map((arg) => arg.slice(arg.indexOf("=") + 1));
    if (name === "ssh") return [remoteCommand(args)];
    if (name === "env") return args.flatMap((arg, index) => (arg === "-S" ? [args.slice(index + 1).join(" ")] : []));
    if (name === "find" || name === "fd") return this.#found(run);
    if (isInterpreter(name) || ["awk", "gawk", "mawk", "vim", "vi", "ex", "tar"].includes(name)) {
      const code = [...args.filter((arg) => arg.length > 3), ...(readsInput(run) && run.input ? [run.input] : [])];
      this.analysis.code.push(...code);
      return code.flatMap(shellTextsOfCode);
    }
    return [];
  }

  #found({ args }: Invocation): string[] {
    const scripts: string[] = [];
    for (let at = args.findIndex(isExec); at >= 0; at = nextIndex(args, at)) {
      const rest = args.slice(at + 1);
      const end = rest.findIndex((arg) => arg === ";" || arg === "+");
      scripts.push(
        rest
          .slice(0, end < 0 ? undefined : end)
          .map(quoted)
          .join(" "),
      );
    }
    return scripts;
  }
}

/** What `echo` and `printf` say, their escapes read. */
function saidText({ name, args }: Invocation): string | undefined {
  if (name !== "echo" && name !== "printf") return undefined;
  const words = args.filter((arg) => !/^-[neE]+$/.test(arg));
  const said = words.slice(words.length > 1 && words[0]!.includes("%") ? 1 : 0).join(" ");
  return said.includes("\\") && said.length < 10_000 ? ansiText(`${said.replaceAll("'", "\\'")}'`, 0).value : said;
}

const baseName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** What `ssh` runs at the other end. */
function remoteCommand(args: readonly string[]): string {
  let at = 0;
  for (; at < args.length && args[at]!.startsWith("-"); at++) if (/^-[bcDEeFIiJLlmOopQRSWw]$/.test(args[at]!)) at++;
  return args.slice(at + 1).join(" ");
}

const isExec = (arg: string) => /^-(?:exec|execdir|ok|okdir|x|-exec)$/.test(arg);

function nextIndex(args: readonly string[], at: number): number {
  const next = args.slice(at + 1).findIndex(isExec);
  return next < 0 ? -1 : at + 1 + next;
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Whether a shell or an interpreter takes what it reads for a script: it was given none. */
export function readsInput({ name, args }: Pick<Invocation, "name" | "args">): boolean {
  if (isShell(name) && hasLetter(args, "s")) return true;
  const takesValue = /^(?:[-+][a-z]*[oO]|--(?:rcfile|init-file))$/;
  const first = args.find((arg, index) => !/^[-+]./.test(arg) && !takesValue.test(args[index - 1] ?? ""));
  if (isInterpreter(name) && args.some((arg) => /^-(?:c|e|m|r|p|pe|ne|E)$/.test(arg) || arg.startsWith("--eval"))) return false;
  return first === undefined || first === "-" || first === "/dev/stdin";
}

function hasLetter(args: readonly string[], letter: string): boolean {
  return args.some((arg) => /^-[a-z]{1,6}$/.test(arg) && arg.includes(letter));
}
