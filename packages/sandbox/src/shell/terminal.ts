import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";
import type { Sandbox } from "../sandbox.ts";
import { TerminalSession } from "./terminal/session.ts";

/** A persistent shell in a sandbox (agent-behaviour.md section 13). */
export interface Terminal {
  /** Runs, polls, sends input or resets, as the action says. Calls are served one after the other. */
  run(action: TerminalAction, signal: AbortSignal): Promise<TerminalObservation>;
  /** A command runs in the foreground. */
  readonly isBusy: boolean;
  /** A shell is there, busy or not. */
  readonly isLive: boolean;
  /**
   * Leaves the shell's directory and exported variables in `stateFile`, for the terminal that is opened after the sandbox's processes were
   * ended; of a shell in which a command runs only the directory. Takes at most a second or so. Throws what `exec` throws.
   */
  saveState(): Promise<void>;
  close(): void;
}

export interface TerminalOptions {
  /** Where the shell begins; default is the spec's working directory. */
  cwd?: string;
  /** Added to the shell's environment. */
  env?: Record<string, string>;
  /** How long a command without a timeout may be silent before the call answers; default 30 000 ms. */
  quietMs?: number;
  /** How long such a command may go on printing until the call answers; default 10 minutes. */
  longestMs?: number;
  /** Folder in the sandbox for copies of outputs that are too long to show. */
  outputDir?: string;
  /** File in the sandbox in which `keep` leaves the shell's state; the first shell of a terminal takes over what lies there. */
  stateFile?: string;
}

/**
 * A terminal of a sandbox. The shell starts with the first call; one that ended is replaced by the next.
 * `run` throws the signal's reason after an interrupt, and SandboxFailed when the sandbox is gone or has no shell.
 */
export function openTerminal(sandbox: Sandbox, options: TerminalOptions = {}): Terminal {
  return new TerminalSession(sandbox, {
    cwd: options.cwd ?? sandbox.spec.workingDir,
    env: options.env ?? {},
    quietMs: options.quietMs ?? 30_000,
    longestMs: options.longestMs ?? 600_000,
    outputDir: options.outputDir ?? "/tmp/terminal_output",
    stateFile: options.stateFile,
  });
}
