import type { Readable, Writable } from "node:stream";

/**
 * The one interface of a sandbox engine. Nothing above it knows which engine runs.
 * A driver keeps no state that it cannot find again after a kill -9: `list` asks the engine.
 */
export interface SandboxDriver {
  readonly name: string;
  /** Checks once that the engine works here, and makes it ready. Throws PlatformError SandboxFailed with one sentence on what to install or change. */
  open(): Promise<void>;
  /** Starts a sandbox and resolves when commands can be run in it. A half-made one is removed before it throws SandboxFailed. */
  start(request: StartRequest): Promise<void>;
  /** Runs a command. Resolves once it is started; a missing binary shows as exit code 127 or 126, not as a throw. */
  exec(id: string, command: ExecRequest): Promise<SandboxProcess>;
  /** Freezes every process. Pausing a paused sandbox is fine. */
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** Kills and removes everything that belongs to the sandbox. Removing an unknown one is fine. */
  remove(id: string): Promise<void>;
  /** Every sandbox of this installation that the engine knows. */
  list(): Promise<DriverSandbox[]>;
  /** Releases what the driver itself holds. Sandboxes go on running. */
  close(): Promise<void>;
}

export interface DriverSandbox {
  id: string;
  state: "running" | "paused" | "stopped";
}

export interface StartRequest {
  /** Name of the sandbox: `[a-z0-9-]{1,63}`; also its host name. */
  id: string;
  spec: SandboxSpec;
}

/** A template for sandboxes. */
export interface SandboxSpec {
  id: string;
  /** Root filesystem: `host` is `/usr` of this machine read-only under a generated minimal root. */
  root: { kind: "host" };
  /** Command of the first process, or null for an init that only reaps. */
  command: string[] | null;
  env: Record<string, string>;
  workingDir: string;
  user: SandboxUser;
  limits: SandboxLimits;
}

export interface SandboxUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

export interface SandboxLimits {
  memoryBytes: number;
  pids: number;
  /** CPUs, may be a fraction. */
  cpus: number;
}

export interface ExecRequest {
  argv: string[];
  /** Default: the spec's working directory. */
  cwd?: string;
  /** Added to the spec's environment. */
  env?: Record<string, string>;
  /** Runs on a pseudo-terminal of this size; stdout then carries everything. */
  tty?: { cols: number; rows: number };
}

export interface SandboxProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Empty with `tty`. */
  readonly stderr: Readable;
  /** Resolves when the process ended and its output is read out. Never rejects. */
  readonly exit: Promise<ExitStatus>;
  /** Sends a signal (default SIGKILL) to the process. A process that ended is fine. */
  kill(signal?: NodeJS.Signals): void;
  /** Only with `tty`. */
  resize(cols: number, rows: number): void;
}

/** `code` is null when a signal ended the process. */
export interface ExitStatus {
  code: number | null;
  signal: string | null;
}
