import type { TerminalAction } from "@sandpiper/wire";
import type { Captured } from "./capture.ts";
import { CommandInterrupted } from "./command-interrupted.ts";
import type { TerminalCall } from "./terminal-call.ts";

/** The connection to a held shell is lost. The running command goes on, or has ended. */
export class ShellLost extends Error {
  /** The output of the command that had arrived. */
  readonly output: Captured;

  constructor(output: Captured) {
    super("The connection to the shell was lost.");
    this.output = output;
  }
}

/**
 * Calls `serve`, and calls it again each time the connection to the held shell is lost. Throws what
 * `serve` throws, and CommandInterrupted when the lost connection may have lost input.
 */
export async function serveThroughLosses<T>(
  { command, is_input, reset }: TerminalAction,
  call: TerminalCall | undefined,
  serve: (call: TerminalCall | undefined) => Promise<T>,
): Promise<T> {
  const isLook = !is_input && !reset && command.trim() === "";
  for (let isRepeated = call?.isRepeated ?? false; ; isRepeated = true) {
    try {
      return await serve(call && { ...call, isRepeated });
    } catch (error) {
      if (!(error instanceof ShellLost)) throw error;
      // Nobody knows whether the input has arrived.
      if (!call && !isLook) throw new CommandInterrupted(error.output);
    }
  }
}
