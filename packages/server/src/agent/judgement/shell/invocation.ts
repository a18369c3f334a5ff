import type { Word } from "./lexer.ts";
import type { Command } from "./parse.ts";

/** A program that a script runs, without what only wraps it (`sudo`, `env`, `xargs` …). */
export interface Invocation {
  /** Without its folder, in lower case: `rm`, `curl`. */
  name: string;
  /** As it was written: `./install.sh`. */
  program: string;
  args: string[];
  words: readonly Word[];
  redirects: readonly { operator: string; target: string }[];
  /** What a here-document or here-string gives it to read. */
  input: string | undefined;
  /** Names of what it is wrapped in. */
  wrappers: readonly string[];
  /** Scripts whose output is a part of its words. */
  nested: readonly string[];
}

/** Programs that run the command which their arguments are; their options that take a value, and how many words come before the command. */
const wrappers: Readonly<Record<string, { values?: string; longValues?: string[]; before?: number }>> = {
  sudo: { values: "ughpCTrtDRU", longValues: ["user", "group", "host", "prompt", "chdir"] },
  doas: { values: "uC" },
  env: { values: "uCS", longValues: ["unset", "chdir", "split-string"] },
  nohup: {},
  time: { values: "fo" },
  nice: { values: "n", longValues: ["adjustment"] },
  ionice: { values: "cnp" },
  timeout: { values: "ks", longValues: ["signal", "kill-after"], before: 1 },
  stdbuf: { values: "ioe" },
  setsid: {},
  exec: { values: "a" },
  builtin: {},
  command: {},
  xargs: { values: "InPdaELs", longValues: ["replace", "max-args", "max-procs", "delimiter", "arg-file", "max-lines"] },
  parallel: { values: "jIa", longValues: ["jobs", "arg-file"] },
  watch: { values: "n", longValues: ["interval"] },
  busybox: {},
  toybox: {},
  chroot: { before: 1 },
  flock: { values: "wE", before: 1 },
  strace: { values: "eopsu" },
  unshare: {},
  nsenter: { values: "tS" },
  chronic: {},
  unbuffer: {},
};

/** How many wrappers are taken off. */
const maxWrappers = 20;

/** What a simple command runs; undefined for one that only assigns or redirects. */
export function invocationOf({ words, redirects, input }: Command): Invocation | undefined {
  let rest: readonly Word[] = words;
  const wrappedIn: string[] = [];
  while (rest.length > 0) {
    const name = programName(rest[0]!.text);
    const wrapper = Object.hasOwn(wrappers, name) ? wrappers[name] : undefined;
    const inner = wrapper && wrappedIn.length < maxWrappers ? withoutOptions(rest.slice(1), wrapper) : [];
    // A wrapper that wraps nothing is the program: `env`, `exec 3<x`.
    if (inner.length === 0 || (name === "command" && /^-[vV]/.test(rest[1]?.text ?? ""))) break;
    wrappedIn.push(name);
    rest = inner;
  }
  const program = rest[0]?.text;
  if (program === undefined) return undefined;
  return {
    name: programName(program),
    program,
    args: rest.slice(1).map(({ text }) => text),
    words: rest.slice(1),
    redirects: redirects.map(({ operator, target }) => ({ operator, target: target.text })),
    input,
    wrappers: wrappedIn,
    nested: [...words, ...redirects.map(({ target }) => target)].flatMap(({ nested }) => nested),
  };
}

function programName(program: string): string {
  const name = program.slice(program.lastIndexOf("/") + 1).toLowerCase();
  return /[?*[]/.test(name) && name.length < 20 ? (hiddenName(name) ?? name) : name;
}

const oftenHidden = [
  "rm",
  "sh",
  "bash",
  "curl",
  "wget",
  "nc",
  "ncat",
  "dd",
  "cat",
  "chmod",
  "python3",
  "python",
  "perl",
  "base64",
  "sudo",
];

/** The program that a pattern such as `/bin/r?m` or `c[a]t` stands for. */
function hiddenName(pattern: string): string | undefined {
  if (!/[a-z]/.test(pattern)) return undefined;
  const escaped = pattern
    .replaceAll(/[.+^${}()|\\]/g, "\\$&")
    .replaceAll("?", ".?")
    .replaceAll("*", ".*");
  const expression = /\[(?![a-z0-9-]{1,10}\])/.test(escaped) ? undefined : new RegExp(`^${escaped}$`);
  return expression && oftenHidden.find((name) => expression.test(name));
}

function withoutOptions(
  words: readonly Word[],
  { values = "", longValues = [], before = 0 }: { values?: string; longValues?: string[]; before?: number },
): readonly Word[] {
  let at = 0;
  for (; at < words.length; at++) {
    const { text } = words[at]!;
    if (text === "--") {
      at++;
      break;
    }
    if (/^[A-Za-z_][A-Za-z0-9_]*=/.test(text)) continue;
    if (!text.startsWith("-") || text === "-") break;
    const takesNext = text.startsWith("--")
      ? longValues.includes(text.slice(2))
      : values.includes(text.at(-1)!) && text.length === 2;
    if (takesNext) at++;
  }
  return words.slice(at + before);
}

const shells = new Set(["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "rbash", "mksh"]);

export function isShell(name: string): boolean {
  return shells.has(name);
}

const interpreters =
  /^(?:python[0-9.]*|pypy[0-9]*|perl[0-9.]*|ruby[0-9.]*|node|nodejs|bun|deno|php[0-9.]*|lua[0-9.]*|rscript|osascript|tclsh)$/;

export function isInterpreter(name: string): boolean {
  return interpreters.test(name);
}

/** The letters of short options and the names of long ones. */
export function hasOption({ args }: Pick<Invocation, "args">, letters: string, ...names: string[]): boolean {
  return args.some((arg) =>
    arg.startsWith("--")
      ? names.includes(arg.slice(2).split("=", 1)[0]!)
      : /^-[A-Za-z0-9]{1,12}$/.test(arg) && [...letters].some((letter) => arg.includes(letter, 1)),
  );
}

/** Arguments that are no options. */
export function operands({ args }: Pick<Invocation, "args">): string[] {
  const end = args.indexOf("--");
  if (end >= 0) return [...args.slice(0, end).filter((arg) => !arg.startsWith("-") || arg === "-"), ...args.slice(end + 1)];
  return args.filter((arg) => !arg.startsWith("-") || arg === "-");
}

/** What follows an option: `-o x`, `-ox`, `--output x`, `--output=x`. */
export function optionValues({ args }: Pick<Invocation, "args">, ...options: string[]): string[] {
  const found: string[] = [];
  for (const [index, arg] of args.entries()) {
    for (const option of options) {
      if (arg === option) found.push(args[index + 1] ?? "");
      else if (option.startsWith("--") ? arg.startsWith(`${option}=`) : arg.startsWith(option) && !arg.startsWith("--"))
        found.push(arg.slice(option.length + (option.startsWith("--") ? 1 : 0)));
    }
  }
  return found;
}
