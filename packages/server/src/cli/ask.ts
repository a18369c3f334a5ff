import { createInterface } from "node:readline";

/** Whether there is a person who can be asked. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/**
 * Asks on the terminal, on standard error. Gives the trimmed answer; undefined where the person
 * pressed Ctrl-C, which the process gets as SIGINT, or Ctrl-D.
 */
export function ask(question: string): Promise<string | undefined> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise((resolve) => {
    // The terminal is in raw mode, so no signal comes of the key.
    terminal.once("SIGINT", () => {
      terminal.close();
      process.kill(process.pid, "SIGINT");
    });
    terminal.once("close", () => {
      process.stderr.write("\n");
      resolve(undefined);
    });
    terminal.question(question, (answer) => {
      terminal.removeAllListeners("close");
      terminal.close();
      resolve(answer.trim());
    });
  });
}
