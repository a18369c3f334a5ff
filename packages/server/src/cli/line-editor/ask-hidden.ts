import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { inertLine } from "../inert.ts";

/** Asks on the terminal (standard error) and shows no keys; undefined after Ctrl-C or Ctrl-D. */
export function askHidden(question: string): Promise<string | undefined> {
  const nothing = new Writable({ write: (_chunk, _encoding, done) => done() });
  process.stderr.write(inertLine(question));
  const terminal = createInterface({ input: process.stdin, output: nothing, terminal: true });
  return new Promise((resolve) => {
    terminal.once("SIGINT", () => terminal.close());
    terminal.once("close", () => {
      process.stderr.write("\n");
      resolve(undefined);
    });
    terminal.question("", (answer) => {
      resolve(answer);
      terminal.close();
    });
  });
}
