import type { Duplex, Readable, Writable } from "node:stream";
import type { Capability } from "./specs/capabilities.ts";

/**
 * The interface of a sandbox engine; nothing above it depends on the engine. A driver keeps no
 * state that a kill -9 could lose: `list` asks the engine.
 */
export interface SandboxDriver {
  readonly name: string;
  /**
   * argv prefix of a POSIX shell with file tools, set by `open`. Undefined: `sh` of the sandbox.
   */
  readonly shell?: string[] | undefined;
  /** Undefined where the driver cannot move files to another engine. */
  readonly files?: PortableFiles | undefined;
  /** Checks the engine. Throws SandboxFailed with what to install or change. */
  open(): Promise<void>;
  /**
   * Makes the root filesystem of a spec ready (fetches and unpacks an image, …) and fills in what
   * the root decides. Idempotent, fast when the root is ready; calls for the same root share the
   * work. Throws SandboxSpecUnusable with one sentence on what is wrong (bad reference, unreachable
   * registry, …) and leaves nothing half-made.
   */
  prepare(spec: SandboxSpec, options?: PrepareOptions): Promise<PreparedSpec>;
  /**
   * Starts a new sandbox, or a stopped one on its files, and resolves when it can run commands.
   * Removes a half-made one before it throws SandboxFailed.
   */
  start(request: StartRequest): Promise<void>;
  /** Starts a command. A missing binary gives exit code 127 or 126 and does not throw. */
  exec(id: string, command: ExecRequest): Promise<SandboxProcess>;
  /** Freezes every process. Idempotent. */
  pause(id: string): Promise<void>;
  resume(id: string): Promise<void>;
  /** Ends every process within about a second; only the files stay. Idempotent. */
  stop(id: string): Promise<void>;
  /** Kills and removes everything but the snapshots of the sandbox. An unknown id is ignored. */
  remove(id: string): Promise<void>;
  /** All sandboxes of this installation in the engine. */
  list(): Promise<DriverSandbox[]>;
  /**
   * Saves the current files of a sandbox in constant time. The engine may stop the sandbox for it;
   * `start` brings it back on its files.
   */
  snapshot(id: string, snapshotId: string): Promise<void>;
  /** Sandboxes that were started from it keep their files. An unknown id is ignored. */
  removeSnapshot(snapshotId: string): Promise<void>;
  snapshots(): Promise<string[]>;
  /** Connects to a loopback TCP port inside. Throws SandboxNotRunning, PortUnreachable. */
  connect(id: string, port: number): Promise<Duplex>;
  /**
   * Listens on a loopback TCP port inside a running sandbox, until its processes end or `close` is
   * called. This is the only network access of a sandbox.
   */
  listen(id: string, port: number, accept: (connection: Duplex) => void): Promise<{ close(): void }>;
  /**
   * Current usage. Files above a bound need not be counted. Throws SandboxNotFound, SandboxFailed.
   */
  usage(id: string, bounds?: FileBounds): Promise<SandboxUsage>;
  /**
   * Bytes of the files that snapshots keep, without those that the sandboxes have too; files of
   * several snapshots count once. 0 where the engine does not tell. Throws SandboxFailed.
   */
  snapshotBytes(snapshots: readonly string[], sandboxes: readonly string[]): Promise<number>;
  /**
   * Memory that a sandbox's processes hold and no limit counts, bytes; not counted on above a
   * bound. Infinity when there is too much to count in time, 0 where the engine does not tell.
   * Raises lowered out-of-memory scores. Throws SandboxNotFound, SandboxFailed.
   */
  uncountedBytes(id: string, bounds: UncountedBounds): Promise<number>;
  /**
   * Removes the data of unknown sandboxes and snapshots, except for data that another living
   * process has just created. The service calls it periodically.
   */
  reap(known: KnownIds): Promise<void>;
  /** Releases the driver's own resources. Sandboxes continue to run. */
  close(): Promise<void>;
}

/** Names the files of a stopped sandbox or of a snapshot. */
export interface FilesOf {
  kind: "sandbox" | "snapshot";
  id: string;
}

/**
 * Moves files between engines of the same driver: all files that a sandbox has added to its root,
 * with owners, modes, attributes, links and holes, and the list of files that it has deleted.
 */
export interface PortableFiles {
  has(of: FilesOf): Promise<boolean>;
  /**
   * Returns the files as a stream of bytes. The sandbox must not start before the stream ends.
   * Throws SandboxNotFound, SandboxFailed, the signal's reason.
   */
  export(of: FilesOf, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Takes the bytes that `export` of another server has returned. After an error or a crash none of
   * the files are there. Throws SandboxFailed, the signal's reason.
   */
  import(
    of: FilesOf,
    spec: PreparedSpec,
    source: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<void>;
}

/** Ids of the sandboxes and snapshots that the engine may have. Both sets may change over time. */
export interface KnownIds {
  sandboxes: Pick<ReadonlySet<string>, "has">;
  snapshots: Pick<ReadonlySet<string>, "has">;
  /**
   * Adds the ids that other processes have created. A driver calls it after it has listed the
   * engine, so that a sandbox whose record is older than its data is never unknown.
   */
  refresh?(): Promise<void>;
}

export interface PrepareOptions {
  /** Gets lines about the progress of long work, for people. */
  onProgress?: (text: string) => void;
  signal?: AbortSignal;
  /** For whom it is: fetches of one owner are bounded. */
  owner?: string;
}

export interface DriverSandbox {
  id: string;
  state: "running" | "paused" | "stopped";
}

/** The files that a sandbox has added to its image, those that its snapshots keep included. */
export interface FileUsage {
  /** Bytes on the disk. */
  diskBytes: number;
  /** Files, folders and links; 0 where the engine does not count them. */
  files: number;
  /** The files could not be counted in time: both numbers are lower bounds. */
  isPartial: boolean;
}

export interface UncountedBounds {
  bytes: number;
  /**
   * The machine has little memory: where only single processes have a limit, what all of them
   * together hold above it counts too.
   */
  isScarce: boolean;
}

export type FileBounds = Pick<FileUsage, "diskBytes" | "files">;

export interface SandboxUsage extends FileUsage {
  memoryBytes: number;
  /** CPU time since the start of the processes, ms. */
  cpuMs: number;
  pids: number;
}

export interface StartRequest {
  /** `[a-z0-9-]{1,63}`; also the host name. */
  id: string;
  spec: PreparedSpec;
  /** A new sandbox begins with the files of this snapshot. */
  snapshot?: string;
  /**
   * Additional files, owned by root and readable by all; written at every start. Missing folders
   * of the user's home belong to the user.
   */
  files?: SandboxFile[];
}

export interface SandboxFile {
  /** Absolute path inside, or one in the home of its user that begins with `~/`. */
  path: string;
  content: string;
}

/** `host`: this machine's `/usr`, read-only, under a generated minimal root. */
export type SandboxRoot =
  | { kind: "host" }
  /** An OCI image: `docker.io/library/debian:12`, `localhost:5000/app@sha256:…`. */
  | { kind: "image"; reference: string }
  /** A folder with a root filesystem; never written. */
  | { kind: "folder"; path: string };

/** A configured template for sandboxes. */
export interface SandboxSpec {
  id: string;
  root: SandboxRoot;
  /** The first process; null: an init that only reaps. */
  command: string[] | null;
  env: Record<string, string>;
  workingDir: string;
  /**
   * A string (`name`, `uid` or `uid:gid`) is looked up in the root. Null: the image's user, else
   * root; for `host` its own.
   */
  user: SandboxUser | string | null;
  /**
   * What root inside may do; with any, set-user-id programs such as `sudo` work too. Undefined:
   * what the driver gives to roots that can be written, such as images.
   */
  capabilities?: readonly Capability[] | undefined;
  limits: SandboxLimits;
  network: NetworkPolicy;
}

/** A spec whose image is pinned by digest, environment merged and user looked up. */
export interface PreparedSpec extends SandboxSpec {
  user: SandboxUser;
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
  /** CPUs, possibly a fraction. */
  cpus: number;
  /** Size of the writable layer. */
  diskBytes: number;
}

/** What a sandbox may reach through the egress proxy. */
export interface NetworkPolicy {
  mode: "none" | "allowlist" | "open";
  /** Only used with `allowlist`. */
  allow: AllowRule[];
  /** Secrets by which the proxy replaces placeholders. */
  credentials: CredentialRule[];
  /** Private address ranges (CIDR) that may be reached, such as that of an internal registry. */
  private?: string[];
  /** The sandbox was started with the certificates that the user's secrets need. */
  userSecrets?: boolean;
}

export interface AllowRule {
  /** `example.com`, or `*.example.com` for every name below it. */
  host: string;
  ports: number[];
  /**
   * HTTP methods, upper case; null allows all. For a rule with methods the proxy terminates TLS.
   */
  methods: string[] | null;
  /** The operator named this host, so that it may have a private address. */
  private?: true;
}

/** The variable `name` is a placeholder, replaced in requests to `hosts`. */
export interface CredentialRule {
  name: string;
  hosts: string[];
  /** The server's environment variable that holds the secret. */
  fromEnv: string;
  /** Headers, in lower case, that may carry it besides those for authentication. */
  headers?: readonly string[];
}

export interface ExecRequest {
  argv: string[];
  /** Default: the spec's working directory. */
  cwd?: string;
  /** Added to the spec's environment. */
  env?: Record<string, string>;
  /** Size of a pseudo-terminal; stdout then carries all output. */
  tty?: { cols: number; rows: number };
  /** The command runs for long and mostly waits, so it keeps no sandbox awake. `tty` implies it. */
  isSession?: boolean;
  /**
   * The owner that starts the command. When the sandbox has seen a higher epoch of the key, the
   * command does not start: its process prints a sentence to stderr and exits with 125.
   */
  fence?: Fence;
}

/** The owner of a conversation. Only the owner with the highest epoch may start commands. */
export interface Fence {
  /** Id of the conversation, at most 64 word characters. */
  key: string;
  /** Number of the owner. Each new owner has a higher epoch. */
  epoch: number;
}

export interface SandboxProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Empty with `tty`. */
  readonly stderr: Readable;
  /** Resolves when the process has ended and its output was read. Never rejects. */
  readonly exit: Promise<ExitStatus>;
  /**
   * True when `exit` has resolved because the connection to the process was lost. The process may
   * have ended, or may go on. Absent where a process ends with its connection.
   */
  readonly isLost?: boolean;
  /** Sends a signal (default SIGKILL). Does nothing after the end. */
  kill(signal?: NodeJS.Signals): void;
  /** Only with `tty`. */
  resize(cols: number, rows: number): void;
  /**
   * Unlocks the pseudo-terminal whose master side (`/dev/ptmx`) the process has at descriptor `fd`,
   * and returns the path of the terminal in the sandbox. A driver that cannot unlock it from
   * outside returns a command that unlocks it and prints its path; the process must run the command
   * itself. Absent where the driver can do neither. Rejects with any error when the unlock fails.
   */
  unlockTerminal?(fd: number, size: { cols: number; rows: number }): Promise<string | string[]>;
  /**
   * Closes the streams of the process and no longer waits for its end, so that the process outlives
   * the server. `exit` may never resolve. Absent where the driver has nothing to close.
   */
  leave?(): void;
}

/** `code` is null when a signal ended the process. */
export interface ExitStatus {
  code: number | null;
  signal: string | null;
}
