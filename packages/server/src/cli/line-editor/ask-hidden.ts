import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { inertLine } from "../inert.ts";
import { asking } from "../signals.ts";

/**
 * Asks on the terminal (standard error) and shows no keys; undefined after Ctrl-D. Throws
 * Interrupted after Ctrl-C and other signals.
 */
export function askHidden(question: string): Promise<string | undefined> {
  return asking(async (signal) => {
    const nothing = new Writable({ write: (_chunk, _encoding, done) => done() });
    // In raw mode first, so that no key is shown.
    const terminal = createInterface({ input: process.stdin, output: nothing, terminal: true });
    process.stderr.write(inertLine(question));
    return new Promise((resolve) => {
      terminal.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
      terminal.once("close", () => {
        process.stderr.write("\n");
        resolve(undefined);
      });
      terminal.on("error", () => {});
      signal.addEventListener("abort", () => terminal.close(), { once: true });
      terminal.question("", (answer) => {
        resolve(answer);
        terminal.close();
      });
    });
  });
}
