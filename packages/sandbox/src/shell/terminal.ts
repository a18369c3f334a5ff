import type { TerminalAction, TerminalObservation } from "@sandpiper/wire";
import type { Sandbox } from "../sandbox.ts";
import { TerminalSession } from "./terminal/session.ts";
import type { HeldOptions } from "./terminal/shell.ts";
import type { TerminalCall } from "./terminal/terminal-call.ts";

/** A persistent shell in a sandbox (agent-behaviour.md section 13). */
export interface Terminal {
  /** Runs, polls, sends input or resets, as the action says. Calls are serialised. */
  run(
    action: TerminalAction,
    signal: AbortSignal,
    /** Gets the output of the command while it runs. */
    onOutput?: (text: string) => void,
    call?: TerminalCall,
  ): Promise<TerminalObservation>;
  /** Opens the shell before the first call needs it. Throws as `run`. */
  prepare(signal: AbortSignal): Promise<void>;
  /** A command runs in the foreground. */
  readonly isBusy: boolean;
  /** The terminal has a shell that a call has used, busy or not. */
  readonly isLive: boolean;
  /** Time of the end of the last call (monotonic clock, ms). */
  readonly restsSince: number;
  /**
   * Saves the state of a shell that rests, and ends the shell; the next call opens a shell with
   * that state. Returns false, and leaves the shell, when the shell works, has background jobs, or
   * does not answer. Throws what `exec` throws.
   */
  endResting(): Promise<boolean>;
  /**
   * Saves the shell's directory and exported variables (of a busy shell only the directory) in
   * `stateFile`, for the next terminal after a stop of the sandbox. Takes about a second at most.
   * Throws what `exec` throws.
   */
  saveState(): Promise<void>;
  /** Ends the shell. Resolves when all processes of the shell have ended. */
  close(): Promise<void>;
  /** Leaves a held shell that a call has used to the next terminal. Ends every other shell. */
  leave(): void;
}

export interface TerminalOptions {
  /** Initial directory; default: the spec's working directory. */
  cwd?: string;
  /** Added to the shell's environment. */
  env?: Record<string, string>;
  /** Silence after which a call without timeout returns, ms; default 30 000. */
  quietMs?: number;
  /** Maximum duration of such a call, ms; default 10 minutes. */
  longestMs?: number;
  /** Folder in the sandbox for outputs that are too long to show. */
  outputDir?: string;
  /** File in the sandbox for `saveState`; the first shell of a terminal restores it. */
  stateFile?: string;
  /** Makes the shell a held shell where the sandbox's driver can hold a terminal. */
  held?: HeldOptions;
}

/**
 * A terminal of a sandbox. The first call starts the shell, and a call after its end replaces it.
 * `run` throws the signal's reason after an interrupt, and SandboxFailed when the sandbox is gone
 * or has no shell.
 */
export function openTerminal(sandbox: Sandbox, options: TerminalOptions = {}): Terminal {
  return new TerminalSession(sandbox, {
    cwd: options.cwd ?? sandbox.spec.workingDir,
    env: options.env ?? {},
    quietMs: options.quietMs ?? 30_000,
    longestMs: options.longestMs ?? 600_000,
    outputDir: options.outputDir ?? "/tmp/terminal_output",
    stateFile: options.stateFile,
    held: options.held,
  });
}
