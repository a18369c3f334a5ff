import type { SandboxProcess } from "../../../driver.ts";
import type { Command } from "./command-text.ts";
import type { ResidentShell } from "./shell.ts";

/** Shells that one sandbox may have, so commands that run beside each other without the runtime. */
const maxShells = 4;
/** After this time without a command a shell is ended, ms. */
const idleMs = 120_000;
/** Pauses after a shell that did not come up or did not obey, ms: doubled from the first to the last. */
const firstPause = 1_000;
const lastPause = 60_000;

/**
 * The resident shells of one sandbox. A command is run by an idle one; when there is none, one is started in the background for later
 * commands, from the second command on.
 */
export class ResidentShells {
  readonly #start: () => Promise<ResidentShell | undefined>;
  readonly #shells = new Set<ResidentShell>();
  readonly #timers = new Map<ResidentShell, NodeJS.Timeout>();
  #commands = 0;
  #starting = false;
  #ended = false;
  #pause = firstPause;
  #notBefore = 0;

  /** `start` gives undefined when no shell came up. */
  constructor(start: () => Promise<ResidentShell | undefined>) {
    this.#start = start;
  }

  /** Runs a command by a shell that is free. Undefined: it has to go another way. */
  async run(command: Command): Promise<SandboxProcess | undefined> {
    this.#commands++;
    const shell = [...this.#shells].find((one) => one.state === "idle");
    if (!shell) {
      this.#startAnother();
      return undefined;
    }
    clearTimeout(this.#timers.get(shell));
    const process = await shell.run(command);
    if (process) {
      this.#pause = firstPause;
      void process.exit.then(() => this.#rest(shell));
    } else if (shell.state === "idle") this.#rest(shell);
    else this.#postpone();
    return process;
  }

  /** Ends the shells: one that runs a command after it. */
  end(): void {
    this.#ended = true;
    for (const shell of this.#shells) if (shell.state === "idle") shell.end();
  }

  #startAnother(): void {
    const wanted = this.#commands > 1 && this.#shells.size < maxShells && Date.now() >= this.#notBefore;
    if (!wanted || this.#starting || this.#ended) return;
    this.#starting = true;
    void this.#start()
      .catch(() => undefined)
      .then((shell) => {
        this.#starting = false;
        if (!shell) return this.#postpone();
        if (this.#ended) return shell.end();
        this.#shells.add(shell);
        shell.onEnd(() => {
          this.#shells.delete(shell);
          clearTimeout(this.#timers.get(shell));
          this.#timers.delete(shell);
        });
        this.#rest(shell);
      });
  }

  #rest(shell: ResidentShell): void {
    clearTimeout(this.#timers.get(shell));
    if (shell.state === "ended") return;
    if (this.#ended) return shell.end();
    this.#timers.set(shell, setTimeout(() => shell.state === "idle" && shell.end(), idleMs).unref());
  }

  #postpone(): void {
    this.#notBefore = Date.now() + this.#pause;
    this.#pause = Math.min(this.#pause * 2, lastPause);
  }
}
