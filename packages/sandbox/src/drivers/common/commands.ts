import { constants } from "node:os";
import { PlatformError } from "@sandpiper/core/errors";
import type { ExecRequest, ExitStatus } from "../../driver.ts";

/** Ids of sandboxes and snapshots. */
export const idPattern = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** Throws InvalidParameter for a command without words or with a NUL, which no path can hold. */
export function checkCommand({ argv, cwd = "", env = {} }: ExecRequest): void {
  if ([...argv, cwd, ...Object.entries(env).flat()].some((text) => text.includes("\0")))
    throw new PlatformError("CommandHasNul");
  if (argv.length === 0) throw new PlatformError("CommandEmpty");
}

/**
 * The exit status of a process from the code that its runtime or engine reports (null: killed).
 * A signal is reported as 128 + n, which a shell may also return by itself, so it counts as a
 * signal only when the server sent that signal (`sent`).
 */
export function toExitStatus(code: number | null, sent: ReadonlySet<NodeJS.Signals>): ExitStatus {
  if (code === null) return { code: null, signal: "SIGKILL" };
  for (const signal of sent) if (code === 128 + constants.signals[signal]) return { code: null, signal };
  return { code, signal: null };
}

/** Exit code of a command that never ran: 127 for a missing program, else 126, as in a shell. */
export function toRefusedExitCode(message: string): number {
  return !/chdir|\bcwd\b/.test(message) && /not found|no such file/i.test(message) ? 127 : 126;
}
