import { createInterface } from "node:readline";
import { asking } from "./signals.ts";

/** Whether a person can be asked. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/**
 * Asks on the terminal (standard error) and returns the trimmed answer; undefined after Ctrl-D.
 * Throws Interrupted after Ctrl-C and other signals.
 */
export function ask(question: string): Promise<string | undefined> {
  return asking(async (signal) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    let answered = false;
    return new Promise((resolve) => {
      // In raw mode the key raises no signal.
      terminal.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
      terminal.once("close", () => {
        if (!answered) process.stderr.write("\n");
        resolve(undefined);
      });
      // The terminal is gone; `asking` hears of it, too.
      terminal.on("error", () => {});
      signal.addEventListener("abort", () => terminal.close(), { once: true });
      terminal.question(question, (answer) => {
        answered = true;
        resolve(answer.trim());
        // Its own listeners of "close" give the keys back to the next reader.
        terminal.close();
      });
    });
  });
}
