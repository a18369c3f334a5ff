import type { Shell } from "./shell.ts";
import { toSaveCommand } from "./shell-state.ts";

/** Limit for an idle shell to list its jobs, ms. */
const listTimeoutMs = 5_000;

/**
 * Saves the state of an idle shell in a file. Returns false when the shell does not answer within
 * `timeMs`.
 */
export async function saveShell(
  shell: Shell,
  { file, workingDir, timeMs }: { file: string; workingDir: string; timeMs: number },
): Promise<boolean> {
  return (await runSilently(shell, toSaveCommand(file, workingDir), timeMs)) !== undefined;
}

/** Whether an idle shell certainly has no background jobs. */
export async function hasNoJobs(shell: Shell): Promise<boolean> {
  return (await runSilently(shell, "jobs -p", listTimeoutMs))?.trim() === "";
}

/** Runs a command without an observation. Returns the output if the command ends in time. */
async function runSilently(shell: Shell, command: string, timeMs: number): Promise<string | undefined> {
  shell.start(command);
  const waited = await shell.wait({ timeMs });
  const { text } = await shell.take();
  return waited === "ended" ? text : undefined;
}
