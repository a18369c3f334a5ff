/** The call of a command. */
export interface TerminalCall {
  /** A held shell runs the command of an id once; a terminal that joins it continues with it. */
  id: string;
  /**
   * An earlier process may have begun it: it is continued, or run if it certainly did not begin.
   * `run` throws CommandInterrupted when it has ended without its shell, or when nothing is known.
   */
  isRepeated: boolean;
}
