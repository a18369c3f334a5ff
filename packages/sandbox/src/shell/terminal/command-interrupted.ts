import type { Captured } from "./capture.ts";

/** A repeated command cannot be continued. */
export class CommandInterrupted extends Error {
  /** The kept output of the command. */
  readonly output: Captured;

  constructor(output: Captured) {
    super("The command was interrupted.");
    this.output = output;
  }
}
