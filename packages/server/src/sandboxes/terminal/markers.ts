import { typedQuote } from "./quote.ts";

/** What the shell tells about itself between the output of commands. */
export type Marker =
  /** Command number `number` begins: what comes next is its output. */
  | { kind: "start"; number: number }
  /** The shell is done with a command. `number` is undefined when a prompt tells it, after a command that was broken off. */
  | { kind: "end"; number: number | undefined; status: ShellStatus };

export interface ShellStatus {
  shellPid: number;
  exitCode: number;
  /** Process id of the last background job, -1 for none. */
  jobPid: number;
  workingDir: string;
  /** Undefined when a prompt told the status. */
  python: string | undefined;
}

/** Longest marker, bytes; what is longer was no marker. */
const longest = 16_384;

/**
 * The line that makes a shell run a command between a start and an end marker. The markers go to the terminal itself, so they come
 * wherever the command redirected the shell's output to. The prompts carry an end marker too: a shell that breaks a command off (C-c, a failed
 * expansion) skips the rest of the line. They are set each time, because commands set them as well.
 * The typed text never holds a marker as it will be printed, so neither its echo nor `set -x` can pass for one.
 */
export function commandLine(nonce: string, number: number, command: string, bash: boolean, lastExitCode: number): string {
  const builtin = bash ? "\\builtin " : "\\";
  const fields = `"$$" "$?" "\${!:-}" "$PWD" ${nonce}`;
  return [
    `${builtin}printf '%s:S%d:' ${nonce} ${number} >/dev/tty; `,
    // The command sees the exit code of the one before in $?.
    lastExitCode === 0 ? "" : `(exit ${lastExitCode}) || `,
    `${builtin}eval ${typedQuote(command, bash)}; `,
    `${builtin}printf '%s:E%d:%s:%s:%s:%s:%s;' ${nonce} ${number} ${fields} >/dev/tty; \\\n`,
    `{ ${builtin}command -v python || ${builtin}command -v python3 || :; } >/dev/tty; `,
    `PS1='${nonce}:P:$$:$?:\${!:-}:$PWD:${nonce}.' PS2=; \\\n`,
    bash ? `PROMPT_COMMAND='\\builtin printf "%s:P:%s:%s:%s:%s:%s." ${nonce} ${fields} >/dev/tty'; ` : "",
    `${builtin}printf '%s.' ${nonce} >/dev/tty\n`,
  ].join("");
}

/** Takes the output of a terminal apart into text and markers. Pure but for what it holds back between chunks. */
export class MarkerScanner {
  readonly #nonce: string;
  #held: Buffer = Buffer.alloc(0);

  constructor(nonce: string) {
    this.#nonce = nonce;
  }

  /** The parts of the output up to here, in order. What may be the beginning of a marker is held back. */
  push(chunk: Buffer): (Buffer | Marker)[] {
    const data = this.#held.length > 0 ? Buffer.concat([this.#held, chunk]) : chunk;
    const parts: (Buffer | Marker)[] = [];
    let from = 0;
    let searchFrom = 0;
    for (;;) {
      const at = data.indexOf(this.#nonce, searchFrom, "latin1");
      if (at < 0) break;
      const parsed = parseMarker(data.toString("latin1", at, at + longest), this.#nonce);
      if (parsed === "incomplete") return this.#hold(parts, data, from, at);
      if (parsed) {
        if (at > from) parts.push(data.subarray(from, at));
        parts.push(parsed.marker);
        from = at + parsed.length;
        searchFrom = from;
      } else searchFrom = at + this.#nonce.length;
    }
    return this.#hold(parts, data, from, Math.max(searchFrom, data.length - partialLength(data, this.#nonce)));
  }

  /** Gives out what is held back: no marker will end it. */
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

/** Length of the beginning of the nonce with which the data ends. */
function partialLength(data: Buffer, nonce: string): number {
  for (let length = Math.min(nonce.length - 1, data.length); length > 0; length--) {
    if (data.toString("latin1", data.length - length) === nonce.slice(0, length)) return length;
  }
  return 0;
}

function parseMarker(text: string, nonce: string): { marker: Marker; length: number } | "incomplete" | undefined {
  const start = new RegExp(`^${nonce}:S(\\d+):`).exec(text);
  if (start) return { marker: { kind: "start", number: Number(start[1]) }, length: start[0].length };
  const end = new RegExp(
    `^${nonce}:(E(\\d+)|P):(\\d+):(\\d+):(\\d*):([\\s\\S]*?):${nonce}(?:(?<=P:[\\s\\S]*)\\.|;([\\s\\S]*?)${nonce}\\.)`,
  ).exec(text);
  if (end) {
    const [whole, , number, shellPid, exitCode, jobPid, cwd, python] = end;
    const status: ShellStatus = {
      shellPid: Number(shellPid),
      exitCode: Number(exitCode),
      jobPid: jobPid ? Number(jobPid) : -1,
      workingDir: utf8(cwd ?? "").replaceAll("\r\n", "\n"),
      python:
        python === undefined
          ? undefined
          : (utf8(python)
              .match(/^\/.*$/m)?.[0]
              .trim() ?? ""),
    };
    return { marker: { kind: "end", number: number ? Number(number) : undefined, status }, length: whole.length };
  }
  if (text.length >= longest) return undefined;
  return new RegExp(
    `^${nonce}(:|$)(S\\d*$|(E|E\\d+|P)?$|(E\\d+|P):\\d*$|(E\\d+|P):\\d+:\\d*$|(E\\d+|P):\\d+:\\d+:\\d*(:|$))`,
  ).test(text)
    ? "incomplete"
    : undefined;
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, "latin1").toString("utf8");
}
