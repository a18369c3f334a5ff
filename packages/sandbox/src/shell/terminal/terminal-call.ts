/** A call of the terminal that runs a command. */
export interface TerminalCall {
  /** Id of the command. A held shell runs the command of an id once. */
  id: string;
  /**
   * An earlier server may have begun the command. `run` continues a command that has begun, and
   * runs one that certainly has not. `run` throws CommandInterrupted when the shell has ended, when
   * a later command has begun, and when nothing is known of the command.
   */
  isRepeated: boolean;
}
