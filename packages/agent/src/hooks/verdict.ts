import { isObject } from "@sandpiper/core/is-object";

/** Output of a finished hook. */
export interface HookOutcome {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Why there is no decision, for example a time-out. */
  error?: string;
  /** The command did not get to its end: a guard that dies must not let the event pass. */
  died?: boolean;
}

/** A hook that came to no decision: nothing is blocked. */
export function undecided(error: string, exitCode = 1): HookOutcome {
  return { exitCode, stdout: "", stderr: "", error };
}

export interface HookDecision {
  success: boolean;
  blocked: boolean;
  reason?: string;
  additionalContext?: string;
}

/** Exit code with which a command blocks (agent-behaviour.md section 9). */
const blockingCode = 2;

/** Exit codes of a shell: a command that cannot be run or is missing, and 128 + the signal. */
const unrunCodes = [126, 127];
const signalCodes = { first: 129, last: 192 };

/** Why a command with this exit code did not get to its end; undefined when it did. */
export function findDeath(exitCode: number): string | undefined {
  if (unrunCodes.includes(exitCode)) return "The hook's command could not be run.";
  const { first, last } = signalCodes;
  if (exitCode < first || exitCode > last) return undefined;
  return `The hook was killed by signal ${exitCode - first + 1}.`;
}

/**
 * Reads a decision: exit code 2 blocks; with 0, stdout may hold JSON with `decision: deny` or
 * `block`, `continue: false`, `reason`, `additionalContext`. The death of a command blocks an event
 * that it guards.
 */
export function decide(
  { exitCode, stdout, stderr, error, died = false }: HookOutcome,
  { guards }: { guards: boolean },
): HookDecision {
  const said = exitCode === 0 || exitCode === blockingCode ? extractJson(stdout) : {};
  const nested = isObject(said.hookSpecificOutput) ? said.hookSpecificOutput : {};
  const decision = text(said.decision)?.toLowerCase();
  const isFailedGuard = guards && died;
  const blocked =
    isFailedGuard ||
    (error === undefined &&
      (exitCode === blockingCode || decision === "deny" || decision === "block" || said.continue === false));
  const reason = isFailedGuard
    ? `${error ?? "The hook did not decide."} A hook that guards this and does not decide blocks it.`
    : (text(said.reason) ?? text(said.stopReason) ?? (blocked ? text(stderr) : undefined));
  const additionalContext = text(said.additionalContext) ?? text(nested.additionalContext);
  return {
    success: exitCode === 0 && error === undefined,
    blocked,
    ...(reason !== undefined && { reason }),
    ...(additionalContext !== undefined && { additionalContext }),
  };
}

/** Parses a JSON object, also between other words. Empty when there is none. */
export function extractJson(written: string): Record<string, unknown> {
  const from = written.indexOf("{");
  const to = written.lastIndexOf("}");
  if (from < 0 || to < from) return {};
  try {
    const value: unknown = JSON.parse(written.slice(from, to + 1));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}
