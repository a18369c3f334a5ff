import { type IPty, spawn } from "@lydell/node-pty";
import { until } from "./platform.ts";
import { escapes } from "./terminal-client.ts";

/** A command of a local shell on its own terminal, with its output. */
export class LocalTerminal {
  shown = "";
  readonly pty: IPty;
  readonly exit: Promise<number>;

  constructor(line: string, env: Record<string, string>) {
    this.pty = spawn("/bin/sh", ["-c", line], { name: "xterm", cols: 90, rows: 30, env, cwd: "/" });
    this.pty.onData((data) => {
      this.shown = (this.shown + data).replace(escapes, "");
    });
    this.exit = new Promise((resolve) => this.pty.onExit(({ exitCode }) => resolve(exitCode)));
  }

  /** Waits until the pattern is on the terminal, a minute at most. */
  shows(pattern: RegExp): Promise<true> {
    const end = Date.now() + 60_000;
    return until(() => {
      if (Date.now() > end) throw new Error(`Without ${pattern}: ${JSON.stringify(this.shown)}`);
      return pattern.test(this.shown) || undefined;
    }) as Promise<true>;
  }

  /** Answers what a shell asks about the terminal, as terminals do; fish waits for it. */
  answersQueries(): void {
    this.pty.onData((data) => {
      if (data.includes("\x1b[c") || data.includes("\x1b[0c")) this.pty.write("\x1b[?1;2c");
    });
  }

  kill(signal: "SIGKILL"): void {
    this.pty.kill(signal);
  }
}
