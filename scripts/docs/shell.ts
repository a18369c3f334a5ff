import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";

const here = import.meta.dirname;

/** What a block did; `code` is undefined when it was still running after its time. */
export interface Outcome {
  code: number | undefined;
  /** Line of the block that failed, from 1; unknown in other languages than bash. */
  line?: number;
  output: string;
}

/** The bash that runs the blocks of a page. */
export class Shell {
  readonly #folder: string;
  readonly #child: ChildProcess;
  #count = 0;
  #listener: ((report: string) => void) | undefined;

  /** The blocks and their outputs become files of `folder`. */
  constructor(folder: string, cwd: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    this.#child = spawn("bash", [join(here, "driver.sh"), here], {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", "inherit", "inherit", "pipe", "pipe"],
    });
    let unread = "";
    (this.#child.stdio[4] as Readable).setEncoding("utf8").on("data", (text: string) => {
      const lines = (unread + text).split("\n");
      unread = lines.pop()!;
      for (const line of lines) this.#listener?.(line);
    });
    (this.#child.stdio[3] as Writable).on("error", () => {});
    // Not "close": a program in the background keeps the pipes open. The line of the failure may
    // still be on its way.
    this.#child.once("exit", (code, signal) =>
      setTimeout(() => this.#listener?.(`end ${code ?? signal}`), 200),
    );
  }

  /** Runs a script in bash. With `strict`, the first command that fails ends the shell. */
  run(script: string, options: { strict: boolean; timeoutMs: number }): Promise<Outcome> {
    const file = this.file("sh", `${script}\n`);
    const output = () => readFileSync(`${file}.out`, { encoding: "utf8", flag: "a+" });
    return new Promise((resolve) => {
      let line: number | undefined;
      const finish = (code: number | undefined) => {
        clearTimeout(timer);
        this.#listener = undefined;
        resolve({ code, line, output: output() });
      };
      const timer = setTimeout(() => finish(undefined), options.timeoutMs);
      this.#listener = (report) => {
        const [kind, value] = report.split(" ");
        // Functions of the block report their callers too: the first line is the cause.
        if (kind === "line") line ??= Number(value);
        else finish(Number(value));
      };
      if (this.#child.exitCode !== null) return finish(this.#child.exitCode);
      (this.#child.stdio[3] as Writable).write(`${options.strict ? "strict" : "free"} ${file}\n`);
    });
  }

  /** Writes a file next to the blocks. */
  file(extension: string, content: string): string {
    const file = join(this.#folder, `block-${++this.#count}.${extension}`);
    writeFileSync(file, content);
    return file;
  }

  /** Ends bash and its foreground programs. */
  end(): void {
    try {
      process.kill(-this.#child.pid!, "SIGKILL");
    } catch {
      // The shell has ended before.
    }
  }
}
