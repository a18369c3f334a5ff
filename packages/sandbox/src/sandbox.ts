import type { ExecRequest, PreparedSpec, SandboxProcess } from "./driver.ts";

/**
 * A running sandbox as its users (tools, routes) hold it: bound to one incarnation.
 * After the sandbox was replaced or deleted every call throws PlatformError SandboxFailed, so a stale handle cannot act on another sandbox.
 */
export interface Sandbox {
  readonly id: string;
  /** Changes whenever the processes of the sandbox are new ones. */
  readonly incarnation: string;
  readonly spec: PreparedSpec;
  /** argv words before a script that run a POSIX shell with file tools. Default: `sh`. */
  readonly shell?: string[] | undefined;
  exec(command: ExecRequest): Promise<SandboxProcess>;
}

/** Output of a command that was run to its end. */
export interface ExecResult {
  code: number;
  stdout: Buffer;
  stderr: Buffer;
}
