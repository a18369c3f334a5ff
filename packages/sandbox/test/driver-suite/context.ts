import type { ExecRequest, PreparedSpec, SandboxDriver } from "../../src/driver.ts";
import { type RunOptions, runToEnd } from "../../src/shell/run.ts";

/** Shared by the tests of the suite: one running sandbox, `one`. */
export interface SuiteContext {
  readonly driver: SandboxDriver;
  readonly spec: PreparedSpec;
  /** See `DriverUnderTest`. */
  readonly memoryByProcess: boolean;
  /** See `DriverUnderTest`. */
  readonly showsMachine: boolean;
}

/** Limits that tests exceed on purpose. */
export const suiteLimits = { memoryBytes: 128 * 2 ** 20, pids: 64, cpus: 2, diskBytes: 2 ** 30 };

/** Runs a command to its end; returns output as text. */
export async function run(
  driver: SandboxDriver,
  id: string,
  command: string | ExecRequest,
  options: RunOptions = {},
) {
  const request = typeof command === "string" ? { argv: ["sh", "-c", command] } : command;
  const { code, stdout, stderr } = await runToEnd({ exec: (one) => driver.exec(id, one) }, request, {
    timeoutMs: 150_000,
    ...options,
  });
  return { code, out: stdout.toString(), err: stderr.toString() };
}
