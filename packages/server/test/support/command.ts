import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../../", import.meta.url));

/** The command line in a process of its own, as a user starts it. */
export class Command {
  stdout = "";
  stderr = "";
  /** Exit code; 128 + n is also used when signal n ended it. */
  readonly exit: Promise<number>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting = new Set<() => void>();

  constructor(args: string[], env: NodeJS.ProcessEnv, options: { cwd?: string; program?: string[] } = {}) {
    const [program, ...first] = options.program ?? [`${root}bin/sandpiper`];
    const inherited = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith("SANDPIPER_")),
    );
    this.#child = spawn(program!, [...first, ...args], {
      cwd: options.cwd ?? "/",
      env: { ...inherited, ...env },
      detached: true,
    });
    this.#child.stdin.end();
    this.#child.stdout.on("data", (chunk) => this.#heard("stdout", chunk));
    this.#child.stderr.on("data", (chunk) => this.#heard("stderr", chunk));
    this.exit = new Promise((resolve) => this.#child.on("close", (code) => resolve(code ?? 255)));
    void this.exit.then(() => this.#wake());
  }

  /** Waits until either output stream has the text. Throws when the command ends without it. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    let ended = false;
    void this.exit.then(() => {
      ended = true;
    });
    for (;;) {
      const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (match) return match;
      if (ended) throw new Error(`The command ended without ${pattern}:\n${this.stdout}\n${this.stderr}`);
      await new Promise<void>((resolve) => this.#waiting.add(resolve));
    }
  }

  /** Sends a signal to the one process. */
  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Like Ctrl-C on a terminal: sends SIGINT to every process of the command's group. */
  ctrlC(): void {
    process.kill(-this.#child.pid!, "SIGINT");
  }

  #heard(stream: "stdout" | "stderr", chunk: Buffer): void {
    this[stream] += chunk.toString();
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }
}
