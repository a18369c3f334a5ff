import type { SandboxProcess } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";

export interface InteractiveShellOptions {
  /** Size of the terminal, in characters; without one the shell reads commands from a pipe and writes to pipes. */
  tty: { cols: number; rows: number } | undefined;
  /** Folder to begin in, below the spec's working directory where it is relative. The shell says it where there is none. */
  cwd: string | undefined;
}

/** How long a shell has to end after its terminal hung up, ms. */
const hangUpMs = 2_000;

/**
 * bash where there is one, else sh, else the engine's own (`$4…`). No login shell: `/etc/profile` would take the image's PATH away.
 */
const startScript = `
cd -- "$1" 2>/dev/null
[ -z "$2" ] || cd -- "$2"
interactive=$3
shift 3
SHELL=$(command -v bash) || SHELL=/bin/sh
[ -x "$SHELL" ] || exec "$@" $interactive
export SHELL
exec "$SHELL" $interactive`;

/** Starts a shell for a person in a sandbox. Throws what `exec` throws. */
export async function openInteractiveShell(
  sandbox: Sandbox,
  { tty, cwd = "" }: InteractiveShellOptions,
): Promise<InteractiveShell> {
  const shell = sandbox.shell ?? ["sh"];
  const argv = [...shell, "-c", startScript, "sh", sandbox.spec.workingDir, cwd, tty ? "-i" : "", ...shell];
  const process = await sandbox.exec({ argv, cwd: "/", ...(tty && { tty }) });
  process.stdin.on("error", () => {});
  return new InteractiveShell(process, tty !== undefined);
}

/** A shell that a person works in. */
export class InteractiveShell {
  readonly process: SandboxProcess;
  readonly #onTerminal: boolean;

  constructor(process: SandboxProcess, onTerminal: boolean) {
    this.process = process;
    this.#onTerminal = onTerminal;
  }

  /**
   * Ends the shell as a terminal does that is closed: it gets SIGHUP and tells its jobs; one that stays is killed. What is started with `nohup` or
   * `setsid` goes on. Without a terminal it is killed with what it waits for. What is written meanwhile is dropped.
   */
  hangUp(): void {
    const { stdout, stderr, exit } = this.process;
    for (const stream of [stdout, stderr]) stream.removeAllListeners("data").resume();
    if (!this.#onTerminal) return this.process.kill();
    this.process.kill("SIGHUP");
    const late = setTimeout(() => this.process.kill(), hangUpMs);
    void exit.then(() => clearTimeout(late));
  }
}
