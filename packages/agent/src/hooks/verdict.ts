/** What a hook said at its end. */
export interface HookOutcome {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Why it did not come to a decision, such as a time-out. */
  error?: string;
}

/** What that decides. */
export interface HookDecision {
  success: boolean;
  blocked: boolean;
  reason?: string;
  additionalContext?: string;
}

/** The exit code by which a command blocks (agent-behaviour.md section 9). */
const blockingCode = 2;

/**
 * Reads what a hook decided: exit code 2 blocks, other failures do not; with 0, JSON on stdout may say `decision: deny` (or `block`), `continue: false`, `reason` and
 * `additionalContext`.
 */
export function decide({ exitCode, stdout, stderr, error }: HookOutcome): HookDecision {
  const said = exitCode === 0 || exitCode === blockingCode ? readJson(stdout) : {};
  const nested = isObject(said.hookSpecificOutput) ? said.hookSpecificOutput : {};
  const decision = text(said.decision)?.toLowerCase();
  const blocked =
    error === undefined &&
    (exitCode === blockingCode || decision === "deny" || decision === "block" || said.continue === false);
  const reason = text(said.reason) ?? text(said.stopReason) ?? (blocked ? text(stderr) : undefined);
  const additionalContext = text(said.additionalContext) ?? text(nested.additionalContext);
  return {
    success: exitCode === 0 && error === undefined,
    blocked,
    ...(reason !== undefined && { reason }),
    ...(additionalContext !== undefined && { additionalContext }),
  };
}

/** An object that a text holds, or that stands in it between other words, as models write it. Empty where there is none. */
export function readJson(written: string): Record<string, unknown> {
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

function isObject(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
