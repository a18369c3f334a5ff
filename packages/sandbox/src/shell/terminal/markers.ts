import { quoteWord } from "./quote.ts";

/** Status of the shell within its output. */
export type Marker =
  /** The output of command `number` follows. */
  | { kind: "start"; number: number }
  /** Command `number` has ended. */
  | { kind: "end"; number: number; status: ShellStatus };

export interface ShellStatus {
  shellPid: number;
  exitCode: number;
  /** Process id of the last background job, -1 for none. */
  jobPid: number;
  workingDir: string;
  /** Undefined in a status from a prompt. */
  python: string | undefined;
}

const maxMarkerBytes = 16_384;

/**
 * The line that makes a shell run a command (one shell word) between a start and an end marker. The
 * markers go to the terminal itself, even when the command redirects the shell's output. While the
 * command runs, the prompts contain an end marker too, because a shell that aborts a command (C-c,
 * a failed expansion) skips the rest of the line; each command sets them, so an earlier prompt
 * cannot end it. The typed text never contains a complete marker, so its echo and `set -x` cannot
 * imitate one. Each write to the terminal wakes all readers of the output, so the line writes
 * rarely.
 */
export function toCommandLine(
  nonce: string,
  number: number,
  word: string,
  bash: boolean,
  lastExitCode: number,
  record?: CommandRecord,
): string {
  const builtin = bash ? "\\builtin " : "\\";
  const fields = `"$$" "$?" "\${!:-}" "$PWD" ${nonce}`;
  return [
    `PS1='${nonce}:P${number}:$$:$?:\${!:-}:$PWD:${nonce}.' PS2=; \\\n`,
    `PROMPT_COMMAND='\\builtin printf "%s:P%d:%s:%s:%s:%s:%s." ${nonce} ${number} ${fields} >/dev/tty'; \\\n`,
    ...(record ? [toRecordLine(record, number, word, builtin)] : []),
    `${builtin}printf '%s:S%d:' ${nonce} ${number} >/dev/tty; `,
    // The command sees the exit code of the one before in $?.
    lastExitCode === 0 ? "" : `(exit ${lastExitCode}) || `,
    record ? `${builtin}eval "$_sandpiper_text"; ` : `${builtin}eval ${word}; `,
    `${builtin}printf '%s:E%d:%s:%s:%s:%s:%s;' ${nonce} ${number} ${fields} >/dev/tty; \\\n`,
    bash ? toBashEnd(nonce) : toPlainEnd(nonce),
    record ? "; esac\n" : "\n",
  ].join("");
}

/**
 * Ends the end marker with the path of Python. bash looks it up in its table of programs, and so
 * writes once. The next command must look for these programs itself. The prompts say nothing after
 * the end of the command.
 */
function toBashEnd(nonce: string): string {
  const python = `"\${BASH_CMDS[python]-\${BASH_CMDS[python3]-}}"`;
  return [
    "{ \\builtin hash python || \\builtin hash python3 || :; } 2>/dev/null; ",
    `\\builtin printf '%s%s=' ${python} ${nonce} >/dev/tty; \\\n`,
    "{ \\builtin hash -d python python3 || :; PS1= PROMPT_COMMAND=; } 2>/dev/null",
  ].join("");
}

function toPlainEnd(nonce: string): string {
  return `{ \\command -v python || \\command -v python3 || :; } >/dev/tty; \\printf '%s=' ${nonce} >/dev/tty`;
}

/** The note that a held shell writes right before a command begins. */
export interface CommandRecord {
  /** Id of word characters. The shell runs the command of an id once, even if it is typed twice. */
  id: string;
  /** State folder. Its file `call` has a line with number, id and shell, and then the command. */
  folder: string;
}

function toRecordLine({ id, folder }: CommandRecord, number: number, word: string, builtin: string): string {
  const facts = `${number} ${id} "\${BASH_VERSION:+bash}" "$_sandpiper_text"`;
  return [
    `case "$_sandpiper_call" in ${id}) ;; *) _sandpiper_call=${id} _sandpiper_text=${word}; \\\n`,
    `{ ${builtin}printf '%s\\n' ${id} >>${quoteWord(`${folder}/begun`)}; \\\n`,
    `${builtin}printf '%s %s %s\\n%s' ${facts} >|${quoteWord(`${folder}/call`)}; } 2>/dev/null; \\\n`,
  ].join("");
}

/** Splits terminal output into text and markers. */
export class MarkerScanner {
  readonly #nonce: string;
  #held: Buffer = Buffer.alloc(0);

  constructor(nonce: string) {
    this.#nonce = nonce;
  }

  /** Returns the parts in order; holds back a possible beginning of a marker. */
  push(chunk: Buffer): (Buffer | Marker)[] {
    const data = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    const parts: (Buffer | Marker)[] = [];
    let from = 0;
    let searchFrom = 0;
    for (;;) {
      const at = data.indexOf(this.#nonce, searchFrom, "latin1");
      if (at < 0) break;
      const parsed = parseMarker(data.toString("latin1", at, at + maxMarkerBytes), this.#nonce);
      if (parsed === "incomplete") return this.#hold(parts, data, from, at);
      if (parsed) {
        if (at > from) parts.push(data.subarray(from, at));
        parts.push(parsed.marker);
        from = at + parsed.length;
        searchFrom = from;
      } else searchFrom = at + this.#nonce.length;
    }
    return this.#hold(
      parts,
      data,
      from,
      Math.max(searchFrom, data.length - partialLength(data, this.#nonce)),
    );
  }

  /** Returns the held-back output when no more follows. */
  flush(): Buffer {
    const held = this.#held;
    this.#held = Buffer.alloc(0);
    return held;
  }

  #hold(parts: (Buffer | Marker)[], data: Buffer, from: number, at: number): (Buffer | Marker)[] {
    if (at > from) parts.push(data.subarray(from, at));
    this.#held = data.subarray(at);
    return parts;
  }
}

/** Length of the beginning of the nonce at the end of the data. */
function partialLength(data: Buffer, nonce: string): number {
  for (let length = Math.min(nonce.length - 1, data.length); length > 0; length--) {
    if (data.toString("latin1", data.length - length) === nonce.slice(0, length)) return length;
  }
  return 0;
}

function parseMarker(
  text: string,
  nonce: string,
): { marker: Marker; length: number } | "incomplete" | undefined {
  const start = new RegExp(`^${nonce}:S(\\d+):`).exec(text);
  if (start) return { marker: { kind: "start", number: Number(start[1]) }, length: start[0].length };
  const head = `^${nonce}:([EP])(\\d+):(\\d+):(\\d+):(\\d*):`;
  const end = new RegExp(`${head}([\\s\\S]*?):${nonce}(?:\\.|;([\\s\\S]*?)${nonce}=)`).exec(text);
  if (end) {
    const [whole, , number, shellPid, exitCode, jobPid, cwd, python] = end;
    const status: ShellStatus = {
      shellPid: Number(shellPid),
      exitCode: Number(exitCode),
      jobPid: jobPid ? Number(jobPid) : -1,
      workingDir: fromLatin1(cwd ?? "").replaceAll("\r\n", "\n"),
      python: python === undefined ? undefined : (/^\/.*$/m.exec(fromLatin1(python))?.[0].trim() ?? ""),
    };
    return { marker: { kind: "end", number: Number(number), status }, length: whole.length };
  }
  if (text.length >= maxMarkerBytes) return undefined;
  const rest = text.slice(nonce.length);
  return /^(:?|:S\d*|:[EP]\d*|:[EP]\d+(:\d*){1,3})$/.test(rest) || new RegExp(head).test(text)
    ? "incomplete"
    : undefined;
}

function fromLatin1(latin1: string): string {
  return Buffer.from(latin1, "latin1").toString("utf8");
}
