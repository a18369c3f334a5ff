import { parseShell, withinStack } from "@sandpiper/core/shell-syntax";
import { type Command, forEachChild, type Redirection, type SyntaxNode } from "unbash";

export interface Redirect {
  operator: string;
  target: string;
}

/** A program that a script runs, without its wrappers (`sudo`, `env`, `xargs` …). */
export interface ShellCommand {
  /** Without its folder, in lower case: `rm`, `curl`. */
  name: string;
  /** As written: `./install.sh`. */
  program: string;
  args: string[];
  /** Names of its wrappers. */
  wrappers: readonly string[];
  redirects: readonly Redirect[];
  /** Its heredoc or here-string. */
  input: string | undefined;
  /** The commands of the substitutions in its words. */
  nested: readonly ShellCommand[];
  /** The last commands before it in its pipeline, the first one first. */
  before: readonly ShellCommand[];
}

/** What a script runs, in order. Names, aliases and variables are not resolved. */
export interface ShellScript {
  commands: ShellCommand[];
  redirects: Redirect[];
  /** False when the script is too long or too deeply nested to be read to its end. */
  complete: boolean;
}

/** Depth of the syntax tree, inner scripts included; a substitution takes about six levels. */
const maxDepth = 64;
const maxCommands = 4_000;
/** Commands before one in its pipeline, and wrappers around one. */
const maxBefore = 20;
const maxWrappers = 20;

/**
 * Steps that reading a script may take: a step reads one character of a script, of a word, or of an
 * argument of a command. Nested commands read their part of the text again.
 */
const maxSteps = (chars: number) => Math.min(20_000 + 16 * chars, 400_000);

/**
 * The commands of a script and of nested scripts, such as `$(…)`, `sh -c` and heredocs. Takes
 * linear time: reading stops when a bound is exceeded.
 */
export function parseShellScript(text: string): ShellScript {
  const reader = new Reader(maxSteps(text.length));
  try {
    if (!withinStack(() => reader.script(text, 0, []))) reader.result.complete = false;
  } catch (error) {
    if (!(error instanceof BoundExceeded)) throw error;
    reader.result.complete = false;
  }
  return reader.result;
}

class BoundExceeded extends Error {}

class Reader {
  readonly result: ShellScript = { commands: [], redirects: [], complete: true };
  #stepsLeft: number;

  constructor(steps: number) {
    this.#stepsLeft = steps;
  }

  script(text: string, depth: number, before: readonly ShellCommand[]): ShellCommand[] {
    this.#take(text.length);
    const parsed = parseShell(text);
    if (!parsed) throw new BoundExceeded();
    return this.#node(parsed, depth, before);
  }

  #take(steps: number): void {
    this.#stepsLeft -= steps;
    if (this.#stepsLeft < 0) throw new BoundExceeded();
  }

  /** Reads a node. Returns the commands that write to its output. */
  #node(node: SyntaxNode, depth: number, before: readonly ShellCommand[]): ShellCommand[] {
    if (depth > maxDepth || this.result.commands.length > maxCommands) throw new BoundExceeded();
    if (node.type === "Word") this.#take(node.text.length * expansionReads(node.text));
    if (node.type === "Command") return this.#command(node, depth, before);
    if (node.type === "Redirect") this.result.redirects.push(...redirectsOf([node]));
    return this.#children(node, depth, before);
  }

  #children(node: SyntaxNode, depth: number, before: readonly ShellCommand[]): ShellCommand[] {
    const found: ShellCommand[] = [];
    let input = before;
    forEachChild(node, (child) => {
      const commands = this.#node(child, depth + 1, input);
      found.push(...commands);
      if (node.type === "Pipeline") input = [...input, ...commands].slice(-maxBefore);
    });
    return found;
  }

  #command(node: Command, depth: number, before: readonly ShellCommand[]): ShellCommand[] {
    const nested = this.#children(node, depth, []);
    if (!node.name) return [];
    const words = [node.name, ...node.args].map((word) => (word.type === "Word" ? word.value : word.text));
    return this.#run(words, depth, {
      redirects: redirectsOf(node.redirects),
      input: inputOf(node.redirects),
      nested,
      before,
    });
  }

  #run(
    words: readonly string[],
    depth: number,
    context: Pick<ShellCommand, "redirects" | "input" | "nested" | "before">,
  ): ShellCommand[] {
    if (depth > maxDepth) throw new BoundExceeded();
    this.#take(words.reduce((sum, word) => sum + word.length + 1, 0));
    const command = { ...unwrap(words), ...context };
    this.result.commands.push(command);
    const inner = [command];
    for (const script of scriptsOf(command)) inner.push(...this.script(script, depth + 1, command.before));
    for (const found of commandsOfFind(command))
      inner.push(...this.#run(found, depth + 1, { ...context, redirects: [], input: undefined }));
    return inner;
  }
}

/** How often the parser reads the characters of a word: once for each level of its expansions. */
function expansionReads(word: string): number {
  let deepest = 0;
  let depth = 0;
  for (const [mark] of word.matchAll(/\$[({]|[)}`]/g)) {
    depth = mark.length === 2 ? depth + 1 : Math.max(0, depth - 1);
    deepest = Math.max(deepest, depth);
  }
  return 1 + deepest;
}

function redirectsOf(redirects: readonly Redirection[]): Redirect[] {
  return redirects.flatMap((redirect) =>
    redirect.type === "Redirect"
      ? [{ operator: redirect.operator, target: redirect.target?.value ?? "" }]
      : [],
  );
}

function inputOf(redirects: readonly Redirection[]): string | undefined {
  const last = redirects.findLast(({ type }) => type !== "Redirect");
  return last?.type === "HereDoc"
    ? last.body.text
    : last?.type === "HereString"
      ? last.target?.value
      : undefined;
}

/** Programs that run a command: options with a value, and words before the command. */
const wrappers: Readonly<Record<string, { values?: string; before?: number }>> = {
  sudo: { values: "-u -g -h -p -C -T -r -t -D -R -U --user --group --host --prompt --chdir" },
  doas: { values: "-u -C" },
  env: { values: "-u -C -S --unset --chdir --split-string" },
  nohup: {},
  time: { values: "-f -o" },
  nice: { values: "-n --adjustment" },
  ionice: { values: "-c -n -p" },
  timeout: { values: "-k -s --signal --kill-after", before: 1 },
  stdbuf: { values: "-i -o -e" },
  setsid: {},
  exec: { values: "-a" },
  builtin: {},
  command: {},
  xargs: {
    values: "-I -n -P -d -a -E -L -s --replace --max-args --max-procs --delimiter --arg-file --max-lines",
  },
  watch: { values: "-n --interval" },
  busybox: {},
  chroot: { before: 1 },
  flock: { values: "-w -E", before: 1 },
  strace: { values: "-e -o -p -s -u" },
  unshare: {},
  nsenter: { values: "-t -S" },
};

function unwrap(words: readonly string[]): Pick<ShellCommand, "name" | "program" | "args" | "wrappers"> {
  const names: string[] = [];
  let at = 0;
  while (names.length < maxWrappers) {
    const name = programName(words[at]!);
    const inner = Object.hasOwn(wrappers, name) ? skipOptions(words, at + 1, wrappers[name]!) : words.length;
    // A wrapper without a command is the program: `env`, `exec 3<x`, `command -v x`.
    if (inner >= words.length || (name === "command" && /^-[vV]/.test(words[at + 1]!))) break;
    names.push(name);
    at = inner;
  }
  return { name: programName(words[at]!), program: words[at]!, args: words.slice(at + 1), wrappers: names };
}

/** Index of a wrapper's command, whose options begin at `at`. */
function skipOptions(
  words: readonly string[],
  at: number,
  { values = "", before = 0 }: { values?: string; before?: number },
): number {
  let index = at;
  for (; index < words.length; index++) {
    const word = words[index]!;
    if (/^[A-Za-z_]\w*=/.test(word)) continue;
    if (!word.startsWith("-") || word === "-") break;
    if (word === "--") return index + 1 + before;
    if (values.split(" ").includes(word)) index++;
  }
  return index + before;
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

const programName = (program: string) => baseName(program).toLowerCase();

/** The shell scripts that a command runs. */
function scriptsOf({ name, args, input, before }: ShellCommand): string[] {
  if (isShell(name) || name === "su" || name === "script") {
    const at = args.findIndex((arg) => /^-[a-z]*c$/.test(arg));
    if (at >= 0) return [args.slice(at + 1).find((arg) => !/^[-+]/.test(arg)) ?? ""];
    const source = before.at(-1);
    const piped =
      source?.name === "echo" || source?.name === "printf" ? source.args.join(" ") : source?.input;
    return readsInput({ name, args }) ? [input ?? piped ?? ""] : [];
  }
  if (name === "eval" || name === "trap") return [args.join(" ")];
  if (name !== "ssh") return [];
  const host = args.findIndex(
    (arg, index) => !arg.startsWith("-") && !/^-[bcDEeFIiJLlmOopQRSWw]$/.test(args[index - 1] ?? ""),
  );
  return host < 0 ? [] : [args.slice(host + 1).join(" ")];
}

/** The commands after `-exec` and the like. */
function commandsOfFind({ name, args }: ShellCommand): string[][] {
  if (name !== "find" && name !== "fd") return [];
  const commands: string[][] = [];
  for (let at = 0; at < args.length; at++) {
    if (!/^-(?:exec|execdir|ok|okdir|x|-exec)$/.test(args[at]!)) continue;
    const start = at + 1;
    for (at = start; at < args.length && args[at] !== ";" && args[at] !== "+"; ) at++;
    if (at > start) commands.push(args.slice(start, at));
  }
  return commands;
}

const shells = new Set(["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh"]);

export function isShell(name: string): boolean {
  return shells.has(name);
}

export function isInterpreter(name: string): boolean {
  return /^(?:python[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|bun|deno|php[\d.]*|lua[\d.]*)$/.test(name);
}

/** Whether a shell or an interpreter runs its standard input, because it was given no script. */
export function readsInput({ name, args }: Pick<ShellCommand, "name" | "args">): boolean {
  if (isShell(name) && args.some((arg) => /^-[a-z]{0,5}s[a-z]{0,5}$/.test(arg))) return true;
  if (isInterpreter(name) && args.some((arg) => /^-(?:[cemrpE]|pe|ne)$|^--eval/.test(arg))) return false;
  const takesValue = /^(?:[-+][a-z]*[oO]|--(?:rcfile|init-file))$/;
  const first = args.find((arg, index) => !/^[-+]./.test(arg) && !takesValue.test(args[index - 1] ?? ""));
  return first === undefined || first === "-" || first === "/dev/stdin";
}

/** Whether a command has one of these short options (letters) or long ones (names). */
export function hasOption(
  { args }: Pick<ShellCommand, "args">,
  letters: string,
  ...names: string[]
): boolean {
  return args.some((arg) =>
    arg.startsWith("--")
      ? names.includes(arg.slice(2).split("=", 1)[0]!)
      : /^-[A-Za-z0-9]{1,12}$/.test(arg) && [...letters].some((letter) => arg.includes(letter, 1)),
  );
}

/** Arguments that are not options. */
export function operands({ args }: Pick<ShellCommand, "args">): string[] {
  const end = args.indexOf("--");
  const plain = args.filter(
    (arg, index) => (end < 0 || index < end) && (!arg.startsWith("-") || arg === "-"),
  );
  return end < 0 ? plain : plain.concat(args.slice(end + 1));
}

/** The values of options: `-o x`, `-ox`, `--output x`, `--output=x`. */
export function optionValues({ args }: Pick<ShellCommand, "args">, ...options: string[]): string[] {
  return args.flatMap((arg, index) =>
    options.flatMap((option) => {
      if (arg === option) return [args[index + 1] ?? ""];
      if (option.startsWith("--")) return arg.startsWith(`${option}=`) ? [arg.slice(option.length + 1)] : [];
      return arg.startsWith(option) && !arg.startsWith("--") ? [arg.slice(option.length)] : [];
    }),
  );
}

/** The program and its operands in one line, cut: `git push origin`. */
export function commandLine(command: ShellCommand): string {
  return [command.name, ...operands(command).slice(0, 8)].join(" ").slice(0, 300);
}
