import { notes, type TerminalOutcome } from "./observation.ts";
import type { Shell, WaitResult } from "./shell.ts";

/** A shell that does not begin a command in this time is lost, s. */
const beginTimeoutSeconds = 10;

interface Judging {
  /** As in `TerminalOptions`. */
  quietMs: number;
  longestMs: number;
  workingDir: string;
  /** Time limit of the call, s. */
  timeout?: number | undefined;
  /** Input that the call has sent. */
  sent?: string | undefined;
}

/** Tells what the end of a wait means for a call. Ends a shell that does not begin the command. */
export function judgeWait(
  shell: Shell,
  waited: WaitResult,
  { quietMs, longestMs, workingDir, timeout, sent }: Judging,
): Omit<TerminalOutcome, "output"> {
  if (waited === "ended")
    return { exitCode: shell.status.exitCode, note: notes.completed(shell.status.exitCode, sent) };
  if (waited === "died") {
    const { code, signal } = shell.ended!;
    const killed = code === null || code > 128;
    return { exitCode: code ?? -1, note: notes.ended(code, signal, workingDir), isError: killed };
  }
  if (!shell.started && (waited === "quiet" || (timeout ?? 0) >= beginTimeoutSeconds)) {
    void shell.kill();
    return { exitCode: -1, note: notes.lost, isError: true };
  }
  if (waited === "time") {
    const note = timeout === undefined ? notes.long(longestMs / 60_000) : notes.time(timeout);
    return { exitCode: -1, note };
  }
  return { exitCode: -1, note: notes.quiet(quietMs / 1000) };
}
