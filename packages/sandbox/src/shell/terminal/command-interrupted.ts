import type { Captured } from "./capture.ts";

/** A command has ended with its shell, or nothing is known of it. */
export class CommandInterrupted extends Error {
  /** What is kept of its output. */
  readonly output: Captured;

  constructor(output: Captured) {
    super("The command was interrupted.");
    this.output = output;
  }
}
