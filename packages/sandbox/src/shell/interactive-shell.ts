import type { SandboxProcess } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";

export interface InteractiveShellOptions {
  /** Size of the terminal, characters; without it the shell uses pipes. */
  tty: { cols: number; rows: number } | undefined;
  /** Initial folder, relative to the spec's working directory; the shell reports a missing one. */
  cwd: string | undefined;
}

/** Time for a shell to end after the hang-up, ms. */
const hangUpMs = 2_000;

/** bash, else sh, else the engine's. No login shell: `/etc/profile` would replace PATH. */
const startScript = `
cd -- "$1" 2>/dev/null
[ -z "$2" ] || cd -- "$2"
interactive=$3
shift 3
SHELL=$(command -v bash) || SHELL=/bin/sh
[ -x "$SHELL" ] || exec "$@" $interactive
export SHELL
exec "$SHELL" $interactive`;

/** Starts a shell for a user in a sandbox. Throws what `exec` throws. */
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

export class InteractiveShell {
  readonly process: SandboxProcess;
  readonly #onTerminal: boolean;

  constructor(process: SandboxProcess, onTerminal: boolean) {
    this.process = process;
    this.#onTerminal = onTerminal;
  }

  /**
   * Ends the shell like a closed terminal: SIGHUP to it and its jobs, then SIGKILL to the shell.
   * Processes started with `nohup` or `setsid` continue. Without a terminal the shell is killed.
   * Drops further output.
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
