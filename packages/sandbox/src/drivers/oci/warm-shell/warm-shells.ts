import type { SandboxProcess } from "../../../driver.ts";
import type { TtySize } from "../../../kernel/pseudo-terminal.ts";
import type { Command } from "./command-script.ts";
import type { WarmShell } from "./warm-shell.ts";

/** Idle shells per sandbox, and shells that are started before a command needs them. */
const maxShells = 4;
/** Time without a command after which a shell is ended, ms. */
const idleTimeoutMs = 120_000;
/** Pause after a shell that failed, ms: doubled with each failure in a row. */
const minBackoffMs = 1_000;
const maxBackoffMs = 60_000;

export interface WarmShellsOptions {
  /**
   * Start a shell for a command that finds none, for sandboxes whose shells are limited before a
   * command begins, and whose commands could otherwise outrun their limits.
   */
  isAlwaysWanted: boolean;
}

/**
 * The warm shells of one sandbox. An idle shell runs a command; without one, a shell is started in
 * the background for later commands, from the second command on.
 */
export class WarmShells {
  readonly #start: () => Promise<WarmShell | undefined>;
  readonly #options: WarmShellsOptions;
  readonly #shells = new Set<WarmShell>();
  readonly #timers = new Map<WarmShell, NodeJS.Timeout>();
  #commands = 0;
  #starting = false;
  #ended = false;
  #backoffMs = minBackoffMs;
  #notBefore = 0;

  /** `start` returns undefined when no shell comes up. */
  constructor(start: () => Promise<WarmShell | undefined>, options: WarmShellsOptions) {
    this.#start = start;
    this.#options = options;
  }

  /**
   * Runs a command in an idle shell, with `tty` on a terminal of that size. Returns undefined when
   * the runtime has to run the command. `isSession` is that of the `ExecRequest`.
   */
  async run(
    command: Command,
    tty?: TtySize,
    isSession = tty !== undefined,
  ): Promise<SandboxProcess | undefined> {
    this.#commands++;
    let shell = this.#findIdle();
    while (!shell && this.#options.isAlwaysWanted && (await this.#bringUp())) shell = this.#findIdle();
    if (!shell) {
      this.#startShell();
      return undefined;
    }
    clearTimeout(this.#timers.get(shell));
    const process = await shell.run(command, tty);
    if (process && isSession) this.#give(shell, process);
    else if (process) {
      this.#backoffMs = minBackoffMs;
      void process.exit.then(() => this.#setIdle(shell));
    } else if (shell.state === "idle") this.#setIdle(shell);
    else this.#backOff();
    return process;
  }

  /** Gives a shell to a session. The shell ends with the session, and another shell starts. */
  #give(shell: WarmShell, process: SandboxProcess): void {
    this.#backoffMs = minBackoffMs;
    this.#shells.delete(shell);
    void process.exit.then(() => shell.end());
    this.#startShell();
  }

  /** Ends the shells; a busy one after its command. */
  end(): void {
    this.#ended = true;
    for (const shell of this.#shells) if (shell.state === "idle") shell.end();
  }

  #startShell(): void {
    const wanted = this.#commands > 1 && this.#shells.size < maxShells && Date.now() >= this.#notBefore;
    if (!wanted || this.#starting || this.#ended) return;
    this.#starting = true;
    void this.#bringUp().then(() => {
      this.#starting = false;
    });
  }

  #findIdle(): WarmShell | undefined {
    return [...this.#shells].find(({ state }) => state === "idle");
  }

  /** Starts a shell. False when none comes up. */
  async #bringUp(): Promise<boolean> {
    const shell = await this.#start().catch(() => undefined);
    if (!shell) this.#backOff();
    else if (this.#ended) shell.end();
    else {
      this.#shells.add(shell);
      shell.onEnd(() => {
        this.#shells.delete(shell);
        clearTimeout(this.#timers.get(shell));
        this.#timers.delete(shell);
      });
      this.#setIdle(shell);
      return true;
    }
    return false;
  }

  #setIdle(shell: WarmShell): void {
    clearTimeout(this.#timers.get(shell));
    if (shell.state === "ended") return;
    const idle = [...this.#shells].filter(({ state }) => state === "idle");
    if (this.#ended || idle.length > maxShells) return shell.end();
    this.#timers.set(shell, setTimeout(() => shell.state === "idle" && shell.end(), idleTimeoutMs).unref());
  }

  #backOff(): void {
    this.#notBefore = Date.now() + this.#backoffMs;
    this.#backoffMs = Math.min(this.#backoffMs * 2, maxBackoffMs);
  }
}
