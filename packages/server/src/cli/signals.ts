import { CliError } from "./errors.ts";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The exit code of a command that a signal ended, as shells have it: 128 and its number. */
const exitCodesOf: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };

/** Questions that are open. */
let questions = 0;

/** A signal ended a command or a question. */
export class Interrupted extends CliError {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super("Interrupted.", { exitCode: exitCodeOf(signal) });
    this.signal = signal;
  }
}

export function exitCodeOf(signal: NodeJS.Signals): number {
  return exitCodesOf[signal] ?? 128;
}

/**
 * Calls `first` at the first SIGINT, SIGTERM or SIGHUP and exits at the second. The end of a
 * terminal sends SIGHUP several times, so that another one changes nothing. Returns the function
 * that removes the handlers; that of SIGHUP stays after one.
 */
export function onStop(first: (signal: NodeJS.Signals) => void): () => void {
  let code: number | undefined;
  const listener = (signal: NodeJS.Signals) => {
    if (code !== undefined) {
      if (signal === "SIGHUP") return;
      if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
      process.exit(code);
    }
    code = exitCodeOf(signal);
    first(signal);
  };
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals)
      if (signal !== "SIGHUP" || code !== exitCodeOf("SIGHUP")) process.off(signal, listener);
  };
}

/** Whether a person is asked something now. */
export function isAsking(): boolean {
  return questions > 0;
}

/**
 * Asks a person something: a signal aborts `question`, which then gives the terminal back, and the
 * call throws Interrupted.
 */
export async function asking<T>(question: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const listener = (signal: NodeJS.Signals) => abort.abort(new Interrupted(signal));
  for (const signal of signals) process.on(signal, listener);
  // The end of a terminal is an error of its input, too, which may come before the signal.
  const gone = () => listener("SIGHUP");
  process.stdin.on("error", gone);
  questions += 1;
  try {
    const answer = await question(abort.signal);
    abort.signal.throwIfAborted();
    return answer;
  } finally {
    questions -= 1;
    for (const signal of signals) process.off(signal, listener);
    process.stdin.off("error", gone);
  }
}
