import { errorText } from "@sandpiper/core/errors";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import type { HookDefinition } from "./config.ts";
import { findDeath, type HookOutcome, undecided } from "./verdict.ts";

/** Bytes kept of each output. */
const maxOutput = 200_000;

/** Time to wait for a killed command, ms: in a paused sandbox it cannot exit. */
const dyingMs = 2_000;

export interface CommandHookContext {
  sandbox(): Promise<Sandbox>;
  workingDir: string;
  env: Record<string, string>;
  /** JSON for the command's stdin. */
  input: string;
  signal: AbortSignal;
}

/** Exit code 124: time-out; 127: not started. Throws only the signal's reason. */
export async function runCommandHook(
  hook: HookDefinition,
  context: CommandHookContext,
): Promise<HookOutcome> {
  const { signal } = context;
  signal.throwIfAborted();
  try {
    const sandbox = await context.sandbox();
    const argv = ["sh", "-c", hook.command];
    const timeoutMs = hook.timeout * 1000;
    const work = runToEnd(
      sandbox,
      { argv, cwd: context.workingDir, env: context.env },
      { input: context.input, maxOutputBytes: maxOutput, timeoutMs, signal },
    );
    const { code, stdout, stderr, timedOut } = await withDeadline(work, timeoutMs, signal);
    const outputs = { stdout: stdout.toString(), stderr: stderr.toString() };
    const error = timedOut ? `The hook took longer than ${hook.timeout} s and was ended.` : findDeath(code);
    const exitCode = timedOut ? 124 : code;
    return error === undefined ? { exitCode, ...outputs } : { exitCode, ...outputs, error, died: true };
  } catch (error) {
    signal.throwIfAborted();
    return { ...undecided(`The hook could not be run: ${errorText(error)}`, 127), died: true };
  }
}

/** Rejects some time after the work should have ended. */
async function withDeadline<T>(work: Promise<T>, timeoutMs: number, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(new Error("it took too long and does not end."));
  const timers = [setTimeout(giveUp, timeoutMs + dyingMs)];
  const onAbort = () => timers.push(setTimeout(giveUp, dyingMs));
  signal.addEventListener("abort", onAbort);
  work.catch(() => {});
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    for (const timer of timers) clearTimeout(timer);
  }
}
