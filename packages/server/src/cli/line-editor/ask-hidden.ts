import { createInterface } from "node:readline";
import { Writable } from "node:stream";

/** Asks on the terminal (standard error) and shows no keys; undefined after Ctrl-C or Ctrl-D. */
export function askHidden(question: string): Promise<string | undefined> {
  const nothing = new Writable({ write: (_chunk, _encoding, done) => done() });
  process.stderr.write(question);
  const terminal = createInterface({ input: process.stdin, output: nothing, terminal: true });
  return new Promise((resolve) => {
    const end = (answer: string | undefined) => {
      terminal.removeAllListeners("close");
      terminal.close();
      process.stderr.write("\n");
      resolve(answer);
    };
    terminal.once("SIGINT", () => end(undefined));
    terminal.once("close", () => end(undefined));
    terminal.question("", end);
  });
}
