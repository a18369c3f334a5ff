import type { ExecRequest, PreparedSpec, SandboxProcess } from "./driver.ts";
import type { NetworkProblem } from "./network/api.ts";

/**
 * A handle of a running sandbox for tools and routes, bound to one incarnation. After a restart or
 * deletion of the sandbox every call throws SandboxFailed.
 */
export interface Sandbox {
  readonly id: string;
  /** Changes with every start of the sandbox's processes. */
  readonly incarnation: string;
  readonly spec: PreparedSpec;
  /** argv prefix of a POSIX shell with file tools. Default: `sh`. */
  readonly shell?: string[] | undefined;
  /** Bytes that its files may take, by the limits of the sandbox and of its user. */
  diskRoom?(): number;
  exec(command: ExecRequest): Promise<SandboxProcess>;
  /**
   * Collects what the network refuses its programs, and connections that fail, until the returned
   * function is called. Absent without a network.
   */
  watchNetwork?(): () => NetworkProblem[];
}

/** Result of a completed command. */
export interface ExecResult {
  code: number;
  stdout: Buffer;
  stderr: Buffer;
}
