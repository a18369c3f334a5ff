/** Exit codes of the command line (docs/everyday/command-line.md). */
export const exitCodes = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

/** An error that ends a command with one sentence and a code. */
export class CliError extends Error {
  readonly exitCode: number;

  constructor(message: string, options: ErrorOptions & { exitCode?: number } = {}) {
    super(message, options);
    this.name = "CliError";
    this.exitCode = options.exitCode ?? exitCodes.failed;
  }
}
