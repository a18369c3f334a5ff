import { constants } from "node:os";
import type { ExitStatus } from "../../../driver.ts";

/**
 * The exit status of a process from that of its `runtime exec`.
 * A runtime turns a signal into 128 + n, which a shell does too: it counts as a signal only when that signal was sent from here (`sent`).
 * When the process never ran, `message` (the runtime's stderr) tells a missing program (127) from one that could not be run (126).
 */
export function exitStatus(
  code: number | null,
  ran: boolean,
  sent: ReadonlySet<NodeJS.Signals>,
  message: string,
): ExitStatus {
  if (!ran)
    return {
      code: /chdir/.test(message) || !/not found|no such file/i.test(message) ? 126 : 127,
      signal: null,
    };
  if (code === null) return { code: null, signal: "SIGKILL" };
  for (const signal of sent) if (code === 128 + constants.signals[signal]) return { code: null, signal };
  return { code, signal: null };
}
